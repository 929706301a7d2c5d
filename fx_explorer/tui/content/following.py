"""This module decides which document a pane shows when something is selected elsewhere: the file,
graph or kernel of the selection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import RegionKey, positions_in
from fx_explorer.analysis.documents import (
    Document,
    documents_but_kernels,
    first_of_kernels,
    front_end_documents,
    node_at,
    source_documents,
    texts_of,
)
from fx_explorer.analysis.kernel_documents import triton_place
from fx_explorer.analysis.linked_lines import Selection
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.session import SessionReader, answered_once
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.nodes import compilations_of_nodes, first_operation_on
from fx_explorer.tui.content.presets import (
    OF_GRAPH_SLOTS,
    ShowableDocuments,
    Slot,
    document_for,
    program,
)

NO_SHARES: Mapping[int, float] = {}


@answered_once
def showable_documents(reader: SessionReader, compilation_id: int) -> ShowableDocuments:
    """Return the documents of one compilation that a pane can show first; its own file is the first
    of the sources. Kernels of a selection are looked up when needed, because there may be 100,000.
    """
    compilations = reader.by_ids(model.Compilation, [compilation_id])
    sources, front_ends = source_documents(reader), front_end_documents(reader)
    if not compilations:
        return ShowableDocuments(sources, (), compilation_id, front_ends)
    own_files = {file.id for file in reader.rows(model.SourceFile, path=compilations[0].file)}
    documents = [
        *documents_but_kernels(reader, compilations[0]),
        *first_of_kernels(reader, compilations[0]),
    ]
    return ShowableDocuments(
        sorted(sources, key=lambda d: d.id not in own_files), documents, compilation_id, front_ends
    )


def with_region(
    reader: SessionReader, showable: ShowableDocuments, region: RegionKey | None
) -> ShowableDocuments:
    """Return the documents without the graphs that have no node in the region."""
    if region is None:
        return showable
    documents = []
    for document in showable.documents:
        is_graph = document.kind == "graph"
        if not is_graph or positions_in(reader, document, region):
            documents.append(document)
    return replace(showable, documents=documents)


def compilation_of(selection: Selection, current: int) -> int:
    """Return the compilation of a place. For a source line it is ``current`` if that compilation
    has nodes of the line, else the first that has any; ``current`` if none has.
    """
    if selection.place.document.compilation:
        return selection.place.document.compilation
    compilations = compilations_of_nodes(selection.reader, selection.nodes)
    if current in compilations or not compilations:
        return current
    return min(compilations)


STAGES_OF_SLOT: dict[Slot, tuple[model.Stage, ...]] = {
    "graph": ("dynamo",),
    "neighbourhood": ("dynamo",),
    "kernel": ("kernel", "output_code", "backend"),
    "dynamo": ("dynamo",),
    "forward": ("forward",),
    "backward": ("backward",),
    "joint": ("joint",),
    "bytecode_original": ("dynamo",),
    "bytecode_modified": ("dynamo",),
}


NO_SOURCE_IN_LOG = (
    "this log names lines of your source but does not have their text. The graph and the kernels "
    "are next to it"
)


def why_missing(reader: SessionReader, slot: Slot, compilation_id: int) -> str:
    """Return the session's reason why this compilation does not have a stage; empty without one."""
    if slot in model.FRONT_ENDS:
        return _why_refused(reader, slot)
    if slot == "source" and is_log(reader):
        return NO_SOURCE_IN_LOG
    compilations = reader.by_ids(model.Compilation, [compilation_id])
    reasons = (compilations[0].missing_stages or {}) if compilations else {}
    return next((reasons[stage] for stage in STAGES_OF_SLOT.get(slot, ()) if stage in reasons), "")


def _why_refused(reader: SessionReader, name: str) -> str:
    from fx_explorer.instruments.front_ends.answers import refusal

    for row in reader.rows(model.FrontEnd, name=name):
        if refused := refusal(row):
            if row.line:
                where = f" at {in_file(row.file, row.line)} ({row.code})"
            else:
                where = ""
            return (
                f"{model.FRONT_END_CALLS[row.name]} made no graph{where}. {refused.why.rstrip('.')}"
            )
    return ""


