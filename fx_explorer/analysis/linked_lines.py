"""This module finds the highlighted lines for a selected place: in every shown document, the lines
of the same computation.

Every step follows links that the compiler itself knew (``model.Link``, ``model.LineNode``, user
stacks), never names in a text. It is fast enough for a cursor move: the walk runs inside SQLite,
and only the shown documents are asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place
from fx_explorer.analysis.graph_texts import GraphForm, graph_text, is_form
from fx_explorer.analysis.link_tables import LinesByArtifact, LinkQueries, Links
from fx_explorer.analysis.selected_nodes import definition, lines_of_users_kernel, nodes_at
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import source_paths
from fx_explorer.session.queries.graphs import nodes_of_stage, nodes_on_line, nodes_on_same_lines

SourceLine = tuple[int, int]
"""SourceFile id and line from 1."""


def linked_places(
    reader: SessionReader, place: Place, shown: Iterable[Document]
) -> dict[Document, frozenset[int]]:
    """Return the lines (from 0) of each shown document that are linked to ``place``; an empty set
    for none.

    From a node, these are everything it came from and everything that came from it. Between forward
    and backward, links lead up to the Dynamo graph and down again. From a source line, they are
    what was computed on that line, at every stage. A line of the user's own Triton kernel is linked
    to the same line in every text, and to the kernel's calls elsewhere.
    """
    return Selection(reader, place).linked(shown)


class Selection:
    """A selected place with its nodes and everything derived from them, computed when it is first
    needed.

    It is made once per move of the cursor, and used by whatever follows the cursor, highlights
    what is linked, or describes it.
    """

    def __init__(
        self,
        reader: SessionReader,
        place: Place,
        links: Links | None = None,
        nodes: list[int] | None = None,
    ) -> None:
        """``nodes`` are those of a row that stands for several, of which ``place`` is the first."""
        self.reader = reader
        self.place = place
        self._several = nodes
        self._links = links or LinkQueries(reader)
        self._others: dict[Place, Selection] = {}

    def of(self, place: Place) -> Selection:
        """Return the selection of a place to which this one leads: the same object each time."""
        if place == self.place:
            return self
        if place not in self._others:
            self._others[place] = Selection(self.reader, place, self._links)
        return self._others[place]

    def linked(self, shown: Iterable[Document]) -> dict[Document, frozenset[int]]:
        """Return the answer of ``linked_places`` for this selection."""
        return {document: self.lines_in(document) for document in shown}

    @cached_property
    def kernel_texts(self) -> frozenset[int]:
        """Return the texts with a line that is linked, of kernels and others, in both directions:
        no other text of a kernel has one.
        """
        texts = frozenset(self._computing_lines)
        if self.place.document.direction:
            texts |= frozenset(self._computing_lines_across)
        return texts

    def lines_in(self, document: Document) -> frozenset[int]:
        """Return the linked lines of a document, including the selected one if it is there."""
        linked = self.other_lines_in(document)
        if document == self.place.document:
            return linked | {self.place.line}
        return linked

    def other_lines_in(self, document: Document) -> frozenset[int]:
        """Return the linked lines of a document; the selected one only where it is linked to
        itself, as a node is.
        """
        if document.kind == "graph":
            return self._rows_of_graph(document)
        if is_form(document.kind):
            return self._lines_of_graph(document, document.kind)
        if document.kind == "source":
            if document == self.place.document:
                return frozenset()
            return self._lines_of_source(document)
        return self._lines_of_artifact(document) | self._lines_of_bytecode(document)

    @cached_property
    def nodes(self) -> list[int]:
        """Return the ids of the nodes at the place."""
        if self._several is not None:
            return self._several
        return nodes_at(self.reader, self.place)

    @cached_property
    def own_lines(self) -> list[model.LineSource]:
        """Return the selected line of a Triton kernel of the user's, in the user's file and in the
        kernels.
        """
        return lines_of_users_kernel(self.reader, self.place)

    @cached_property
    def relatives(self) -> frozenset[int]:
        """Return ancestors and descendants of the nodes. A source line has only descendants,
        because everything begins with it; but a line of a kernel is reached from the kernel's
        calls.
        """
        is_beginning = self.place.document.kind == "source" and not self.own_lines
        return self.below if is_beginning else self.family

    @cached_property
    def below(self) -> frozenset[int]:
        """Return the nodes, and all that come from them at every later stage. A node of another
        front end has no links: the nodes on its line are used.
        """
        if self.place.document.stage != "front_end":
            return self._links.descendants(self.nodes)
        alike: set[int] = set()
        for node in self.reader.by_ids(model.Node, self.nodes):
            if node.line:
                alike.update(self.reader.nodes_at_source(node.file, node.line, innermost=True))
        return self._links.descendants([*self.nodes, *alike])

    @cached_property
    def family(self) -> frozenset[int]:
        """Return those nodes, and all they come from."""
        return self.below | self._links.ancestors(self.nodes)

    @cached_property
    def computing(self) -> frozenset[int]:
        """Return the artifacts with a line that computes one of the related nodes."""
        if self.relatives == self.family:
            return frozenset(self._computing_lines)
        return frozenset(self._links.lines_computing(self.family))

    @cached_property
    def across(self) -> frozenset[int]:
        """Return the nodes of the same computation in the other direction: up to the Dynamo graph
        and down again.
        """
        return self._links.descendants(nodes_of_stage(self.reader, self.relatives, "dynamo"))

    def _is_across(self, document: Document) -> bool:
        """Return whether the document is of the other direction: the forward's in the backward."""
        direction, other = self.place.document.direction, document.direction
        return bool(direction and other and direction != other)

    def _rows_of_graph(self, document: Document) -> frozenset[int]:
        graph = self.reader.get(model.Graph, document.id)
        first, end = graph.first_node, graph.first_node + graph.node_count
        return frozenset(node - first for node in self._family_in(document) if first <= node < end)

    def _lines_of_graph(self, document: Document, form: GraphForm) -> frozenset[int]:
        lines = graph_text(self.reader, form, document.id).line_of_node
        return frozenset(lines[node] for node in self._family_in(document) if node in lines)

    def _on_same_lines(self, document: Document) -> frozenset[int]:
        """Return the nodes of another front end that come from the selected line, or from those of
        the selected nodes.
        """
        if self.place.document.id == document.id and self.place.document.stage == "front_end":
            return frozenset(self.nodes)
        if self.place.document.kind == "source":
            return frozenset(
                nodes_on_line(self.reader, document.id, self.place.document.id, self.place.line + 1)
            )
        return frozenset(nodes_on_same_lines(self.reader, document.id, self.nodes))

    def _family_in(self, document: Document) -> frozenset[int]:
        if document.stage == "front_end":
            return self._on_same_lines(document)
        if self._is_across(document):
            return self.across
        return self.relatives

    # source

    @cached_property
    def stacks(self) -> list[tuple[model.Frame, ...]]:
        """Return the distinct user stacks of the selected nodes; without any, those of the nodes
        they came from.
        """
        return self._links.user_stacks(self.nodes) or self._links.user_stacks(self.relatives)

    def _lines_of_source(self, document: Document) -> frozenset[int]:
        """Return the lines of a source file that the selection comes from: in each stack, the
        innermost frame in this file. An instruction has its line, even without a node.
        """
        path = self.reader.get(model.SourceFile, document.id).path
        if self.place.document.language == "bytecode":
            return frozenset(line - 1 for file, line in self.instructed if file == document.id)
        own_lines = {row.source_line - 1 for row in self.own_lines if row.file == document.id}
        if own_lines:
            return frozenset(own_lines)
        lines = set()
        for stack in self.stacks:
            innermost = next((frame.line for frame in reversed(stack) if frame.file == path), 0)
            if innermost:
                lines.add(innermost - 1)
        return frozenset(lines) or self._definitions(document)

    def _definitions(self, document: Document) -> frozenset[int]:
        """Return, in a file without calls, the lines of the user's kernels that compute the
        selection.
        """
        places = (definition(self.reader, artifact) for artifact in self._computing_lines)
        return frozenset(place.line for place in places if place and place.document == document)

    @cached_property
    def instructed(self) -> list[SourceLine]:
        """Return the source line of the selected instruction; for a call of the compiled graph, all
        lines of the graph.
        """
        artifact, line = self.place.document.id, self.place.line + 1
        rows = self.reader.sources_of_line(artifact, line)
        called = [row.node for row in self.reader.nodes_of_line(artifact, line)]
        return [(row.file, row.source_line) for row in rows] + self._innermost(
            self._links.user_stacks(called)
        )

    def _innermost(self, stacks: Iterable[tuple[model.Frame, ...]]) -> list[SourceLine]:
        """Return the innermost frame of each stack in every file."""
        files = self._file_ids
        lines = []
        for stack in stacks:
            innermost = {frame.file: frame.line for frame in stack}
            for file, line in innermost.items():
                if file in files:
                    lines.append((files[file], line))
        return lines

    @cached_property
    def _file_ids(self) -> dict[str, int]:
        return {path: file for file, path in source_paths(self.reader).items()}

    # artifacts

    @cached_property
    def _computing_lines(self) -> LinesByArtifact:
        return self._with_own(self._links.lines_computing(self.relatives))

    @cached_property
    def _computing_lines_across(self) -> LinesByArtifact:
        return self._with_own(self._links.lines_computing(self.across))

    def _with_own(self, computing: LinesByArtifact) -> LinesByArtifact:
        for row in self.own_lines:
            computing.setdefault(row.artifact, set()).add((row.line, 0))
        return computing

    def _computing_in(self, document: Document) -> LinesByArtifact:
        """Return the lines that compute the selection in texts of the document's direction."""
        if self._is_across(document):
            return self._computing_lines_across
        return self._computing_lines

    def _lines_of_artifact(self, document: Document) -> frozenset[int]:
        computing = self._computing_in(document)
        if document.stage == "kernel" and document.id not in computing:
            return frozenset()
        lines = {line for line, _ in computing.get(document.id, ())}
        if document.stage == "output_code":
            lines |= _lines_in_output_code(self._links, document.id, computing)
        # Line 0 stands for the whole text, and counts where nothing more exact is known.
        if lines == {0}:
            return frozenset([0])
        return frozenset(line - 1 for line in lines - {0})

    def _lines_of_bytecode(self, document: Document) -> frozenset[int]:
        """Return the rows of a bytecode listing that belong to the selection: those of the selected
        source line, of the lines of the selected instructions, or, from a node's stack, of the
        innermost frame that has lines here.
        """
        if document.language != "bytecode":
            return frozenset()
        lines: dict[SourceLine, set[int]] = {}
        for row in self.reader.sources_of_lines(document.id):
            lines.setdefault((row.file, row.source_line), set()).add(row.line - 1)
        if self.place.document.kind == "source":
            return frozenset(lines.get((self.place.document.id, self.place.line + 1), ()))
        rows: set[int] = set()
        if self.place.document.language == "bytecode":
            for line in self.instructed:
                rows.update(lines.get(line, ()))
            return frozenset(rows)
        for stack in self.stacks:
            for frame in reversed(stack):
                line = self._file_ids.get(frame.file, 0), frame.line
                if line in lines:
                    rows |= lines[line]
                    break
        return frozenset(rows)


def _lines_in_output_code(links: Links, output_code: int, computing: LinesByArtifact) -> set[int]:
    """Return the lines (from 1) of kernels where they are in the output code, and of the wrapper's
    calls.
    """
    lines: set[int] = set()
    calls: set[int] = set()
    kernels = []
    whole = []
    for kernel, artifact, first_line in links.embedded_kernels(output_code, computing):
        kernels.append(kernel)
        for line, call in computing[artifact]:
            if line and first_line:
                lines.add(first_line + line - 1)
            calls.add(call)
        if any(not call for _, call in computing[artifact]):
            whole.append(kernel)
    return lines | set(links.call_lines(kernels, calls, whole))
