"""This module decides in which states of torch one capture may be used: in the state of the
capture, and in any other in which the model provably does the same.

torch compiles again when a state that its guards look at has changed. Nothing is recompiled here,
and a function that was compiled for training is to run under ``torch.no_grad()``. So the model is
traced in the state that it is called in, once a state, and what Dynamo makes of it (graph and
bytecode) is compared. That computes nothing, and compiles nothing.
"""

from __future__ import annotations

import contextlib
import dis
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from fx_explorer.capture.torch_compat.private_names import tree_flatten, tree_leaves, tree_map
from fx_explorer.precompile import fingerprint, torch_state
from fx_explorer.precompile.torch_state import TorchState

_Tree = TypeVar("_Tree")

_OTHER_INPUTS = (
    "Capture and compile again with these inputs: Precompile.dynamo(model, *inputs). If sizes "
    "vary, capture with dynamic=True, or mark them with torch._dynamo.mark_dynamic."
)


@dataclass(frozen=True)
class Mismatch:
    """Why compiled code may not be used for a call."""

    what: str
    """The state, guard or input that differs from the capture."""
    sentence: str
    """The mismatch as a sentence, which begins with the state the function was compiled for."""
    remedy: str = _OTHER_INPUTS

    def __str__(self) -> str:
        return f"{self.sentence}\n{self.remedy}"


Trace = Callable[[], Any]
"""A Trace function traces the model in torch's present state; it returns torch's ``CaptureOutput``,
or the exception of a graph break.
"""


class States:
    """States decides whether the code of one capture may be used in torch's present state. It is
    thread-safe.
    """

    def __init__(self, guard: Any, traced: Any = None) -> None:
        """``guard`` is the ``GlobalStateGuard`` of torch's guard tree; ``traced`` is the
        ``CaptureOutput``, where it is at hand.
        """
        self._guard = guard
        self._then = TorchState(guard.__getstate__())
        self._traced = traced
        self._verdicts: dict[object, Mismatch | None] = {}
        self._lock = threading.Lock()

    def restore(self) -> None:
        """Set torch's guard back, so that it accepts only the state of the capture."""
        with self._lock:
            self._guard.__setstate__(self._then.text)

    def mismatch(
        self, manager: Any, local_names: dict[str, object], trace: Trace, inputs: object = ()
    ) -> Mismatch | None:
        """Return why the code may not be used for these locals; None when it may. ``inputs`` are
        the inputs that ``trace`` uses; they may be left out when these never change.
        """
        with self._lock:
            if manager.check(local_names):
                return None
            return self._looked_into(manager, local_names, trace, _case(inputs))

    def _looked_into(
        self, manager: Any, local_names: dict[str, object], trace: Trace, case: object
    ) -> Mismatch | None:
        now = TorchState.now()
        if mismatch := self._decisive(now):
            return mismatch
        if now.has_gradients:
            names = local_names
        else:
            names = without_inference_tensors(local_names)
        with torch.inference_mode(False), torch.set_grad_enabled(now.has_gradients):
            # Told to accept this state, torch's guards fail for the inputs only.
            self._guard.__setstate__(now.text)
            failed = first_failure(manager, names)
            if failed:
                mismatch = _of_guard(failed)
            else:
                mismatch = self._verdict(now, trace, case)
        # Where the code may be used the guard stays so, and the next call in this state passes at
        # once.
        if mismatch:
            self._guard.__setstate__(self._then.text)
        return mismatch

    def _decisive(self, now: TorchState) -> Mismatch | None:
        """Return the mismatch for a change of state that makes the code wrong for any model; None
        if there is none.
        """
        for name in torch_state.changes(self._then, now):
            if why := torch_state.why_it_matters(name, self._then, now, torch.cuda.is_available()):
                return self._mismatch(name, now, why)
        return None

    def _verdict(self, now: TorchState, trace: Trace, case: object) -> Mismatch | None:
        key = (now.text, case)
        if key not in self._verdicts:
            self._verdicts[key] = self._judged(now, trace)
        return self._verdicts[key]

    def _judged(self, now: TorchState, trace: Trace) -> Mismatch | None:
        changes = torch_state.changes(self._then, now)
        if not changes:
            return None
        telling = (torch_state.GRAD_MODE, torch_state.DEFAULT_DTYPE)
        name = next((name for name in telling if name in changes), changes[0])
        try:
            return self._compared(name, now, trace)
        # Whatever tracing raises is in the mismatch, and the code is not used.
        except Exception as error:  # noqa: BLE001
            return self._mismatch(
                name, now, f"the model cannot be traced in this state: {_in_a_line(error)}"
            )

    def _compared(self, name: str, now: TorchState, trace: Trace) -> Mismatch | None:
        """Trace the model in torch's present state, and return how it differs from the capture;
        None if it does not.
        """
        traced = _trace(trace)
        graph = traced.backend_input.graph_module
        if self._then.has_gradients and fingerprint.takes_fast_path(graph):
            with _without_fast_path():
                traced = _trace(trace)
            graph = traced.backend_input.graph_module
        if (
            name == torch_state.GRAD_MODE
            and now.has_gradients
            and fingerprint.computed_with_gradients(graph)
        ):
            return _gradients_are_asked_for(graph)
        if not now.has_gradients and fingerprint.turns_gradients_on(graph):
            return self._mismatch(
                name,
                now,
                "the model itself turns gradients on, but the compiled code does not have them "
                "then",
            )
        if self._traced:
            difference = _difference(self._traced, traced)
        else:
            difference = "unknown"
        if difference:  # what was captured may have been edited since, or be in a file
            with self._then.in_force():
                before = _trace(trace)
            difference = _difference(before, traced)
        if not difference and torch_state.DEFAULT_DTYPE in torch_state.changes(self._then, now):
            with self._then.in_force():
                lowered = fingerprint.lowered(graph)
            difference = fingerprint.first_difference(lowered, fingerprint.lowered(graph))
        if difference:
            return self._mismatch(name, now, f"the model then behaves differently: {difference}")
        return None

    def _mismatch(self, name: str, now: TorchState, why: str) -> Mismatch:
        what = f"{torch_state.describe_change(name, self._then, now)}, and {why}"
        where = torch_state.how_to_capture(name, now)
        remedy = f"Capture and compile again {where}: Precompile.dynamo(model, *inputs)."
        return Mismatch(what, f"the model was compiled for another state of torch: {what}", remedy)


