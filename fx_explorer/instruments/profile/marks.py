"""Which events of a trace mark compiled code: every mark that torch has used since 2.0.

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

from fx_explorer.readers.kineto_trace import NONE, CpuThread, Trace

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
    """Return ``0/1`` for ``Torch-Compiled Region: 0/1``; empty where the mark names none."""
    return region.removeprefix(REGION).removeprefix(":").strip()


def is_generated(kernel: str) -> bool:
    """Return whether a kernel's name is one that Inductor gives."""
    return _GENERATED.match(kernel) is not None


class GraphMarks:
    """The calls of compiled graphs on one thread: around each event, the call and the operator that
    it made.
    """

    def __init__(self, trace: Trace, thread: CpuThread, kind: str) -> None:
        """``kind`` is the mark that calls of graphs have in this trace, as ``kind_of_marks``
        returns it.
        """
        self.graph = array("q", bytes(8 * len(thread.starts)))
        """Event → the mark around it, or itself; -1 for none."""
        self.top = array("q", bytes(8 * len(thread.starts)))
        """Event → the outermost operator around it, or itself, that lies within the mark; -1 for
        none. What is noted around operators is none: Inductor's own wrapper call is around all.
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
    """Return the mark that says most exactly what is a call of a graph; empty where there is none."""
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
    """Return the regions in which no marked call and no other region lies: one graph for inference."""
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
