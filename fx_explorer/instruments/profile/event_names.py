"""This module classifies events of a trace by their names: a call of compiled code, a kernel of the
generated code, or work outside of compiled graphs, by the kind of code that launched it.

Every mark of compiled code that torch has used since 2.0 is known.
``## Call CompiledFxGraph … ##`` (``torch/_inductor/output_code.py``, before 2.6 ``codecache.py``)
is one call of a graph. Before there were any, or where a backend has none:
``graph_0_inductor_wrapper_call`` (``profiler_mark_wrapper_call``), the autograd function of
AOTAutograd (``CompiledFunction``, ``CompiledFunctionBackward``), and Dynamo's region, which is
``Torch-Compiled Region`` or, with the name of the compilation, ``Torch-Compiled Region: 0/1``.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence

from fx_explorer.model import OutsideKind
from fx_explorer.readers.kineto_trace import NONE, CpuThread, Trace
from fx_explorer.readers.torch_trace.places import is_torch

REGION = "Torch-Compiled Region"
GRAPH = "Call CompiledFxGraph "
WRAPPER = "inductor_wrapper_call"
FORWARD, BACKWARD = "CompiledFunction", "CompiledFunctionBackward"

_GENERATED = re.compile(
    r"triton_(?:poi|red|per|tem|for|fused|mm|mix|unk|spl|split_scan|cooperative_\w{3})_|triton__"
)


def is_region(name: str) -> bool:
    return name.startswith(REGION)


def compilation_of(region: str) -> str:
    """Return ``0/1`` for ``Torch-Compiled Region: 0/1``; empty for a mark without a name."""
    return region.removeprefix(REGION).removeprefix(":").strip()


def is_generated(kernel: str) -> bool:
    """Return whether a kernel's name was given by Inductor."""
    return _GENERATED.match(kernel) is not None


class GraphMarks:
    """Finds, for an event on a thread, the call of a compiled graph around it, and the operator
    within that call.
    """

    def __init__(self, trace: Trace, thread: CpuThread, kind: str) -> None:
        """``kind`` is the mark that calls of graphs have in this trace, as ``kind_of_marks``
        returns it.
        """
        self.graph = array("q", bytes(8 * len(thread.starts)))
        """Event → the mark that encloses it, or the event itself if it is a mark; -1 for none."""
        self.top = array("q", bytes(8 * len(thread.starts)))
        """Event → the outermost operator within its mark, which may be the event itself; -1 for
        none. Records around operators do not count: Inductor's own wrapper call encloses all of
        them.
        """
        marked = _marked(trace, thread, kind)
        for event, parent in enumerate(thread.parents):  # a parent comes before what lies in it
            graph = self.graph[parent] if parent != NONE else NONE
            top = self.top[parent] if parent != NONE else NONE
            if event in marked:
                graph, top = event, NONE
            elif graph != NONE and top == NONE and not thread.annotations[event]:
                top = event
            self.graph[event], self.top[event] = graph, top


def kind_of_marks(names: Sequence[str]) -> str:
    """Return the most specific of these marks for a call of a graph; empty where there is none."""
    if any(GRAPH in name for name in names):
        return GRAPH
    if any(WRAPPER in name for name in names):
        return WRAPPER
    if FORWARD in names or BACKWARD in names:
        return FORWARD
    return REGION if any(map(is_region, names)) else ""


def _marked(trace: Trace, thread: CpuThread, kind: str) -> set[int]:
    """Return the events of a thread that are calls of graphs."""
    if not kind:
        return set()
    if kind in (GRAPH, WRAPPER):
        numbers = {at for at, name in enumerate(trace.names.all) if kind in name}
        return {event for event, name in enumerate(thread.names) if name in numbers}
    functions = {at for at, name in enumerate(trace.names.all) if name in (FORWARD, BACKWARD)}
    calls = {event for event, name in enumerate(thread.names) if name in functions}
    return calls | _regions_without_calls(trace, thread, calls)


def _regions_without_calls(trace: Trace, thread: CpuThread, calls: set[int]) -> set[int]:
    """Return the regions that enclose neither a marked call nor another region: one graph for
    inference.
    """
    numbers = {at for at, name in enumerate(trace.names.all) if is_region(name)}
    regions = {event for event, name in enumerate(thread.names) if name in numbers}
    around = array("q", bytes(8 * len(thread.starts)))
    holding: set[int] = set()
    for event, parent in enumerate(thread.parents):
        outer = around[parent] if parent != NONE else NONE
        if outer != NONE and (event in calls or event in regions):
            holding.add(outer)
        around[event] = event if event in regions else outer
    return regions - holding


