"""Where modified bytecode calls the compiled graph, and which lines of the source that stands for.

A line that went into the graph as a whole has no instruction left: the call is all there is of it.
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterable, Iterator, Sequence

from fx_explorer.capture.dynamo.bytecode.instructions import BytecodeInstruction, instructions
from fx_explorer.capture.dynamo.bytecode.stack_depths import stack_depths
from fx_explorer.capture.recording.segments import RecordedGraph
from fx_explorer.capture.recording.state import Recording
from fx_explorer.model import LineNode

COMPILED_GRAPH = "__compiled_fn_"


def graph_of(recording: Recording, code: types.CodeType) -> RecordedGraph | None:
    """Return Dynamo's graph that ``code``, just made, calls. None when it calls none, or several:
    then it is not known which is which.
    """
    names = {one.argument for one in instructions(code) if _loads_graph(one)}
    segment = recording.of(recording.compilation_name()).segment
    return segment.dynamo if segment and len(names) == 1 else None


def link_calls(
    recording: Recording, artifact: int, rows: Iterable[int], graph: RecordedGraph
) -> None:
    """Link these lines of the listing to every node of the graph."""
    nodes = list(graph.ids.values())
    recording.writer.add_all(
        LineNode(artifact, row, node, "call_site") for row in rows for node in nodes
    )


def call_offsets(code: types.CodeType) -> list[int]:
    """Return the offsets of the instructions that fetch a compiled graph, and of those that call
    it.
    """
    found = list(instructions(code))
    depths = stack_depths(code)
    offsets = []
    for position, one in enumerate(found):
        if _loads_graph(one):
            offsets += [one.offset, *itertools.islice(_calls_after(found, position, depths), 1)]
    return offsets


def _loads_graph(one: BytecodeInstruction) -> bool:
    return one.opname.startswith("LOAD_") and one.argument.startswith(COMPILED_GRAPH)


def _calls_after(
    found: Sequence[BytecodeInstruction], loaded: int, depths: dict[int, int]
) -> Iterator[int]:
    """Yield the offsets of the calls that may take what was loaded off the stack. The first is the
    one that does.
    """
    for one, after in zip(found[loaded + 1 :], found[loaded + 2 :], strict=False):
        lowest = depths.get(found[loaded].offset)
        if (
            lowest is not None
            and one.opname.startswith("CALL")
            and depths.get(after.offset, lowest + 2) <= lowest + 1
        ):
            yield one.offset


def source_lines(recording: Recording, graph: RecordedGraph, code: types.CodeType) -> list[int]:
    """Return the lines of the function of ``code`` that nodes of the graph come from, among them
    those that call what was inlined.
    """
    own = {line for _, _, line in code.co_lines() if line}
    traces = {str(node.meta["stack_trace"]) for node in graph.ids if node.meta.get("stack_trace")}
    frames = (frame for trace in traces for frame in recording.sources.parse(trace))
    return sorted(
        {frame.line for frame in frames if frame.file == code.co_filename and frame.line in own}
    )


def in_words(lines: Sequence[int]) -> str:
    """Return lines in words, as ``lines 12-15, 18``; empty for none."""
    stretches: list[list[int]] = []
    for line in lines:
        if stretches and stretches[-1][-1] == line - 1:
            stretches[-1].append(line)
        else:
            stretches.append([line])
    said = ", ".join(f"{one[0]}-{one[-1]}" if len(one) > 1 else str(one[0]) for one in stretches)
    return f"line{'s' * (len(lines) > 1)} {said}" if said else ""