def turned(
    selection: Selection,
    slot: Slot,
    shown: Document | None,
    showable: ShowableDocuments,
    beside: model.Direction = "",
    shares: Mapping[int, float] | None = None,
) -> Document | None:
    """Return the document that a pane in ``slot`` should show for a selection; ``shown`` itself to
    keep it. ``beside`` is the direction of the graph in another pane, since a line belongs to
    kernels of both. ``shares`` are the kernels' shares of the time, where a row stands for many
    nodes: the most expensive kernel is shown.
    """
    if slot == "source":
        return _source(selection, shown)
    if slot == "kernel":
        direction = selection.place.document.direction or beside
        return _kernel(selection, shown, showable, direction, shares or {})
    if slot in OF_GRAPH_SLOTS:
        direction = selection.place.document.direction
    else:
        direction = ""
    is_elsewhere = shown is None or shown.compilation != showable.compilation
    if is_elsewhere or (shown and direction and shown.direction and shown.direction != direction):
        return document_for(slot, showable, direction) or shown
    return shown


def kernel_following(
    selection: Selection, kernel: model.Kernel | None, showable: ShowableDocuments
) -> Document | None:
    """Return the code of the kernel of the selection; if the present kernel is among its kernels,
    that one.
    """
    document = selection.place.document
    if document.kind == "artifact" and document.stage in ("kernel", "backend"):
        return document
    wanted = [kernel.artifact] if kernel else []
    shown = next(iter(texts_of(selection.reader, showable.compilation, wanted)), None)
    if shown and shown.id in selection.computing:
        return shown
    return _kernel(selection, shown, showable, document.direction)


def seen_above(selection: Selection) -> Selection:
    """Return the Triton line of a selection below a kernel, for the other panes to follow. Any
    other selection is returned unchanged.
    """
    if not selection.place.document.is_level:
        return selection
    return selection.of(triton_place(selection.reader, selection.place))


def linked_lines(selection: Selection, shown: set[Document]) -> dict[Document, frozenset[int]]:
    """Return the lines (from 0) of each shown document that are linked to the selection."""
    if not any(document.is_level for document in (*shown, selection.place.document)):
        return selection.linked(shown)
    from fx_explorer.analysis.kernel_documents import linked_with_levels

    return linked_with_levels(selection, shown)


def anchor_of(reader: SessionReader, document: Document, lines: frozenset[int]) -> int | None:
    """Return the highlighted line to show when there is no room for all of them: in a graph an
    operation rather than an input.
    """
    if not lines:
        return None
    if document.kind == "graph":
        first = first_operation_on(reader, document.id, lines)
        return min(lines) if first is None else first
    return min(lines)


def _source(selection: Selection, shown: Document | None) -> Document | None:
    """Return the file of the node under the cursor, or of a line of the user's own kernel. For a
    line of other generated code the file stays, because the line may come from several.
    """
    node = node_at(selection.reader, selection.place)
    if selection.place.document.kind == "artifact":
        own_lines = selection.own_lines
    else:
        own_lines = []
    file = node.file if node else next((line.file for line in own_lines), 0)
    if not file or (shown and shown.id == file):
        return shown
    return next(
        (document for document in source_documents(selection.reader) if document.id == file), shown
    )


def _kernel(
    selection: Selection,
    shown: Document | None,
    showable: ShowableDocuments,
    direction: model.Direction,
    shares: Mapping[int, float] = NO_SHARES,
) -> Document | None:
    """Return the first kernel of a direction that computes the selection, or the one with the
    largest share of the time. Where only library calls compute it in this direction, return the
    output code that makes them; else a kernel of another direction.
    """
    documents = texts_of(selection.reader, showable.compilation, selection.computing)
    texts = [d for d in documents if d.stage in ("kernel", "output_code")]
    if texts:
        parts: dict[int, float] = {}
        if shares:
            for document in texts:
                kernels_of = selection.reader.rows(model.Kernel, artifact=document.id)
                parts[document.id] = sum(shares.get(kernel.id, 0.0) for kernel in kernels_of)

        def order(document: Document) -> tuple[object, ...]:
            # Where no direction is asked for, what computes the values comes first.
            is_other, is_backward = (
                document.direction != direction,
                document.direction == "backward",
            )
            is_call = document.stage == "output_code"
            return is_other, is_backward, is_call, -parts.get(document.id, 0.0)

        return min(texts, key=order)
    if documents and (published := program(documents)):
        return published
    is_elsewhere = shown is None or shown.compilation != showable.compilation
    if is_elsewhere:
        return document_for("kernel", showable, selection.place.document.direction)
    return shown