@contextlib.contextmanager
def _without_fast_path() -> Iterator[None]:
    """Switch off the fused kernel of torch.nn's attention inside the block. torch takes it where
    gradients are off; the computation is the same.
    """
    was_on = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was_on)


def _trace(trace: Trace) -> Any:
    error = trace()
    if isinstance(error, Exception):
        raise error
    if error.backend_input is None:
        raise RuntimeError("no operation on a tensor is left")
    return error


def _difference(ours: Any, theirs: Any) -> str:
    before = fingerprint.operations(ours.backend_input.graph_module)
    after = fingerprint.operations(theirs.backend_input.graph_module)
    difference = fingerprint.first_difference(before, after)
    if difference:
        return difference
    if frame_of(ours) == frame_of(theirs):
        return ""
    return "for other inputs, it returns or changes a value that is not a tensor"


def _gradients_are_asked_for(graph: torch.fx.GraphModule) -> Mismatch:
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    asking = []
    for node in inputs:
        example = node.meta.get("example_value")
        if getattr(example, "requires_grad", False):
            asking.append(str(node.target))
    more = f" and {len(asking) - 3} more" if len(asking) > 3 else ""
    what = (
        "gradients were off when it was captured, but are required now by "
        f"{', '.join(asking[:3]) or 'the model'}{more}"
    )
    remedy = (
        "Call it under torch.no_grad(), or capture and compile again with gradients on: "
        "Precompile.dynamo(model, *inputs)."
    )
    return Mismatch(what, f"the model was compiled without gradients: {what}", remedy)