# What generated code calls a kernel, and what a trace calls it: one key for both.


_NUMBERED = re.compile(r"_\d+$")
_OVERLOAD = re.compile(r"^(?:torch\.ops\.)?(?P<library>\w+)\.(?P<name>\w+)(?:\.\w+)?$")

SAME_OPERATOR = {"bias_addmm": "addmm", "_mm_plus_mm": "mm"}
"""Functions of Inductor's that call an operator of another name
(``torch/_inductor/select_algorithm.py``, ``kernel/mm.py``).
"""


def key_of_call(name: str) -> str:
    """Return ``mm`` of ``extern_kernels.mm``, ``convolution_backward`` of
    ``torch.ops.aten.convolution_backward.default``, and ``mylib::scaled`` of
    ``torch.ops.mylib.scaled.default``. The name of a generated kernel is returned unchanged.
    """
    match = _OVERLOAD.match(name)
    if not match:
        return name
    library, operator = match["library"], match["name"]
    if library in ("extern_kernels", "aten"):
        return SAME_OPERATOR.get(operator, operator)
    return f"{library}::{operator}"


def key_of_event(name: str) -> str:
    """Return ``mm`` of ``aten::mm``. Operators of other libraries, and kernels, are returned
    unchanged.
    """
    return name.removeprefix("aten::")


def without_number(key: str) -> str:
    """Return ``triton_poi_fused_add`` of ``triton_poi_fused_add_3``, because the number depends on
    the other kernels.
    """
    return _NUMBERED.sub("", key)


# What ran outside of compiled graphs.


OPTIMIZER = "Optimizer.step#"
ENGINE = "autograd::engine::evaluate_function"
COMPILING = frozenset(
    (
        "dynamo",
        "entire_frame_compile",
        "_compile.compile_inner (dynamo_timed)",
        "backend_compile",
        "inductor_compile",
    )
)

KIND_WORDS: dict[OutsideKind, str] = {
    "unjoined": "in compiled graphs, but no kernel is known",
    "wrapper": "around compiled graphs (AOTAutograd)",
    "optimizer": "the optimizer",
    "autograd": "backward that was not compiled",
    "compiling": "while torch compiled",
    "break": "between graphs, in Python",
    "eager": "other code that was not compiled",
    "not known": "launched by something that the profile does not name",
}

_STACK_LINE = re.compile(r'File "([^"]+)", line (\d{1,9})')


def kind_of(names: Sequence[str]) -> OutsideKind:
    """Return the kind of code that launched something. ``names``: the events around the launch, the
    innermost first.
    """
    if any(name.startswith(OPTIMIZER) for name in names):
        return "optimizer"
    if any(name in COMPILING for name in names):
        return "compiling"
    if FORWARD in names:
        return "wrapper"
    if any(name.startswith(ENGINE) for name in names):
        if any(BACKWARD in name for name in names):
            return "wrapper"
        return "autograd"
    return "break" if any(map(is_region, names)) else "eager"


def region_of(names: Sequence[str]) -> str:
    """Return the name of the enclosing compiled function; empty for none."""
    return next((compilation_of(name) for name in names if is_region(name)), "")


def operator_of(names: Sequence[str]) -> str:
    """Return the operator that the program called: the outermost of torch's operators in a stack of
    names.
    """
    of_libraries = (name for name in names if "::" in name)
    autograd = ("autograd::", "torch::autograd::")
    operators = [name for name in of_libraries if not name.startswith(autograd)]
    if operators:
        return operators[-1]
    if names:
        return names[0]
    return ""


def line_of(stacks: Sequence[str]) -> tuple[str, int]:
    """Return the innermost line outside of torch in all of these stacks; ('', 0) without one, or if
    they differ.
    """
    found = {line for line in map(_innermost, stacks) if line[1]}
    return found.pop() if len(found) == 1 else ("", 0)


def _innermost(stack: str) -> tuple[str, int]:
    lines = [(file, int(number)) for file, number in _STACK_LINE.findall(stack)]
    own = [line for line in lines if not is_torch(line[0])]
    return next(reversed(own or lines), ("", 0))
