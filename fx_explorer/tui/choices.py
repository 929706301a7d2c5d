"""What a chooser lists of a session: documents for a pane, regions for the graphs, ways to compare. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer import model
from fx_explorer.analysis.documents import Document, documents_of, source_documents
from fx_explorer.analysis.region_nodes import RegionKey
from fx_explorer.analysis.regions import regions
from fx_explorer.analysis.words import counted
from fx_explorer.session import SessionReader
from fx_explorer.tui.screens.choose import Choice


def document_choices(reader: SessionReader) -> list[Choice[Document]]:
    """Everything a pane can show, by compilation."""
    choices = [Choice(document.title, "source", document) for document in source_documents(reader)]
    for compilation in reader.rows(model.Compilation):
        for document in documents_of(reader, compilation):
            noun = "node" if document.kind == "graph" else "line"
            detail = f"{document.direction} {document.kind} · {counted(document.line_count, noun)}".strip()
            choices.append(Choice(f"[{compilation.name}] {document.title}", detail, document))
    return choices


def region_choices(reader: SessionReader, wanted: Sequence[RegionKey] = ()) -> list[Choice[RegionKey]]:
    """These regions, or all there are."""
    return [
        Choice(region.name, ", ".join(f"{stage} {count}" for stage, count in region.nodes.items()), (region.key, region.value))
        for region in regions(reader)
        if not wanted or (region.key, region.value) in wanted
    ]
