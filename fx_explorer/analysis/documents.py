"""This module has documents and places: a document is anything that a pane can show, and a place is
a line of it. Selection, links, find and back/forward use both.

A document is a source file, a graph (its rows are nodes), a graph as Python or as a table (written
when it is looked at), or an artifact (bytecode, IR, output code, a kernel's code). A library call
has no code of its own: its place is the line of the output code that makes the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.graph_texts import GraphForm, form_title, graph_text, is_form
from fx_explorer.session import SessionReader, answered_once
from fx_explorer.session.file_names import file_name
from fx_explorer.session.queries.compilations import sources_to_read
from fx_explorer.session.queries.kernels import first_kernel_texts, texts_but_of_kernels

DocumentKind = Literal["source", "graph", "artifact"] | GraphForm


def is_of_graph(kind: DocumentKind) -> bool:
    """Return whether the id of a document is that of a Graph, and its lines are nodes."""
    return kind == "graph" or is_form(kind)


GRAPH_TITLES: dict[str, str] = {
    "dynamo": "Dynamo graph",
    "pre_grad": "Pre-grad graph",
    "joint": "Joint graph",
    "forward": "Forward graph",
    "backward": "Backward graph",
    "post_grad": "Post-grad",
}

ARTIFACT_TITLES: dict[str, str] = {
    "bytecode_original": "Bytecode as written",
    "bytecode_modified": "Bytecode after Dynamo",
    "bytecode_python": "Bytecode after Dynamo, as Python",
    "guard_tree": "Guard tree",
    "ir_pre_fusion": "IR before fusion",
    "ir_post_fusion": "IR after fusion",
    "output_code": "Output code",
    "config": "Config in force",
    "compile_options": "Compile options",
}
"""Titles by kind of artifact. Kernels and listings have their own titles."""

_OF_CONFIGURATIONS = ("candidate", *model.LEVELS)


@dataclass(frozen=True, slots=True)
class Document:
    """A document. Documents are the same if kind and id are; the other fields describe it in a
    pane.
    """

    kind: DocumentKind
    id: int
    """Id of the SourceFile, Artifact, or Graph."""
    title: str = field(default="", compare=False)
    language: str = field(default="text", compare=False)
    """A language of highlight.py; ``graph`` for a graph."""
    line_count: int = field(default=0, compare=False)
    compilation: int = field(default=0, compare=False)
    """Id of the Compilation; 0 for a source file."""
    owner: str = field(default="", compare=False)
    """Name of the compilation (``0/0``); empty for a source file."""
    stage: model.Stage | None = field(default=None, compare=False)
    direction: model.Direction = field(default="", compare=False)

    @property
    def full_title(self) -> str:
        """Return ``model.py``, or ``[0/0] Forward graph`` for what belongs to a compilation."""
        return f"[{self.owner}] {self.title}" if self.owner else self.title

    @property
    def is_level(self) -> bool:
        """Return whether the document is a level below a kernel, such as PTX."""
        is_published = self.stage == "backend"  # a backend's own text, of whatever language
        return self.kind == "artifact" and self.language in model.LEVELS and not is_published


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a document, from 0: the row of a graph (a node's position) or a line of a text."""

    document: Document
    line: int = 0


def documents(reader: SessionReader) -> list[Document]:
    """Return everything that can be shown: source files first, then each compilation's documents by
    stage.
    """
    every = source_documents(reader)
    for compilation in reader.rows(model.Compilation):
        every += documents_of(reader, compilation)
    return every + front_end_documents(reader)


def front_end_documents(reader: SessionReader) -> list[Document]:
    """Return the graphs of front ends other than Dynamo; they belong to no compilation."""
    return [graph_document(graph) for graph in reader.rows(model.Graph, stage="front_end")]


def read_sources(reader: SessionReader) -> list[Document]:
    """Return the source files that a user may want to read: the user's own, and those with a node
    or a break (a library's model).
    """
    wanted = sources_to_read(reader)
    return [document for document in source_documents(reader) if document.id in wanted]