def _of_guard(failed: str) -> Mismatch:
    if "requires_grad mismatch" not in failed:
        return Mismatch(failed, f"the model was compiled for other inputs: {failed}")
    if "expected requires_grad=1" in failed:
        why = "It was compiled with gradients for that tensor, which no longer requires them."
    else:
        why = "It was compiled without gradients for that tensor, so they would be lost."
    return Mismatch(failed, f"the model was compiled for other inputs: {failed}. {why}")


def _case(inputs: object) -> str:
    """Return the properties of the inputs that a trace may depend on; a tensor's content is left
    out.
    """
    leaves, structure = tree_flatten(inputs)
    described = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            described.append((leaf.dtype, leaf.shape))
        else:
            described.append(leaf)
    return f"{described} {structure}"


def first_failure(manager: Any, local_names: dict[str, object]) -> str:
    """Return torch's text on the first guard of ``manager`` that fails; empty when all hold."""
    checked = manager.check_verbose(local_names)
    if checked.result:
        return ""
    return "\n".join(str(part).strip() for part in checked.verbose_code_parts)


def without_inference_tensors(values: _Tree) -> _Tree:
    """Return ``values``, with each inference tensor replaced by a plain tensor on the same storage.
    Dynamo's guards tell the two apart by their dispatch keys, which make no difference without
    gradients.
    """
    leaves = tree_leaves(values)
    if not any(isinstance(leaf, torch.Tensor) and leaf.is_inference() for leaf in leaves):
        return values
    stand_ins: dict[int, object] = {}

    def stand_in(leaf: object) -> object:
        return stand_ins.setdefault(id(leaf), _plain(leaf))

    replaced: _Tree = tree_map(stand_in, values)
    return replaced


def _plain(value: object) -> object:
    if not isinstance(value, torch.Tensor) or not value.is_inference():
        return value
    if type(value) is not torch.Tensor or value.layout is not torch.strided:
        return value
    with torch.inference_mode(False), torch.no_grad():
        empty = torch.empty(0, dtype=value.dtype, device=value.device)
        plain = empty.set_(
            value.untyped_storage(), value.storage_offset(), value.size(), value.stride()
        )
    # mark_dynamic and others leave their marks as attributes of the tensor.
    for name, attribute in vars(value).items():
        setattr(plain, name, attribute)
    return plain


def _in_a_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


# The bytecode that Dynamo made around a graph, in a form in which that of two traces of one model
# can be compared.

_OF_A_TRACE = re.compile(r"_\d+_c\d+(_\d+)*$")
"""Matches the end of a name that Dynamo gives to an object it puts among the globals: an address
and the compilation.
"""


def frame_of(traced: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return ``(inputs of the graph, in any order; actions afterwards, in order)`` of torch's
    ``CaptureOutput``.

    Dynamo orders the inputs of a graph by their first use, which differs where a custom
    ``autograd.Function`` is called.
    """
    output = traced.graph_capture_output
    graph = traced.backend_input.backend_id
    instructions = list(dis.get_instructions(output.bytecode))
    lines = [_line(instruction, output.f_globals, graph) for instruction in instructions]
    loaded = next(
        index for index, instruction in enumerate(instructions) if instruction.argval == graph
    )
    called = loaded + _length_of_call(instructions[loaded:])
    return tuple(sorted(lines[:called])), tuple(lines[called:])


def _length_of_call(instructions: list[dis.Instruction]) -> int:
    """Return the number of instructions of a call: they load a function (the first instruction
    does) and its arguments, some of them by calls, and call the function.
    """
    depth = 0
    for index, instruction in enumerate(instructions):
        depth += dis.stack_effect(instruction.opcode, instruction.arg)
        if instruction.opname.startswith("CALL") and depth <= 1:
            return index
    raise ValueError("the bytecode does not call the graph")


def _line(instruction: dis.Instruction, names: dict[str, Any], graph: str) -> str:
    value = instruction.argval
    if isinstance(value, str) and instruction.opname == "LOAD_GLOBAL":
        if value == graph:
            return f"{instruction.opname} the graph"
        if match := _OF_A_TRACE.search(value):
            return f"{instruction.opname} {value[: match.start()]} {names.get(value)!r}"
    return f"{instruction.opname} {value!r}"
