"""This module reads Inductor's results: its output code with the kernels in it, and which nodes
each call computes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

from fx_explorer.model import Direction, Frame, Kernel, KernelCall, LineNode, Link, Stage
from fx_explorer.model.rows.graph import How
from fx_explorer.readers.torch_trace.compilation_records import Compilations
from fx_explorer.readers.torch_trace.graph_records import GraphRecords, LinkValues
from fx_explorer.readers.torch_trace.records import Record
from fx_explorer.session import SessionWriter
from fx_explorer.torch_texts.output_code import (
    PrintedKernel,
    direction_of,
    read_kernels,
    read_wrapper,
)
from fx_explorer.torch_texts.printed_graph import PrintedGraph

AOT = "AOTInductor"

LineNodeValues: TypeAlias = tuple[int, int, int, How, int]
"""The fields of a ``LineNode``."""


@dataclass(frozen=True, slots=True)
class _CommentedCall:
    """A call with the node names in the code's comments, for code without a table."""

    artifact: int
    line: int
    call: int
    """Id of the KernelCall; 0 if the kernel has only one call."""
    sources: tuple[str, ...]
    fragment: tuple[str, ...]
    library: str = ""
    """The function of a library that it calls; empty for a kernel."""


@dataclass(frozen=True, slots=True)
class _Written:
    """An output code whose calls are not linked yet, because torch writes their nodes after the
    code.
    """

    artifact: int
    direction: Direction
    calls: tuple[tuple[int, int, str, str], ...]
    """Kernel's artifact, line of the output code, torch's handle of the call, and the name of what
    is called.
    """
    commented: tuple[_CommentedCall, ...] = ()
    """The same calls, with the content of the comments above them."""


@dataclass(frozen=True, slots=True)
class KernelTable:
    """torch's own table of one output code: the nodes of each call, and what they were made of."""

    direction: Direction
    computed: dict[str, list[str]]
    """Call → names of the nodes after Inductor's passes."""
    made_of: dict[str, list[str]]
    """Such a node → names of nodes before autograd."""