def texts_titled(reader: SessionReader, *titles: str) -> list[Document]:
    """Return the texts that torch wrote under one of these titles: ``fusion`` for what
    TORCH_LOGS=fusion printed.
    """
    every = documents(reader)
    return [text for text in every if text.kind == "artifact" and text.title in titles]


def source_documents(reader: SessionReader) -> list[Document]:
    """Return the source files with a stored text, the user's own first."""
    files = [f for f in reader.rows(model.SourceFile) if f.text]
    files.sort(key=lambda f: not f.is_user)
    return [source_document(f) for f in files]


def documents_of(reader: SessionReader, compilation: model.Compilation) -> list[Document]:
    """Return the graphs and artifacts of one compilation, in the order of the stages, forward
    before backward.

    A template's other choices, and levels below a source, come with a configuration
    (kernels/candidates.py), not here.
    """
    return _in_order(reader, compilation, reader.rows(model.Artifact, compilation=compilation.id))


def documents_but_kernels(reader: SessionReader, compilation: model.Compilation) -> list[Document]:
    """Return the documents without the kernels, which are not read, because there may be
    100,000.
    """
    return _in_order(
        reader,
        compilation,
        reader.by_ids(model.Artifact, texts_but_of_kernels(reader, compilation.id)),
    )


def first_of_kernels(reader: SessionReader, compilation: model.Compilation) -> list[Document]:
    """Return the first kernel of each direction."""
    artifacts = reader.by_ids(model.Artifact, first_kernel_texts(reader, compilation.id))
    return [artifact_document(artifact, compilation.name) for artifact in artifacts]


def texts_of(reader: SessionReader, compilation: int, ids: Iterable[int]) -> list[Document]:
    """Return the texts that belong to a compilation, in the order of the stages."""
    rows = reader.by_ids(model.Artifact, ids)
    artifacts = [artifact for artifact in rows if artifact.compilation == compilation]
    owner = _owner(reader, compilation) if artifacts else ""
    shown = [artifact for artifact in artifacts if artifact.kind not in _OF_CONFIGURATIONS]
    documents = [artifact_document(artifact, owner) for artifact in shown]
    return sorted(documents, key=_stage_order)


def _in_order(
    reader: SessionReader, compilation: model.Compilation, artifacts: Sequence[model.Artifact]
) -> list[Document]:
    graphs = _below_parents(reader.rows(model.Graph, compilation=compilation.id))
    published = _positions(reader.rows(model.PublishedStage, compilation=compilation.id), graphs)
    documents = [graph_document(graph, compilation.name) for graph in graphs]
    texts = [artifact for artifact in artifacts if artifact.kind not in _OF_CONFIGURATIONS]
    documents += [artifact_document(artifact, compilation.name) for artifact in texts]

    def order(document: Document) -> tuple[object, ...]:
        return *_stage_order(document), published.get((document.kind, document.id), 0)

    return sorted(documents, key=order)


def _positions(
    stages: Sequence[model.PublishedStage], graphs: Sequence[model.Graph]
) -> dict[tuple[str, int], int]:
    """Return (kind, id) of a document → its position among the published ones. A nested graph has
    the position of its enclosing graph.
    """
    positions: dict[tuple[str, int], int] = {}
    for stage in stages:
        if stage.graph:
            key = ("graph", stage.graph)
        else:
            key = ("artifact", stage.artifact)
        positions[key] = stage.position
    if not positions:
        return positions
    for graph in graphs:
        if graph.stage == "backend" and ("graph", graph.parent) in positions:
            positions["graph", graph.id] = positions["graph", graph.parent]
    return positions


def _below_parents(graphs: Sequence[model.Graph]) -> list[model.Graph]:
    """Return the graphs with nested ones right after the graph that calls them. A nested region's
    joint graph is made earlier.
    """
    by_id = {graph.id: graph for graph in graphs}

    def is_root(graph: model.Graph) -> bool:
        parent = by_id.get(graph.parent)
        return parent is None or parent.stage != graph.stage

    inside: dict[int, list[model.Graph]] = {}
    for graph in graphs:
        parent = 0 if is_root(graph) else graph.parent
        inside.setdefault(parent, []).append(graph)
    ordered = []
    pending = inside.pop(0, [])[::-1]
    while pending:
        graph = pending.pop()
        ordered.append(graph)
        pending += inside.pop(graph.id, [])[::-1]
    reached = {graph.id for graph in ordered}
    # In a damaged session graphs may be nested in one another.
    return ordered + [graph for graph in graphs if graph.id not in reached]


