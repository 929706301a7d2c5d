"""This module reads the stacks of the nodes that each kernel computes, and gives them to the nodes.

The graphs of a log name only the innermost line of a node: of a collective, a line of torch's. The
record is ``inductor_provenance_tracking_kernel_stack_traces`` (torch/_inductor/compile_fx.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fx_explorer.model import Frame
from fx_explorer.readers.torch_trace.compilation_records import Compilations
from fx_explorer.readers.torch_trace.graph_records import GraphRecords
from fx_explorer.readers.torch_trace.inductor_records import InductorRecords, KernelTable
from fx_explorer.readers.torch_trace.places import Places, is_torch
from fx_explorer.readers.torch_trace.records import Record
from fx_explorer.session import MovedNode, SessionWriter
from fx_explorer.torch_texts.reports import parse_stack

KERNEL_STACKS = "inductor_provenance_tracking_kernel_stack_traces"

Line = tuple[str, int]

Stacks = dict[Line, set[tuple[Frame, ...]]]
"""Line of torch's → the stacks that end there."""


class KernelStacks:
    """Gives nodes that a log places in torch their whole stack, and the user's line in it."""

    def __init__(
        self,
        writer: SessionWriter,
        compilations: Compilations,
        graphs: GraphRecords,
        code: InductorRecords,
        places: Places,
    ) -> None:
        self._writer = writer
        self._compilations = compilations
        self._graphs = graphs
        self._code = code
        self._places = places

    def add(self, record: Record) -> None:
        """Read a record, which follows the table of the same code."""
        compilation = self._compilations.id(record)
        table = self._code.take_table(compilation)
        if table is None or not record.payload.strip():
            return
        stacks_of_kernels = record.parse(read_stacks)
        known = self._graphs.of(compilation).by_stage
        direction = table.direction
        same_names = [
            known.get(("post_grad", direction), {}),
            known.get(("forward", direction), {}),
            known.get(("backward", direction), {}),
            known.get(("joint", ""), {}),
        ]
        given = [known.get(("pre_grad", ""), {}), known.get(("dynamo", ""), {})]
        moved: list[MovedNode] = []
        for name, stacks in _stacks_by_node(table, stacks_of_kernels).items():
            ids = [graph[name] for graph in same_names if name in graph]
            for origin in table.made_of.get(name, ()):
                ids += [graph[origin] for graph in given if origin in graph]
            moved += self._moved(ids, stacks)
        self._writer.move_nodes(moved)

    def _moved(self, nodes: Sequence[int], stacks: Stacks) -> Iterator[MovedNode]:
        """Yield where the nodes belong, for each line of torch's that one of them may have."""
        for (file, line), ending_there in stacks.items():
            if len(ending_there) > 1:  # two calls of one function of torch's, in one kernel
                continue
            (frames,) = ending_there
            user = self._places.user_frame(frames)
            if user is None or is_torch(user.file):
                continue
            stack = self._places.stack(frames)
            before = self._places.file(file), line
            after = self._places.file(user.file), user.line
            for node in nodes:
                yield MovedNode(node, before, after, stack)


class KernelStackTexts(NamedTuple):
    """The stacks of a record, each once: the kernels of 48 layers have 7,500, and 140 different
    ones.
    """

    stacks: list[Stacks]
    of_kernel: dict[str, list[int]]
    """Kernel → positions of its stacks."""


def read_stacks(text: str) -> KernelStackTexts:
    """Return the stacks of each kernel in a record's text."""
    stacks_of_kernels = json.loads(text)
    read = KernelStackTexts([], {})
    if not isinstance(stacks_of_kernels, dict):
        return read
    known: dict[str, int] = {}
    for kernel, texts in stacks_of_kernels.items():
        positions = read.of_kernel[kernel] = []
        for stack in texts if isinstance(texts, list) else ():
            key = str(stack)
            if key not in known:
                known[key] = len(read.stacks)
                read.stacks.append(_lines_in_torch(key))
            positions.append(known[key])
    return read


def _stacks_by_node(table: KernelTable, read: KernelStackTexts) -> dict[str, Stacks]:
    """Return node after Inductor's passes → the stacks of torch's lines on the way to it: what all
    kernels that compute it have.
    """
    stacks_by_node: dict[str, Stacks] = {}
    for kernel, positions in read.of_kernel.items():
        stacks = _stacks_in_torch(read.stacks[at] for at in positions)
        for name in table.computed.get(kernel, ()):
            earlier = stacks_by_node.get(name)
            stacks_by_node[name] = _common(earlier, stacks) if earlier else stacks
    return stacks_by_node


def _common(first: Stacks, second: Stacks) -> Stacks:
    """Return what both have; where only one has a line, what that has."""
    common: Stacks = {}
    for line in {**first, **second}:
        in_both = first.get(line, set()) & second.get(line, set())
        common[line] = in_both or first.get(line, set()) | second.get(line, set())
    return common


def _stacks_in_torch(stacks_of_kernel: Iterable[Stacks]) -> Stacks:
    """Return each line of torch's in some stacks, with the frames up to it: a node may be of an
    outer function of torch's, such as the ``copy_`` of a collective in place.
    """
    stacks: Stacks = {}
    for lines in stacks_of_kernel:
        for line, ending_there in lines.items():
            stacks.setdefault(line, set()).update(ending_there)
    return stacks


def _lines_in_torch(text: str) -> Stacks:
    """Return each line of torch's in one stack."""
    stacks: Stacks = {}
    frames = parse_stack(text)
    for at, frame in enumerate(frames):
        if is_torch(frame.file):
            stacks.setdefault((frame.file, frame.line), set()).add(frames[: at + 1])
    return stacks