class InductorRecords:
    """Makes rows of output code, kernels, and the nodes they compute."""

    def __init__(
        self, writer: SessionWriter, compilations: Compilations, graphs: GraphRecords
    ) -> None:
        self._writer = writer
        self._compilations = compilations
        self._graphs = graphs
        self._written: dict[int, list[_Written]] = {}
        self._without_table: dict[int, list[_Written]] = {}
        """Output code that torch took from its cache, where no table was."""
        self._wrappers: dict[int, Record] = {}
        """Wrappers of AOTInductor whose kernels are in the record after them."""
        self._early: dict[int, Record] = {}
        """Tables of nodes that came before AOTInductor's code, as torch before 2.7 writes them."""
        self._tables: dict[int, KernelTable] = {}
        """The last table of each compilation, for the record of stacks after it."""

    def handles(self) -> dict[str, Callable[[Record], None]]:
        return {
            "inductor_output_code": self._code,
            "inductor_aot_wrapper_code": self._aot_wrapper,
            "inductor_aot_kernel_code": self._aot_kernels,
            "inductor_provenance_tracking_node_mappings": self._mappings,
        }

    def finish_compilation(self, compilation: int) -> None:
        """Finish a compilation that has no further records. Its calls without a provenance table
        are linked to the nodes named in the code's comments.
        """
        self._tables.pop(compilation, None)
        for written in (
            *self._written.pop(compilation, ()),
            *self._without_table.pop(compilation, ()),
        ):
            self._writer.add_values(LineNode, self._nodes_of_comments(compilation, written))

    def _code(self, record: Record) -> None:
        if not record.compilation:
            self._compilations.begin_without_frame(record)
        self._add(record, "python", direction_of(record.payload), record.parse(read_kernels))

    def _aot_wrapper(self, record: Record) -> None:
        if not record.compilation:
            self._compilations.begin_without_frame(record, AOT)
        self._wrappers[self._compilations.id(record)] = record

    def _aot_kernels(self, record: Record) -> None:
        """Add a wrapper of AOTInductor, now that the record after it has the kernels in C++."""
        if record.payload.strip():
            self._compilations.add_artifact(
                record, "listing", "output_code", "Kernels", "cpp", record.payload
            )
        wrapper = self._wrappers.pop(self._compilations.id(record), None)
        if wrapper is not None:
            self._add(wrapper, "cpp", "inference", read_wrapper(wrapper.payload, record.payload))
            table = self._early.pop(self._compilations.id(record), None)
            if table is not None:
                self._mappings(table)

    def finish(self) -> None:
        """Add the wrappers that no record of kernels followed."""
        for wrapper in self._wrappers.values():
            self._add(wrapper, "cpp", "inference", read_wrapper(wrapper.payload))

    def _add(
        self, record: Record, language: str, direction: Direction, kernels: Iterable[PrintedKernel]
    ) -> None:
        compilation = self._compilations.id(record)
        bucket = self._graphs.bucket(compilation)
        if bucket:
            record = replace(record, subgraph=bucket)
        code = self._compilations.add_artifact(
            record, "output_code", "output_code", "output code", language, record.payload, direction
        )
        state = self._compilations.state(record)
        if state:
            state.seen.update(("schedule", "output_code", "kernel"))
        calls: list[tuple[int, int, str, str]] = []
        commented: list[_CommentedCall] = []
        for position, kernel in enumerate(kernels):
            artifact = self._source(record, kernel, direction)
            row = Kernel(
                0,
                compilation,
                direction,
                position,
                kernel.name,
                kernel.language,
                artifact,
                code,
                kernel.first_line,
            )
            kernel_id = self._writer.add(row)
            ids = [
                self._writer.add(KernelCall(0, kernel_id, i, call.line))
                for i, call in enumerate(kernel.calls)
            ]
            library = kernel.name if kernel.language == "extern" else ""
            for call_id, call in zip(ids, kernel.calls, strict=True):
                of_call = call_id if len(ids) > 1 else 0
                fragment = kernel.fragment if call_id == ids[0] else ()
                commented.append(
                    _CommentedCall(artifact, call.line, of_call, call.sources, fragment, library)
                )
            calls += [(artifact, call.line, call.handle, kernel.name) for call in kernel.calls]
        self._written.setdefault(compilation, []).append(
            _Written(code, direction, tuple(calls), tuple(commented))
        )

    def _source(self, record: Record, kernel: PrintedKernel, direction: Direction) -> int:
        if not kernel.source:
            return 0
        language = kernel.language
        return self._compilations.add_artifact(
            record, "kernel", "kernel", kernel.name, language, kernel.source, direction
        )

    def _mappings(self, record: Record) -> None:
        """Add torch's own links: of the calls of the code before it to post-grad nodes, and of
        these to Dynamo's.
        """
        compilation = self._compilations.id(record)
        waiting = self._written.get(compilation, [])
        table: dict[str, Any] = json.loads(record.payload) if record.payload.strip() else {}
        computed, made_of = _table(table.get("cppCodeToPost")), _table(table.get("postToPre"))
        # torch keeps no table with code that it takes from its cache, and makes none of a backward.
        if not computed:
            for written in waiting[-1:]:
                self._without_table.setdefault(compilation, []).append(written)
                self._tables[compilation] = _table_of_comments(written)
            del waiting[-1:]
            return
        if waiting:
            written = waiting.pop()
            self._writer.add_values(LineNode, self._line_nodes(record, written, computed))
            self._writer.add_values(Link, self._links(record, written.direction, made_of))
            self._tables[compilation] = KernelTable(written.direction, computed, made_of)
        elif not record.compilation:
            self._early[compilation] = record

    def take_table(self, compilation: int) -> KernelTable | None:
        """Return the table that was read last, once; None without one."""
        return self._tables.pop(compilation, None)

    def _line_nodes(
        self, record: Record, written: _Written, computed: dict[str, list[str]]
    ) -> Iterator[LineNodeValues]:
        """Yield the nodes of each call. torch before 2.9 names no single call, but all calls of a
        function: each is then linked to the nodes of all.
        """
        known = self._graphs.of(self._compilations.id(record))
        nodes = known.by_stage.get(("post_grad", written.direction), {})
        for artifact, line, handle, called in written.calls:
            how: How = "origins"
            names: Sequence[str] = computed.get(called, ())
            if handle in computed:
                how, names = "call_site", computed[handle]
            for name in names:
                if name in nodes:
                    yield written.artifact, line, nodes[name], how, 0
                    if artifact:
                        yield artifact, 0, nodes[name], "origins", 0

    def _nodes_of_comments(self, compilation: int, written: _Written) -> Iterator[LineNodeValues]:
        """Yield the nodes of each call by the comments above it. A name in the backward belongs to
        its own graph, and a name in the forward to Dynamo's, if there is one: torch names the
        source of a node, or else the node.
        """
        known = self._graphs.of(compilation).by_stage
        graph = known.get(("post_grad", written.direction), {})
        captured = known.get(("pre_grad", "")) or known.get(("dynamo", ""), {})
        if written.direction == "backward":
            first, second = (graph, captured)
        else:
            first, second = (captured, graph)
        printed = self._graphs.of(compilation).printed
        passed = printed.get(("post_grad", written.direction))
        traced = printed.get(("pre_grad", "")) or printed.get(("dynamo", ""))
        stage: Stage = "backward" if written.direction == "backward" else "forward"
        before = known.get((stage, written.direction), {})
        library_nodes = LibraryNodes(passed, traced)
        for call in written.commented:
            of_fragment = [graph[name] for name in call.fragment if name in graph]
            if call.library and passed:
                name = library_nodes.node_of_call(call.library, call.sources)
                # The comment has Dynamo's nodes, but of a node that a pass made only some.
                of_fragment = [graph[name]] if name in graph and name not in before else []
            named = [first.get(name) or second.get(name) for name in call.sources]
            for node in dict.fromkeys(of_fragment or filter(None, named)):
                yield written.artifact, call.line, node, "call_site", 0
                if call.artifact:
                    yield call.artifact, 0, node, "origins", call.call

    def _links(
        self, record: Record, direction: Direction, made_of: dict[str, list[str]]
    ) -> Iterator[LinkValues]:
        """Yield links from the graph that AOTAutograd traced to its input graph. torch records them
        for nodes whose names are still in the graph after Inductor's passes; nodes made by the
        passes are linked directly.
        """
        known = self._graphs.of(self._compilations.id(record)).by_stage
        given = known.get(("pre_grad", "")) or known.get(("dynamo", ""), {})
        traced = known.get(("joint", "")) or known.get(("forward", direction), {})
        passed = known.get(("post_grad", direction), {})
        for name, origins in made_of.items():
            child = traced.get(name) or passed.get(name)
            if not child:
                continue
            for origin in origins:
                if origin in given:
                    yield child, given[origin], "from_node"


