"""This module checks whether the compiled code would accept other inputs, by its guards. Nothing is
run and nothing is compiled.

torch keeps the compiled code of a function with its guards: ``_debug_get_cache_entry_list(code)``
(torch/_dynamo/eval_frame.py). Their tree shows which check fails first (``check_verbose``), given
the locals of a call. Those can be made from the inputs for the function that is called with them.
The functions it calls, and the rest of it after a graph break, take values that only a run
computes: their guards are not asked.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from fx_explorer.capture.dynamo.failed_guards import GuardScope, tensor_source
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.live_guards import LiveTree
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.private_names import (
    _debug_get_cache_entry_list as compiled_codes,
)
from fx_explorer.capture.torch_compat.private_names import strip_local_scope, wrap_inline
from fx_explorer.errors import UsageError
from fx_explorer.model import GuardAnswer, GuardCheck

ONLY_BY_RUNNING = "the program computes its values, so only a run of the program can tell"

NOTHING_COMPILED = "Nothing was compiled, so there are no guards to check."

THROWN_AWAY = (
    "torch no longer has this compiled code (torch._dynamo.reset() was called, or an object it "
    "was made for is gone)"
)


def what_if(recording: Recording, expression: str) -> str:
    """Check the guards, store the answers, and return them in a sentence. Raises UsageError for
    inputs that cannot be made or passed.
    """
    live = recording.live_guards
    if live.program is None:
        raise UsageError("No call has finished yet whose inputs could be replaced.")
    args, kwargs = _inputs(live.program, expression)
    frame = _frame(recording, live.program.callable, args, kwargs)
    live.questions += 1
    answers = [
        replace(guard_answer, question=live.questions, inputs=expression)
        for guard_answer in _answers(recording, frame)
    ]
    recording.writer.add_all(answers)
    return _summary(recording, frame, answers)


def _inputs(program: Any, expression: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        # To make the inputs must not compile anything.
        with torch.compiler.set_stance("force_eager"):
            made: tuple[tuple[Any, ...], dict[str, Any]] = program.inputs(expression)
            return made
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(
            f"{expression} raises {one_line(f'{type(error).__name__}: {error}')}"
        ) from error


# the locals of the call


@dataclass(frozen=True, slots=True)
class _CalledFrame:
    code: types.CodeType
    f_locals: dict[str, Any]


def _frame(
    recording: Recording, called: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> _CalledFrame:
    """Return the first call that was compiled, with the locals it would have. Raises UsageError
    when there is none.
    """
    known = recording.live_guards.codes()
    if called is None:
        return _first_frame(recording, args, kwargs)
    for function, leading in _functions(called):
        if function.__code__ in known:
            return _CalledFrame(
                function.__code__,
                {**_closure(function), **_bound(function, (*leading, *args), kwargs)},
            )
    wrapped = _wrapped(recording, called)
    if wrapped is not None:
        return _CalledFrame(wrapped.code, {**wrapped.still_there(), "args": args, "kwargs": kwargs})
    if not known:
        raise UsageError(NOTHING_COMPILED)
    raise UsageError(
        "The function that is called with the inputs was not compiled itself, only functions that "
        "it calls or resumes in: whether their guards hold is known only by running the program."
    )


def _wrapped(recording: Recording, called: Any) -> LiveTree | None:
    """Return the guards of a callable that torch wraps in a function of its own to compile it, such
    as torch.nn's own forward.
    """
    for tree in recording.live_guards.all():
        if tree.code in wrap_inline.__code__.co_consts and tree.still_there().get("fn") is called:
            return tree
    return None


def _first_frame(
    recording: Recording, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> _CalledFrame:
    """Return the frame of a script's first compiled function. Its defaults are not known, so every
    argument has to be given.
    """
    trees = recording.live_guards.all()
    if not trees:
        raise UsageError(NOTHING_COMPILED)
    code, kept = trees[0].code, trees[0].still_there()
    # Only its signature is wanted, so what it closes over may be empty.
    function = types.FunctionType(
        code, {}, closure=tuple(types.CellType() for _ in code.co_freevars)
    )
    leading = tuple(kept[name] for name in code.co_varnames[:1] if name in kept)
    return _CalledFrame(code, {**kept, **_bound(function, (*leading, *args), kwargs)})


def _functions(called: Any) -> Iterator[tuple[types.FunctionType, tuple[Any, ...]]]:
    """Yield the Python functions that calling ``called`` enters, outermost last, with the values
    that are put before the arguments.
    """
    called = (
        getattr(called, "_torchdynamo_orig_callable", None)
        or getattr(called, "_orig_mod", None)
        or called
    )
    if isinstance(called, torch.nn.Module):
        yield from _functions(called.forward)
        for name in ("_call_impl", "_wrapped_call_impl"):
            yield from _functions(getattr(called, name))
    elif isinstance(called, types.MethodType):
        for function, more in _functions(called.__func__):
            yield function, (called.__self__, *more)
    elif isinstance(called, functools.partial):
        for function, more in _functions(called.func):
            yield function, (*more, *called.args)
    elif isinstance(called, types.FunctionType):
        yield called, ()
    elif isinstance(method := vars(type(called)).get("__call__"), types.FunctionType):
        yield method, (called,)


def _closure(function: types.FunctionType) -> dict[str, Any]:
    """Return the variables of a closure that have a value."""
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        value = _content(cell)
        if value is not None:
            values[name] = value
    return values


def _content(cell: types.CellType) -> Any:
    """Return the value of a closure variable; None when it has no value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _bound(
    function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    signature = inspect.signature(function, follow_wrapped=False)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(
            f"{function.__qualname__} cannot be called with these inputs: {error}."
        ) from error
    bound.apply_defaults()
    return dict(bound.arguments)


# the answers


def _answers(recording: Recording, frame: _CalledFrame) -> Iterator[GuardAnswer]:
    """Yield one answer per compilation. Those of the called function come first, in the order in
    which torch tries them.
    """
    asked = set()
    for entry in compiled_codes(frame.code):
        tree = recording.live_guards.of(entry.guard_manager)
        if tree is not None:
            asked.add(tree.compilation)
            late = recording.live_guards.late.get(tree.compilation, [])
            yield _answer(tree, entry.guard_manager, frame.f_locals, late)
    for tree in recording.live_guards.all():
        if tree.compilation not in asked:
            reason = THROWN_AWAY if tree.code == frame.code else ONLY_BY_RUNNING
            yield GuardAnswer(0, 0, "", tree.compilation, "not_asked", reason)


def _answer(
    tree: LiveTree, manager: Any, f_locals: dict[str, Any], late: list[GuardCheck]
) -> GuardAnswer:
    """Check whether the guards of one compilation accept these locals. Checks that lowering added
    later are made if the tree accepts.
    """
    answer = GuardAnswer(0, 0, "", tree.compilation, "accepted")
    try:
        with tree.state.in_force():
            result = manager.check_verbose(f_locals)
            failed = ""
            if not result.result:
                failed = _first_that_fails(manager, f_locals, result.verbose_code_parts)
    # It compares objects of the program, and their methods may raise anything.
    except Exception as error:  # noqa: BLE001
        reason = one_line(f"its guards raise {type(error).__name__}: {error}")
        return replace(answer, answer="not_asked", reason=reason)
    if result.result:
        scope = GuardScope(manager, f_locals)
        check = next((check for check in late if scope.fails(check.code)), None)
        if check is None:
            return answer
        failed = check.code
    else:
        check = next((tree.checks[key] for key in keys_of(failed) if key in tree.checks), None)
    rejected = replace(answer, answer="rejected", reason=strip_local_scope(failed))
    if check:
        return replace(rejected, check=check.id, file=check.file, line=check.line)
    return rejected


def _first_that_fails(manager: Any, f_locals: dict[str, Any], parts: list[str]) -> str:
    """Return the first condition that fails. Relations between sizes are one check, so each of them
    is evaluated to find the failing one, as torch does.
    """
    if len(parts) == 1:
        return parts[0]
    scope = GuardScope(manager, f_locals)
    return next((part for part in parts if scope.fails(part)), " or ".join(parts))


def keys_of(failed: str) -> tuple[str, ...]:
    """Return the keys by which a failed check is looked up. Most messages are the code of the
    check, with a remark.
    """
    if failed.startswith("GLOBAL_STATE"):
        return ("GLOBAL_STATE",)
    if failed.startswith("Duplicate tensor"):
        return ("NO_TENSOR_ALIASING",)
    source = tensor_source(failed)
    if source:
        return (f"TENSOR_MATCH {source}",)
    return (failed.partition("  # ")[0].rstrip(),)


def check_keys(check: GuardCheck) -> tuple[str, ...]:
    """Return the keys of a row, for ``keys_of`` to find."""
    if check.kind in ("GLOBAL_STATE", "NO_TENSOR_ALIASING"):
        return (check.kind,)
    if check.kind == "TENSOR_MATCH":
        return (f"TENSOR_MATCH {check.source}",)
    return (check.code, *check.code.split(" and "))


def _summary(recording: Recording, frame: _CalledFrame, answers: list[GuardAnswer]) -> str:
    names = {tree.compilation: tree.name for tree in recording.live_guards.all()}
    accepted = [answer for answer in answers if answer.answer == "accepted"]
    rejected = [answer for answer in answers if answer.answer == "rejected"]
    failing = [
        f"[{names[answer.compilation]}] fails at {_short(answer.reason)}" for answer in rejected
    ]
    beyond = sum(answer.reason == ONLY_BY_RUNNING for answer in answers)
    if accepted:
        text = f"[{names[accepted[0].compilation]}] would be reused: all its guards hold"
    elif rejected:
        text = f"{frame.code.co_name} would recompile: {'; '.join(failing)}"
    else:
        text = f"{frame.code.co_name} would recompile: {THROWN_AWAY}"
    if beyond:
        text += (
            f". {beyond} further compilation(s) are reached only by running, and were not checked"
        )
    return text


def _short(reason: str) -> str:
    return one_line(reason.partition("  # ")[0])
