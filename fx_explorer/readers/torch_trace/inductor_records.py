"""What Inductor made: its output code with the kernels in it, and which nodes each call computes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fx_explorer.model import Direction, Kernel, KernelCall, LineNode, Link
from fx_explorer.readers.torch_trace.compilations import Compilations
from fx_explorer.readers.torch_trace.graph_records import GraphRecords
from fx_explorer.readers.torch_trace.records import Record
from fx_explorer.session import SessionWriter
from fx_explorer.torch_texts.output_code import PrintedKernel, direction_of, read_kernels


@dataclass(frozen=True, slots=True)
class _Written:
    """An output code whose calls are not linked yet: torch traces what they compute after the code."""

    artifact: int
    direction: Direction
    calls: tuple[tuple[int, int, str], ...]
    """Kernel's artifact, line of the output code, and torch's handle of the call."""


class InductorRecords:
    """Makes rows of output code, kernels, and the nodes they compute."""

    def __init__(self, writer: SessionWriter, compilations: Compilations, graphs: GraphRecords) -> None:
        self._writer = writer
        self._compilations = compilations
        self._graphs = graphs
        self._written: dict[int, list[_Written]] = {}

    def handles(self) -> dict[str, Callable[[Record], None]]:
        return {
            "inductor_output_code": self._code,
            "inductor_provenance_tracking_node_mappings": self._mappings,
        }

    def forget(self, compilation: int) -> None:
        """Forget the calls of a compilation of which nothing more comes."""
        self._written.pop(compilation, None)

    def _code(self, record: Record) -> None:
        direction = direction_of(record.payload)
        code = self._compilations.add_artifact(
            record, "output_code", "output_code", "output code", "python", record.payload, direction
        )
        compilation = self._compilations.id(record)
        if record.compilation:
            self._compilations.of(record).seen.update(("schedule", "output_code", "kernel"))
        calls: list[tuple[int, int, str]] = []
        for position, kernel in enumerate(read_kernels(record.payload)):
            artifact = self._source(record, kernel, direction)
            row = Kernel(0, compilation, direction, position, kernel.name, kernel.language, artifact, code, kernel.first_line)
            kernel_id = self._writer.add(row)
            self._writer.add_all(KernelCall(0, kernel_id, i, call.line) for i, call in enumerate(kernel.calls))
            calls += [(artifact, call.line, call.handle) for call in kernel.calls]
        self._written.setdefault(compilation, []).append(_Written(code, direction, tuple(calls)))

    def _source(self, record: Record, kernel: PrintedKernel, direction: Direction) -> int:
        if kernel.language == "extern":
            return 0
        language = kernel.language
        return self._compilations.add_artifact(record, "kernel", "kernel", kernel.name, language, kernel.source, direction)

    def _mappings(self, record: Record) -> None:
        """Link what torch says: the calls of the code before it to post-grad nodes, and these to Dynamo's."""
        found: dict[str, Any] = json.loads(record.payload)
        waiting = self._written.get(self._compilations.id(record), [])
        if waiting:
            written = waiting.pop()
            self._writer.add_all(self._line_nodes(record, written, _table(found.get("cppCodeToPost"))))
            self._writer.add_all(self._links(record, written.direction, _table(found.get("postToPre"))))

    def _line_nodes(self, record: Record, written: _Written, computed: dict[str, list[str]]) -> Iterator[LineNode]:
        known = self._graphs.of(self._compilations.id(record))
        nodes = known.by_stage.get(("post_grad", written.direction), {})
        for artifact, line, handle in written.calls:
            for name in computed.get(handle, ()):
                if name in nodes:
                    yield LineNode(written.artifact, line, nodes[name], "call_site")
                    if artifact:
                        yield LineNode(artifact, 0, nodes[name], "origins")

    def _links(self, record: Record, direction: Direction, made_of: dict[str, list[str]]) -> Iterator[Link]:
        """Yield links from the graph that AOTAutograd traced to the one it was given: torch has them for
        nodes that have the same names in the graph after Inductor's passes.
        """
        known = self._graphs.of(self._compilations.id(record)).by_stage
        given = known.get(("pre_grad", "")) or known.get(("dynamo", ""), {})
        traced = known.get(("joint", "")) or known.get(("forward", direction), {})
        for name, origins in made_of.items():
            if name in traced:
                yield from (Link(traced[name], given[one], "from_node") for one in origins if one in given)


def _table(value: Any) -> dict[str, list[str]]:
    if not isinstance(value, dict):
        return {}
    return {str(key): [str(one) for one in names] for key, names in value.items() if isinstance(names, list)}