class LibraryNodes:
    """Finds the node of the post-grad graph that a library call computes."""

    def __init__(self, graph: PrintedGraph | None, traced: PrintedGraph | None) -> None:
        """``traced`` is the graph whose nodes the comments name, which torch traced ``graph``
        from.
        """
        self._by_operator: dict[str, list[str]] = {}
        """Operator, with and without its overload → its nodes."""
        self._by_line: dict[tuple[str, tuple[str, int]], list[str]] = {}
        """Operator and line → its nodes there."""
        self._traced_lines: dict[str, tuple[str, int]] | None = None
        """Name of a traced node → its line; None without a traced graph."""
        for target, name, frame in _places_of_nodes(graph):
            for operator in _operators_of(target):
                self._by_operator.setdefault(operator, []).append(name)
                if frame:
                    at = operator, (frame.file, frame.line)
                    self._by_line.setdefault(at, []).append(name)
        if traced is not None:
            self._traced_lines = {}
            for _, name, frame in _places_of_nodes(traced):
                if frame:
                    self._traced_lines[name] = (frame.file, frame.line)

    def node_of_call(self, called: str, sources: Sequence[str]) -> str:
        """Return the only node with the operator of a call, else the only one of them on a line of
        the nodes in the comment above the call. Empty where there are several.
        """
        operator = called.removeprefix("extern_kernels.").removeprefix("torch.ops.")
        if called.startswith("extern_kernels."):
            operator = f"aten.{operator}"
        nodes = self._by_operator.get(operator, [])
        if len(nodes) > 1 and self._traced_lines is not None:
            lines = {self._traced_lines[name] for name in sources if name in self._traced_lines}
            nodes = []
            for line in lines:
                nodes += self._by_line.get((operator, line), [])
        return nodes[0] if len(nodes) == 1 else ""


def _places_of_nodes(graph: PrintedGraph | None) -> Iterator[tuple[str, str, Frame | None]]:
    """Yield target, name and line of each node."""
    if graph is not None:
        columns = graph.column("target"), graph.column("name"), graph.column("frame")
        yield from zip(*columns, strict=True)


@lru_cache(maxsize=4_096)
def _operators_of(target: str) -> tuple[str, ...]:
    """Return ``aten``, ``aten.mm`` and ``aten.mm.default`` for the last of them."""
    parts = target.split(".")
    return tuple(".".join(parts[: count + 1]) for count in range(len(parts)))


def _table_of_comments(written: _Written) -> KernelTable:
    """Return the nodes of each call by the comments above it, as torch's table has them."""
    computed: dict[str, list[str]] = {}
    for (_, _, handle, _), call in zip(written.calls, written.commented, strict=True):
        computed[handle] = [*call.sources, *call.fragment]
    return KernelTable(written.direction, computed, {})


def _table(value: Any) -> dict[str, list[str]]:
    if not isinstance(value, dict):
        return {}
    table = {}
    for key, names in value.items():
        if isinstance(names, list):
            table[str(key)] = [str(name) for name in names]
    return table