def _stage_order(document: Document) -> tuple[int, int]:
    if document.stage:
        stage = model.STAGES.index(document.stage)
    else:
        stage = len(model.STAGES)
    return stage, model.DIRECTIONS.index(document.direction)


def source_document(file: model.SourceFile) -> Document:
    return Document("source", file.id, file_name(file.path), "python", file.line_count)


def graph_document(graph: model.Graph, owner: str = "") -> Document:
    return Document(
        "graph",
        graph.id,
        graph_title(graph),
        "graph",
        graph.node_count,
        graph.compilation,
        owner,
        graph.stage,
        graph.direction,
    )


def graph_form(document: Document, kind: DocumentKind) -> Document:
    """Return the document of the same graph that is its rows, its code or its table."""
    title = document.title.removesuffix(f" · {form_title(document.kind)}")
    language = {"graph": "graph", "code": "python"}.get(kind, "text")
    if is_form(kind):
        shown = f"{title} · {form_title(kind)}"
    else:
        shown = title
    return replace(document, kind=kind, title=shown, language=language)


def artifact_document(artifact: model.Artifact, owner: str = "") -> Document:
    return Document(
        "artifact",
        artifact.id,
        artifact_title(artifact),
        artifact.language,
        artifact.line_count,
        artifact.compilation,
        owner,
        artifact.stage,
        artifact.direction,
    )


def graph_title(graph: model.Graph) -> str:
    """Return ``Dynamo graph``, ``Backward · post-grad``, ``Forward graph · cond_true_0`` or
    ``Joint graph · Block.forward``.
    """
    title = GRAPH_TITLES.get(graph.stage, graph.stage)
    if graph.stage == "backend":
        return " · ".join(filter(None, (graph.label, graph.direction, graph.name)))
    if graph.stage == "front_end":
        front_end, _, name = graph.name.partition(".")
        return " · ".join(filter(None, (model.FRONT_END_CALLS.get(front_end, front_end), name)))
    if graph.stage == "post_grad":
        if graph.direction:
            title = f"{graph.direction.capitalize()} · post-grad"
    elif graph.stage == "forward" and graph.direction == "inference":
        title = "Inference graph"
    if model.is_bucket_label(graph.label):
        return " · ".join(filter(None, (title, graph.name, graph.label)))
    name = graph.label or graph.name
    return f"{title} · {name}" if name else title


def artifact_title(artifact: model.Artifact) -> str:
    """Return ``Output code · forward`` or ``IR after fusion · backward ·
    __marked_inductor_submod0``.
    """
    title = ARTIFACT_TITLES.get(artifact.kind)
    if title is None:
        return artifact.title or artifact.kind
    part = ""
    if artifact.title.lower().startswith(title.lower()):
        part = artifact.title[len(title) :].strip()
    part = part.removeprefix("· ")
    if " " in part and not model.is_bucket_label(part):
        part = ""
    return " · ".join(filter(None, (title, artifact.direction, part)))


@answered_once
def document_of(reader: SessionReader, kind: DocumentKind, row_id: int) -> Document:
    """Return the document with this kind and id. Raises KeyError without one."""
    if kind == "source":
        return source_document(reader.get(model.SourceFile, row_id))
    if is_of_graph(kind):
        graph = reader.get(model.Graph, row_id)
        return graph_form(graph_document(graph, _owner(reader, graph.compilation)), kind)
    artifact = reader.get(model.Artifact, row_id)
    return artifact_document(artifact, _owner(reader, artifact.compilation))


def _owner(reader: SessionReader, compilation: int) -> str:
    if not compilation:
        return ""
    return reader.get(model.Compilation, compilation).name


# lines


