"""The outline is the table of contents of a session: compilations, their stages, graphs, texts and
kernels, as one flat indented list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.documents import (
    Document,
    Place,
    artifact_document,
    documents_but_kernels,
    documents_of,
    front_end_documents,
    kernel_place,
    place_of_path,
    read_sources,
)
from fx_explorer.analysis.naming import function_of
from fx_explorer.analysis.other_variants import describe_variant
from fx_explorer.analysis.words import counted, seconds
from fx_explorer.instruments.kernels.counts import describe_kind
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.graphs import calls_of_nested_graph
from fx_explorer.session.queries.kernels import kernels_in_order

EntryStatus = Literal[
    "", "running", "ok", "broke", "failed", "skipped", "restarted", "left", "missing"
]


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    depth: int
    """Depth of the entry: 0 for a compilation or the group of source files; one more for each level
    inside it.
    """
    title: str
    detail: str = ""
    """Counts, or the reason why the entry is empty."""
    status: EntryStatus = ""
    """State of the entry, which selects its sign; empty for an entry without a state."""
    place: Place | None = None
    """The place that Enter opens; None for a mere heading."""
    is_variant: bool = False
    """Whether it is another variant of the compilation above it."""
    compilation: int = 0
    """Id of the Compilation that it is the heading of; 0 for any other entry."""
    unread: tuple[int, ...] = ()
    """Ids of the kernels that stand below it and are read when it is opened (``kernels_below``)."""


LISTED_AT_MOST = 1_000
"""Maximum number of kernels of a compilation that are listed with the outline. More are put into
ranges.
"""

RANGE = 100
"""Number of kernels in a range. Reading them takes a few milliseconds."""


def outline(reader: SessionReader) -> list[OutlineEntry]:
    """Return source files, then every compilation with its other variants and its documents, in
    order of time.
    """
    entries = _sources(reader)
    compilations = reader.rows(model.Compilation)
    variants = _by_origin(compilations)
    pending: list[tuple[model.Compilation, int] | list[OutlineEntry]] = [
        (compilation, 0) for compilation in reversed(variants.get(0, []))
    ]
    while pending:
        following = pending.pop()
        if isinstance(following, list):
            entries += following
            continue
        compilation, depth = following
        entries_of_this = [
            replace(entry, depth=entry.depth + depth) for entry in _compilation(reader, compilation)
        ]
        entries.append(entries_of_this[0])
        pending.append(entries_of_this[1:])
        following_variants = reversed(variants.get(compilation.id, []))
        pending += [(variant, depth + 1) for variant in following_variants]
    return entries + _front_ends(reader)


def _front_ends(reader: SessionReader) -> list[OutlineEntry]:
    """Return the graphs of front ends other than Dynamo, and the errors of those that made no
    graph.
    """
    rows = reader.rows(model.FrontEnd)
    if not rows:
        return []
    documents = {document.id: document for document in front_end_documents(reader)}
    entries = [OutlineEntry(0, "Other front ends", counted(len(rows), "front end"))]
    for row in rows:
        title, document = model.FRONT_END_CALLS[row.name], documents.get(row.graph)
        if document:
            entries.append(_front_end_graph(1, title, document))
            inside = [
                nested for nested in documents.values() if nested.title.startswith(f"{title} · ")
            ]
            entries += [_front_end_graph(2, nested.title, nested) for nested in inside]
            continue
        why = "took too long" if row.state == "timed_out" else "refused"
        if row.line:
            why += f" at {in_file(row.file, row.line)}"
        place = place_of_path(reader, row.file, row.line)
        entries.append(OutlineEntry(1, title, why, "failed", place))
    return entries


def _front_end_graph(depth: int, title: str, document: Document) -> OutlineEntry:
    return OutlineEntry(depth, title, counted(document.line_count, "node"), "ok", Place(document))


def _by_origin(compilations: Sequence[model.Compilation]) -> dict[int, list[model.Compilation]]:
    """Return id of a compilation → the variants that set out from it. Key 0 has those without an
    origin that began before them.
    """
    first: dict[str, int] = {}
    variants: dict[int, list[model.Compilation]] = {}
    for compilation in compilations:
        if compilation.variant_of:
            origin = first.get(compilation.variant_of, 0)
        else:
            origin = 0
        variants.setdefault(origin, []).append(compilation)
        first.setdefault(compilation.name, compilation.id)
    return variants


def _sources(reader: SessionReader) -> list[OutlineEntry]:
    """Return the user's own source files, and below them those of installed packages, which can be
    many.
    """
    shown = read_sources(reader)
    if not shown:
        return []
    user_files = {file.id for file in reader.rows(model.SourceFile, is_user=True)}
    entries = [OutlineEntry(0, "Source", counted(len(shown), "file"))]
    entries += [_source(document, 1) for document in shown if document.id in user_files]
    packages = [document for document in shown if document.id not in user_files]
    if packages:
        entries.append(OutlineEntry(1, "of packages", counted(len(packages), "file")))
        entries += [_source(document, 2) for document in packages]
    return entries


def _source(document: Document, depth: int) -> OutlineEntry:
    return OutlineEntry(
        depth, document.title, counted(document.line_count, "line"), place=Place(document)
    )


def compilation_title(compilation: model.Compilation) -> str:
    """Return ``[0/0] MLP.forward``. The rest of a function after a break, which torch compiles
    separately, is called by its line.
    """
    return f"[{compilation.name}] {function_of(compilation)}"


def variant_title(reader: SessionReader, variant: model.Compilation) -> str:
    """Return ``variant 1: inductor.max_fusion_size = 8 · from Dynamo``. The changed option comes
    first, since a narrow outline cuts the rest.
    """
    number = variant.name.rpartition("~")[2]
    if variant.variant_from:
        start = [f"from {model.GATE_WORDS[variant.variant_from]}"]
    else:
        start = []
    parts = [*describe_variant(reader, variant), *start]
    return f"variant {number}: {' · '.join(parts)}".removesuffix(": ")


def _compilation(reader: SessionReader, compilation: model.Compilation) -> list[OutlineEntry]:
    """Return the entries of one compilation or variant: its title, its documents, its kernels, and
    the stages that it lacks.
    """
    place = place_of_path(reader, compilation.file, compilation.line)
    where = in_file(compilation.file, compilation.line)
    took = seconds(compilation.duration_s) if compilation.duration_s else ""
    if compilation.variant_of:
        title = f"↳ {variant_title(reader, compilation)}"
        if compilation.saved_s:
            saved = f"saved {seconds(compilation.saved_s)}"
        else:
            saved = ""
        use = "the program uses it" if compilation.in_use else ""
        parts = [f"[{compilation.name}]", took, saved, use, compilation.error]
    else:
        title, parts = compilation_title(compilation), [where, took, compilation.error]
    detail = " · ".join(part for part in parts if part)
    is_variant = bool(compilation.variant_of)
    entries = [
        OutlineEntry(0, title, detail, compilation.status, place, is_variant, compilation.id)
    ]
    is_long = reader.count(model.Kernel, compilation=compilation.id) > LISTED_AT_MOST
    if is_long:
        every = documents_but_kernels(reader, compilation)
    else:
        every = documents_of(reader, compilation)
    shown = [document for document in every if document.stage != "kernel"]
    graphs = reader.rows(model.Graph, compilation=compilation.id)
    nested_graphs = {graph.id: graph for graph in graphs if graph.parent}
    parents = {graph.id: graph.parent for graph in nested_graphs.values()}
    calls = {
        number: calls_of_nested_graph(reader, graph) for number, graph in nested_graphs.items()
    }
    for document, is_nested in zip(shown, _nested(shown, parents), strict=True):
        entries.append(_document(document, is_nested, calls.get(document.id, 0)))
    if is_long:
        entries += _ranges(reader, compilation)
    else:
        texts = {document.id: document for document in every if document.kind == "artifact"}
        entries += _kernels(reader.rows(model.Kernel, compilation=compilation.id), texts)
    for stage, why in (compilation.missing_stages or {}).items():
        entries.append(OutlineEntry(1, stage, why, "missing"))
    return entries


def _nested(shown: Sequence[Document], parents: Mapping[int, int]) -> Iterable[bool]:
    """Return for each document whether it is a graph listed below the graph that calls it. Later
    stages of a nested graph are not: they are listed with their own stage.
    """
    below = 0
    for document in shown:
        parent = parents.get(document.id, 0) if document.kind == "graph" else 0
        is_nested = bool(parent) and parent == below
        yield is_nested
        if not is_nested:
            below = document.id if document.kind == "graph" else 0


def _document(document: Document, is_nested: bool, calls: int) -> OutlineEntry:
    """Return a document's entry. ``calls`` is how often the graph around a nested graph calls
    it.
    """
    is_graph = document.kind == "graph"
    noun = "node" if is_graph else "line"
    detail = counted(document.line_count, noun)
    if is_graph and calls > 1:
        detail += f", called {counted(calls, 'time')}"
    depth = 2 if is_nested else 1
    return OutlineEntry(depth, document.title, detail, "ok", Place(document))


def _kernels(kernels: list[model.Kernel], texts: dict[int, Document]) -> Iterable[OutlineEntry]:
    kernels.sort(key=lambda k: (model.DIRECTIONS.index(k.direction), k.position))
    for direction, group in groupby(kernels, key=lambda k: k.direction):
        members = list(group)
        yield _heading(direction, len(members))
        yield from (_kernel(kernel, texts, 2) for kernel in members)


def _heading(direction: str, count: int) -> OutlineEntry:
    title = f"Kernels · {direction}" if direction else "Kernels"
    return OutlineEntry(1, title, f"{count:,}", "ok")


def _kernel(kernel: model.Kernel, texts: dict[int, Document], depth: int) -> OutlineEntry:
    return OutlineEntry(
        depth, kernel.name, describe_kind(kernel), place=kernel_place(kernel, texts)
    )


def _ranges(reader: SessionReader, compilation: model.Compilation) -> Iterable[OutlineEntry]:
    """Yield ``1 to 100``, ``101 to 200`` and so on, in place of many kernels."""
    by_direction = kernels_in_order(reader, compilation.id)
    order: dict[str, int] = {direction: at for at, direction in enumerate(model.DIRECTIONS)}
    for direction in sorted(by_direction, key=lambda name: order.get(name, len(order))):
        kernels = by_direction[direction]
        yield _heading(direction, len(kernels))
        for start in range(0, len(kernels), RANGE):
            members = tuple(kernels[start : start + RANGE])
            title = f"{start + 1:,} to {start + len(members):,}"
            yield OutlineEntry(2, title, f"{len(members):,}", "ok", unread=members)


def kernels_below(reader: SessionReader, entry: OutlineEntry) -> list[OutlineEntry]:
    """Return the kernels of a range, in the order the compiled code runs them."""
    kernels = sorted(
        reader.by_ids(model.Kernel, entry.unread), key=lambda kernel: (kernel.position, kernel.id)
    )
    artifacts = reader.by_ids(
        model.Artifact, {kernel.artifact or kernel.output_code for kernel in kernels}
    )
    compilations = reader.by_ids(model.Compilation, {kernel.compilation for kernel in kernels})
    owners = {compilation.id: compilation.name for compilation in compilations}
    texts = {
        artifact.id: artifact_document(artifact, owners.get(artifact.compilation, ""))
        for artifact in artifacts
    }
    return [_kernel(kernel, texts, entry.depth + 1) for kernel in kernels]
