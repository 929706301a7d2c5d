"""This module sets the compiler stances of the request, and calls the target often enough to show
their effect.

torch: torch/_dynamo/eval_frame.py, ``_callback_from_stance``.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import linecache
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import PurePath
from typing import Any

import torch

from fx_explorer.capture.recording.sources import CallSite
from fx_explorer.capture.torch_compat.versions import stances
from fx_explorer.errors import UsageError
from fx_explorer.model import ONCE_COMPILED, SECOND_CALL, STANCE, OptionInForce


def check_stance(stance: str) -> None:
    """Raise UsageError for a stance that this torch does not have."""
    if stance and stance not in stances():
        raise UsageError(
            f"there is no stance {stance!r}; torch {torch.__version__} has: {', '.join(stances())}"
        )


def set_stance(stance: str) -> None:
    """Set the stance for good: the process ends with this request."""
    torch.compiler.set_stance(stance)


def without_compiling() -> None:
    """Make everything run in Python that the program gives to torch.compile, from now on.

    ``torch.cond`` and similar operators still do what they do in a program that compiles nothing:
    they have Dynamo trace their branches. A stance that forbade it would cost them their gradients.

    Hook: ``torch._higher_order_ops.utils.setup_compilation_env``, which is around that tracing.
    """
    torch.compiler.set_stance("force_eager")
    utils: Any = importlib.import_module("torch._higher_order_ops.utils")
    original = getattr(utils, "setup_compilation_env", None)
    if original is None:
        return  # in this torch these operators do not use torch.compile

    @contextlib.contextmanager
    def in_operator() -> Iterator[object]:
        with torch.compiler.set_stance("default"), original() as backend:
            yield backend

    utils.setup_compilation_env = in_operator


def in_stance(stance: str) -> AbstractContextManager[object]:
    """Set the stance inside the block; an empty one leaves the program's own."""
    if stance:
        return torch.compiler.set_stance(stance)
    return contextlib.nullcontext()


def stances_of_calls(stance: str) -> tuple[str, ...]:
    """Return the stance of each call of a target. A recompile shows only once something is
    compiled, so the call before has no stance.
    """
    if stance in ONCE_COMPILED:
        return ("", stance)
    if stance in SECOND_CALL:
        return (stance, stance)
    return (stance,)


_WHY = {
    "force_eager": "the stance force_eager runs everything in Python",
    "eager_on_recompile": (
        "the stance eager_on_recompile uses what is compiled already, and nothing was when "
        "it was set"
    ),
    "eager_then_compile": (
        "the stance eager_then_compile runs the first call in Python, and there was no second one"
    ),
}


def why_nothing_compiled(options: Sequence[OptionInForce]) -> str:
    """Return which option in force kept torch from compiling, and where it was set; empty if none
    did.
    """
    for option in options:
        stance = option.value.strip('"') if option.name == STANCE else ""
        if stance in _WHY:
            return f"{_WHY[stance]} ({_set_by(option)})"
        if option.name == "compile.disable" and option.value == "true":
            return (
                f"torch.compile was called with disable=True for {option.function} "
                f"({_set_by(option)})"
            )
        if option.name == "dynamo.disable" and option.value == "true":
            return f"torch._dynamo.config.disable is true ({_set_by(option)})"
    return ""


def given_and_not_called(given: Mapping[str, CallSite]) -> str:
    """Return a sentence on the functions that were passed to torch.compile and not compiled, with
    the lines; empty without any.
    """
    if not given:
        return ""
    calls = [_describe_call(name, place) for name, place in given.items()]
    return (
        f"it gave {', '.join(calls)} to torch.compile, and nothing of it was compiled when it ran "
        "(torch.compile is lazy: it compiles when what it returns is called)"
    )


def _describe_call(name: str, place: CallSite) -> str:
    if not place.file:
        return name
    where = f"{PurePath(place.file).name}:{place.line}"
    unused = result_never_called(place)
    if unused:
        where += f", {unused}"
    return f"{name} ({where})"


def result_never_called(place: CallSite) -> str:
    """Return why the result of the torch.compile call at ``place`` is never called, according to
    the source: it is discarded, or bound to a name that is nowhere called or passed on. Empty if
    the source does not show it.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(place.file)))
    except (SyntaxError, ValueError, RecursionError):
        return ""
    scope: ast.AST = tree
    statement: ast.stmt | None = None
    for node in ast.walk(tree):  # outer nodes come first
        if isinstance(node, ast.stmt) and node.lineno <= place.line <= (node.end_lineno or 0):
            statement = node
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                scope = node
    if isinstance(statement, ast.Expr) and _is_compile_call(statement.value):
        return "whose result is thrown away"
    if not isinstance(statement, ast.Assign) or not _is_compile_call(statement.value):
        return ""
    target = statement.targets[0]
    if len(statement.targets) != 1 or not isinstance(target, ast.Name):
        return ""
    # Attributes of a class are reached through its objects.
    if isinstance(scope, ast.ClassDef) or _is_handed_on(scope, target.id, statement):
        return ""
    kind = "the name" if scope is tree else "the local name"
    return f"whose result is bound to {kind} {target.id} and never called"


def _is_compile_call(value: ast.expr) -> bool:
    """Return whether the value is the result of ``torch.compile(…)``, and not a decorator."""
    if not isinstance(value, ast.Call) or not value.args:
        return False
    return ast.unparse(value.func).split(".")[-1] == "compile"


def _is_handed_on(scope: ast.AST, name: str, binding: ast.stmt) -> bool:
    """Return whether ``name`` is used after the binding other than for an attribute that is not
    ``forward``.
    """
    asked = set()
    reads = []
    for node in ast.walk(scope):
        if isinstance(node, ast.Global | ast.Nonlocal):
            return True
        if isinstance(node, ast.Attribute) and node.attr not in ("forward", "__call__"):
            asked.add(id(node.value))
        elif isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            reads.append(node)
    last_line = binding.end_lineno or binding.lineno
    for read in reads:
        is_in_binding = binding.lineno <= read.lineno <= last_line
        if id(read) not in asked and not is_in_binding:
            return True
    return False


def _set_by(option: OptionInForce) -> str:
    if option.file:
        return f"set at {option.file}:{option.line}"
    if option.variable:
        return f"set by the environment variable {option.variable}"
    if option.set_by == "program":
        return "set by the program"
    return "asked for with an option of fx-explorer"
