"""What to light up: for a selected place, the lines of every shown document that are the same computation.

Every step goes along links the compiler itself knew (``model.Link``, ``model.LineNode``, user stacks), never along names in a
text. Fast enough for a cursor move: the walk runs inside SQLite and only the shown documents are asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place
from fx_explorer.analysis.selection import ancestors, descendants, id_list, nodes_at, of_stage
from fx_explorer.session import SessionReader

SourceLine = tuple[int, int]
"""SourceFile id and line from 1."""

_COMPUTED = "FROM json_each(?) AS wanted JOIN line_node ON line_node.node = wanted.value"
"""SQL: the artifact lines that compute some nodes. CROSS JOIN and the ``+`` below keep SQLite from going
through all kernels of the output code for each node: with thousands of kernels that was 20 times slower."""


def linked_places(reader: SessionReader, place: Place, shown: Iterable[Document]) -> dict[Document, frozenset[int]]:
    """Lines (from 0) of each shown document that are linked to ``place``; an empty set where nothing is.

    From a node: everything it came from and everything that came of it. Between forward and backward the way leads up to the
    Dynamo graph and down again. From a source line: what was computed on that line, at every stage.
    """
    selection = _Selection(reader, place)
    return {document: selection.lines_in(document) for document in shown}


class _Selection:
    """The nodes of one selected place and what follows from them, each computed when a shown document first needs it."""

    def __init__(self, reader: SessionReader, place: Place) -> None:
        self._reader = reader
        self._place = place

    def lines_in(self, document: Document) -> frozenset[int]:
        own = frozenset([self._place.line]) if document == self._place.document else frozenset()
        if document.kind == "graph":
            return own | self._rows_of_graph(document)
        if document.kind == "source":
            return own or self._lines_of_source(document)
        return own | self._lines_of_artifact(document) | self._lines_of_bytecode(document)

    @cached_property
    def nodes(self) -> list[int]:
        return nodes_at(self._reader, self._place)

    @cached_property
    def relatives(self) -> frozenset[int]:
        """Ancestors and descendants. A source line is the beginning of everything: it only has descendants."""
        below = descendants(self._reader, self.nodes)
        return below if self._place.document.kind == "source" else below | ancestors(self._reader, self.nodes)

    @cached_property
    def across(self) -> frozenset[int]:
        """The same computation in the other direction: up to the Dynamo graph and down again."""
        return descendants(self._reader, of_stage(self._reader, self.relatives, "dynamo"))

    def _family(self, document: Document) -> frozenset[int]:
        here, there = self._place.document.direction, document.direction
        return self.across if here and there and here != there else self.relatives

    def _rows_of_graph(self, document: Document) -> frozenset[int]:
        graph = self._reader.get(model.Graph, document.id)
        first, end = graph.first_node, graph.first_node + graph.node_count
        return frozenset(node - first for node in self._family(document) if first <= node < end)

    # source

    @cached_property
    def stacks(self) -> list[tuple[model.Frame, ...]]:
        """The distinct user stacks of the selected nodes; of what they came from when they have none themselves."""
        return self._stacks_of(self.nodes) or self._stacks_of(self.relatives)

    def _stacks_of(self, nodes: Iterable[int]) -> list[tuple[model.Frame, ...]]:
        found = self._reader.query(
            "SELECT DISTINCT node.stack FROM json_each(?) JOIN node ON node.id = json_each.value WHERE node.stack",
            (id_list(nodes),),
        )
        return [stack.frames for stack in self._reader.by_ids(model.Stack, [row[0] for row in found])]

    def _lines_of_source(self, document: Document) -> frozenset[int]:
        """The innermost frame of each stack that lies in this file."""
        path = self._reader.get(model.SourceFile, document.id).path
        innermost = (next((f.line for f in reversed(stack) if f.file == path), 0) for stack in self.stacks)
        return frozenset(line - 1 for line in innermost if line)

    # artifacts

    def _lines_of_artifact(self, document: Document) -> frozenset[int]:
        computed = self._reader.query(
            f"SELECT DISTINCT line_node.line {_COMPUTED} WHERE line_node.artifact=?",
            (id_list(self._family(document)), document.id),
        )
        lines = {row[0] for row in computed}
        if document.stage == "output_code":
            lines |= self._lines_of_output_code(document)
        own = lines - {0}
        return frozenset(line - 1 for line in own) if own or not lines else frozenset([0])

    def _lines_of_output_code(self, document: Document) -> set[int]:
        """Kernel lines where they stand in the output code, and the calls."""
        nodes = id_list(self._family(document))
        inside = self._reader.query(
            f"SELECT DISTINCT kernel.first_line + line_node.line - 1 {_COMPUTED} "
            "CROSS JOIN kernel ON kernel.artifact = line_node.artifact "
            "WHERE +kernel.output_code=? AND kernel.first_line AND line_node.line",
            (nodes, document.id),
        )
        calls = self._reader.query(
            f"SELECT DISTINCT kernel_call.line {_COMPUTED} "
            "CROSS JOIN kernel ON kernel.artifact = line_node.artifact "
            "JOIN kernel_call ON kernel_call.kernel = kernel.id AND (NOT line_node.call OR line_node.call = kernel_call.id) "
            "WHERE +kernel.output_code=? AND kernel_call.line",
            (nodes, document.id),
        )
        return {row[0] for row in inside + calls}

    def _lines_of_bytecode(self, document: Document) -> frozenset[int]:
        """Instructions of the innermost frame that this code object has lines of."""
        if document.language != "bytecode":
            return frozenset()
        lines: dict[SourceLine, set[int]] = {}
        for row in self._reader.rows(model.LineSource, artifact=document.id):
            lines.setdefault((row.file, row.source_line), set()).add(row.line - 1)
        if self._place.document.kind == "source":
            return frozenset(lines.get((self._place.document.id, self._place.line + 1), ()))
        files = dict(self._reader.query("SELECT path, id FROM source_file"))
        wanted: set[int] = set()
        for stack in self.stacks:
            frames = ((files.get(frame.file, 0), frame.line) for frame in reversed(stack))
            wanted |= next((lines[frame] for frame in frames if frame in lines), set())
        return frozenset(wanted)
