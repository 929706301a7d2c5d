"""This module makes the lists of a chooser: documents for a pane, regions for the graphs, variants
to compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import SEGMENT_KEY, RegionKey, regions
from fx_explorer.analysis.documents import (
    Document,
    Place,
    documents_of,
    front_end_documents,
    graph_form,
    source_documents,
)
from fx_explorer.analysis.graph_texts import FORMS
from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.analysis.lineage import root_name
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import counted, seconds
from fx_explorer.overview.find import find
from fx_explorer.overview.outline import variant_title
from fx_explorer.session import SessionReader
from fx_explorer.tui.content.shown_levels import LEVEL_TITLES
from fx_explorer.tui.dialogs.choose import Choice


def document_choices(reader: SessionReader) -> list[Choice[Document | model.Level]]:
    """Return everything that a pane can show, by compilation."""
    sources = source_documents(reader)
    choices: list[Choice[Document | model.Level]] = [
        Choice(document.title, "source", document) for document in sources
    ]
    for compilation in reader.rows(model.Compilation):
        documents = documents_of(reader, compilation)
        for document in documents:
            noun = "node" if document.kind == "graph" else "line"
            detail = f"{document.direction} {document.kind} · {counted(document.line_count, noun)}".strip()
            choices.append(Choice(f"[{compilation.name}] {document.title}", detail, document))
        for document in _graphs_in_other_forms(documents):
            detail = f"{document.direction} graph · {counted(document.line_count, 'node')}".strip()
            choices.append(Choice(f"[{compilation.name}] {document.title}", detail, document))
    for document in front_end_documents(reader):
        detail = f"graph of another front end · {counted(document.line_count, 'node')}"
        choices.append(Choice(document.title, detail, document))
        for form in FORMS:
            shown = graph_form(document, form)
            choices.append(Choice(shown.title, detail, shown))
    return choices


def _graphs_in_other_forms(documents: Iterable[Document]) -> Iterator[Document]:
    for document in documents:
        if document.kind == "graph":
            for form in FORMS:
                yield graph_form(document, form)


def pane_choices(reader: SessionReader) -> list[Choice[Document | model.Level]]:
    """Return everything that a pane can show, and the levels below the selected kernel."""
    return [*document_choices(reader), *level_choices(reader)]


def found_choices(reader: SessionReader, typed: str) -> list[Choice[Place]]:
    """Return the places in the session whose text matches the input, best first."""
    return [
        Choice(match.text, f"{match.kind} · {match.detail}", match.place)
        for match in find(reader, typed)
    ]


def level_choices(reader: SessionReader) -> list[Choice[Document | model.Level]]:
    """Return the levels of the selected kernel; empty if there is no Triton kernel."""
    if not reader.count(model.Kernel, language="triton"):
        return []
    gpu = session_gpu(reader)
    vendor = gpu.vendor if gpu else ""
    levels_of_others = {"nvidia": ("amdgcn",), "amd": ("ptx", "sass"), "": ()}[vendor]
    levels = [level for level in LEVEL_TITLES if level not in levels_of_others]
    detail = "level below the kernel that is selected"
    return [Choice(LEVEL_TITLES[level], detail, level) for level in levels]


def region_choices(
    reader: SessionReader, wanted: Sequence[RegionKey] = ()
) -> list[Choice[RegionKey]]:
    """Return these regions, or all. A backend's segments are not annotations: they are listed if
    the cursor is on one.
    """
    choices = [
        Choice(value, f"of a backend's {key}s", (key, value))
        for key, value in wanted
        if key == SEGMENT_KEY
    ]
    for region in regions(reader):
        region_key = (region.key, region.value)
        if wanted and region_key not in wanted:
            continue
        stages = ", ".join(f"{stage} {count}" for stage, count in region.nodes.items())
        choices.append(Choice(region.name, stages, region_key))
    return choices


def variant_choices(
    reader: SessionReader, chosen: Sequence[model.Compilation] = ()
) -> list[Choice[model.Compilation]]:
    """Return the variants with which a comparison can begin, in the order of their creation. With a
    first one chosen, return the candidates for the second: variants of the same compilation first,
    newest first, since the newest was just tried.
    """
    variants = [variant for variant in reader.rows(model.Compilation) if variant not in chosen]
    if chosen:
        variants.sort(
            key=lambda variant: (root_name(variant.name) != root_name(chosen[0].name), -variant.id)
        )
    return [
        Choice(f"[{variant.name}] {_title(reader, variant)}", _detail(variant), variant)
        for variant in variants
    ]


def _title(reader: SessionReader, variant: model.Compilation) -> str:
    if variant.variant_of:
        return variant_title(reader, variant)
    return plain_function(variant.function)


def _detail(variant: model.Compilation) -> str:
    if variant.variant_of and variant.in_use:
        use = "the program uses it"
    else:
        use = ""
    duration = seconds(variant.duration_s) if variant.duration_s else ""
    return " · ".join(filter(None, (variant.status, duration, use)))