def text_of(reader: SessionReader, document: Document) -> str:
    """Return the text of a source file, of an artifact, or of a graph as code or table; empty for
    a graph itself, whose rows are read by page.
    """
    if document.kind == "graph":
        return ""
    if is_form(document.kind):
        return graph_text(reader, document.kind, document.id).text
    if document.kind == "source":
        return reader.text(reader.get(model.SourceFile, document.id).text)
    return reader.text(reader.get(model.Artifact, document.id).text)


def lines_of(reader: SessionReader, document: Document) -> list[str]:
    """Return the lines of a source file or an artifact, split at line feeds only, as compilers
    count them.
    """
    text = text_of(reader, document)
    if not text:
        return []
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def rows_of(
    reader: SessionReader, document: Document, start: int = 0, stop: int | None = None
) -> list[model.Node]:
    """Return the nodes that a graph document shows on rows ``start`` to ``stop`` (exclusive)."""
    return reader.nodes(reader.get(model.Graph, document.id), start, stop)


def node_at(reader: SessionReader, place: Place) -> model.Node | None:
    """Return the node on this row of a graph, or on this line of its code; None for other
    places.
    """
    document = place.document
    if is_form(document.kind):
        node = graph_text(reader, document.kind, document.id).node_of_line.get(place.line, 0)
        nodes = reader.by_ids(model.Node, [node])
    elif document.kind == "graph":
        nodes = rows_of(reader, document, place.line, place.line + 1)
    else:
        return None
    return nodes[0] if nodes else None


# places


def place_of_node(reader: SessionReader, node: model.Node) -> Place:
    return Place(document_of(reader, "graph", node.graph), node.position)


def place_of_row(reader: SessionReader, document: Document, position: int) -> Place:
    """Return the place in a document of a graph, whatever its kind, of the node on this row of
    it.
    """
    if is_form(document.kind):
        graph = reader.get(model.Graph, document.id)
        written = graph_text(reader, document.kind, document.id)
        return Place(document, written.line_of_node.get(graph.first_node + position, 0))
    return Place(document, position)


def places_of_nodes(reader: SessionReader, node_ids: Sequence[int]) -> list[Place]:
    """Return one place per existing node, in the order of the ids."""
    nodes = {node.id: node for node in reader.by_ids(model.Node, node_ids)}
    graphs = {node.graph for node in nodes.values()}
    shown = {graph: document_of(reader, "graph", graph) for graph in graphs}
    return [Place(shown[nodes[i].graph], nodes[i].position) for i in node_ids if i in nodes]


def place_of_source(reader: SessionReader, file: int, line: int) -> Place | None:
    """Return the place of line ``line`` (from 1) of a SourceFile; None if the file or its text is
    not in the session.
    """
    document = _document_of_source(reader, file)
    return Place(document, max(0, line - 1)) if document else None


@answered_once
def _document_of_source(reader: SessionReader, file: int) -> Document | None:
    source_files = reader.by_ids(model.SourceFile, [file])
    if source_files and source_files[0].text:
        return source_document(source_files[0])
    return None


def place_of_path(reader: SessionReader, path: str, line: int) -> Place | None:
    """Return the place of a line of ``path``, as in frames, breaks and compilations; None if it is
    not in the session.
    """
    source_files = reader.rows(model.SourceFile, path=path, limit=1)
    if not source_files:
        return None
    return place_of_source(reader, source_files[0].id, line)


def place_of_kernel(reader: SessionReader, kernel: model.Kernel) -> Place | None:
    """Return the place of a kernel's own code, or for a library call of its line in the output
    code; None if neither was stored.
    """
    artifact = kernel.artifact or kernel.output_code
    documents = {}
    if artifact:
        documents[artifact] = document_of(reader, "artifact", artifact)
    return kernel_place(kernel, documents)


def kernel_place(kernel: model.Kernel, artifacts: dict[int, Document]) -> Place | None:
    """Return a kernel's place as ``place_of_kernel`` does, from documents by Artifact id."""
    if kernel.artifact in artifacts:
        return Place(artifacts[kernel.artifact])
    if kernel.output_code in artifacts and kernel.first_line:
        return Place(artifacts[kernel.output_code], kernel.first_line - 1)
    return None
