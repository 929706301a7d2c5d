"""This module finds which stages a variant shares with the variants from which it began, and which
rows belong to the variants in use.

A variant's row holds only what came after its gate (rows/stepping.py). Its other documents are
found along the ``variant_of`` chain.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import Document, documents_of
from fx_explorer.model import AFTER_PASSES
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import other_variants
from fx_explorer.session.queries.graphs import edited_graphs

_LAST_SHARED: dict[model.Gate, model.Stage] = {
    "dynamo": "dynamo",
    "pre_grad": "pre_grad",
    "joint": "joint",
    "partition": "backward",
    "backend": "backend",
    "post_grad": "post_grad",
    "pre_fusion": "post_grad",
    "post_fusion": "schedule",
    "output_code": "kernel",
}
"""The last stage that is finished at a gate. At ``pre_fusion`` the IR before fusion is finished,
but not the rest of its stage.
"""


def is_through(gate: model.Gate, stage: model.Stage | None) -> bool:
    """Return whether the results of ``stage`` existed at ``gate``, so that a variant beginning
    there does not compute them again.
    """
    return stage is not None and model.STAGES.index(stage) <= model.STAGES.index(_LAST_SHARED[gate])


def is_after_passes(document: Document) -> bool:
    """Return whether this is a joint graph after Inductor's passes, which come after its gate."""
    return (
        document.kind == "graph"
        and document.stage == "joint"
        and document.title.partition(" · ")[2].startswith(AFTER_PASSES)
    )


def first_variants(reader: SessionReader) -> list[model.Compilation]:
    """Return one row per compilation."""
    return reader.rows(model.Compilation, variant_of="")


def origin_of(reader: SessionReader, variant: model.Compilation) -> model.Compilation | None:
    """Return the variant from which it began; None for a first variant."""
    if not variant.variant_of:
        return None
    compilations = reader.rows(model.Compilation, name=variant.variant_of)
    # An earlier one only: the names are those of a file that anybody may have written, and
    # following them must come to an end.
    if not compilations or compilations[0].id >= variant.id:
        return None
    return compilations[0]


def first_variant(reader: SessionReader, variant: model.Compilation) -> model.Compilation:
    """Return the compilation that Dynamo captured the graph in, from which all its variants
    began.
    """
    while origin := origin_of(reader, variant):
        variant = origin
    return variant


def _lineage(reader: SessionReader, variant: model.Compilation) -> list[model.Compilation]:
    """Return the first variant, which shares nothing with an earlier one, the next that began from
    it, and so on to this one. There can be thousands.
    """
    compilations = [variant]
    while compilations[-1].variant_from is not None and (
        origin := origin_of(reader, compilations[-1])
    ):
        compilations.append(origin)
    return compilations[::-1]


def documents_of_variant(reader: SessionReader, variant: model.Compilation) -> list[Document]:
    """Return all documents of this variant: its own, and those it shares with the variant from
    which it began.
    """
    first, *others = _lineage(reader, variant)
    documents, origin = documents_of(reader, first), first
    for compilation in others:
        documents, origin = _documents_after(reader, origin, documents, compilation), compilation
    return documents


def _documents_after(
    reader: SessionReader,
    origin: model.Compilation,
    before: list[Document],
    variant: model.Compilation,
) -> list[Document]:
    """Return the documents of ``variant``, which began from ``origin``; ``before`` are those of
    ``origin``.
    """
    of_variant = documents_of(reader, variant)
    gate = variant.variant_from
    slots = {_slot(document) for document in of_variant}
    directions = _lowered_directions(variant, of_variant)
    of_regions = _of_regions(reader, origin, before, reused_regions(reader, variant))

    def is_shared(document: Document) -> bool:
        if document in of_regions:
            return True
        if _slot(document) in slots:
            return False
        is_before = gate is not None and is_through(gate, document.stage)
        is_before &= not (gate == "joint" and is_after_passes(document))
        is_before |= gate == "pre_fusion" and document.title.startswith("IR before fusion")
        return is_before or _is_other_direction(document.direction, directions)

    shared = [document for document in before if is_shared(document)]
    return sorted(shared + of_variant, key=_order)


def _slot(document: Document) -> tuple[object, ...]:
    return document.kind, document.stage, document.direction, document.title


def _order(document: Document) -> tuple[int, int]:
    if document.stage:
        stage = model.STAGES.index(document.stage)
    else:
        stage = len(model.STAGES)
    return stage, model.DIRECTIONS.index(document.direction)


def _lowered_directions(
    variant: model.Compilation, documents: list[Document]
) -> set[model.Direction]:
    """Return the directions that a variant lowered itself. Empty when it failed: then a missing
    result does not mean that the variant shares it.
    """
    gate = variant.variant_from
    if gate is None or variant.status in ("failed", "left", "running"):
        return set()
    lowered = [document for document in documents if not is_through(gate, document.stage)]
    return {document.direction for document in lowered if document.direction}


def _is_other_direction(direction: model.Direction, lowered: Collection[model.Direction]) -> bool:
    """Return whether a direction was not lowered: a variant may lower only one, and share the
    other.
    """
    return bool(lowered) and bool(direction) and direction not in lowered


Region = tuple[model.Direction, str]
"""(direction, torch's name of the subgraph). A region nested in it is called ``subgraph.inner``."""


def reused_regions(reader: SessionReader, variant: model.Compilation) -> set[Region]:
    """Return the regions that this variant took from the one before instead of lowering them
    again.
    """
    reused = reader.rows(model.RegionLowering, compilation=variant.id, is_reused=True)
    return {(lowering.direction, lowering.subgraph) for lowering in reused}


def _of_regions(
    reader: SessionReader,
    variant: model.Compilation,
    documents: list[Document],
    regions: Collection[Region],
) -> set[Document]:
    """Return the documents of a variant that belong to these regions: their graphs, IR, code, and
    their kernels' code.
    """
    if not regions:
        return set()
    kernels = kernels_of_variant(reader, variant)
    codes = {kernel.artifact for kernel in kernels if _region_of(kernel) in regions}
    of_regions = set()
    for document in documents:
        region = document.title.rpartition(" · ")[2].partition(".")[0]
        is_code = document.kind == "artifact" and document.id in codes
        if is_code or (document.direction, region) in regions:
            of_regions.add(document)
    return of_regions


def _region_of(kernel: model.Kernel) -> Region:
    return kernel.direction, kernel.subgraph.partition(".")[0]


def kernels_of_variant(reader: SessionReader, variant: model.Compilation) -> list[model.Kernel]:
    """Return the kernels that run when this variant runs, forward before backward, in the order of
    their first call.
    """
    first, *others = _lineage(reader, variant)
    kernels = _in_order(reader.rows(model.Kernel, compilation=first.id))
    for compilation in others:
        kernels = kernels_after(reader, kernels, compilation)
    return kernels


def kernels_after(
    reader: SessionReader, before: list[model.Kernel], variant: model.Compilation
) -> list[model.Kernel]:
    """Return the kernels that run when ``variant`` runs. ``before`` are those of the variant from
    which it began.
    """
    of_variant = reader.rows(model.Kernel, compilation=variant.id)
    directions = _lowered_directions(variant, documents_of(reader, variant))
    reused = reused_regions(reader, variant)
    replaced = {(kernel.direction, kernel.subgraph) for kernel in of_variant}

    def is_kept(kernel: model.Kernel) -> bool:
        if (kernel.direction, kernel.subgraph) in replaced:
            return False
        if variant.variant_from == "output_code" or _region_of(kernel) in reused:
            return True
        return _is_other_direction(kernel.direction, directions)

    return _in_order([*of_variant, *filter(is_kept, before)])


def _in_order(kernels: list[model.Kernel]) -> list[model.Kernel]:
    return sorted(kernels, key=lambda k: (model.DIRECTIONS.index(k.direction), k.position))


@dataclass(frozen=True, slots=True)
class RowsInUse:
    """Ids of the rows of variants that the program runs. A compilation that was lowered three times
    counts once.
    """

    graphs: frozenset[int]
    artifacts: frozenset[int]
    kernels: frozenset[int]
    saving: frozenset[int]
    """Ids of the compilations whose saved tensors count; those of other variants do not."""


def in_use(reader: SessionReader) -> RowsInUse | None:
    """Return the ids; None if everything is in use, because no compilation has a second variant and
    no graph was edited.
    """
    edited = edited_graphs(reader)
    if not edited and not other_variants(reader):
        return None
    graphs: set[int] = set()
    artifacts: set[int] = set()
    kernels: set[int] = set()
    saving: set[int] = set()
    for variant in variants_in_use(reader):
        for document in documents_of_variant(reader, variant):
            if document.kind == "graph":
                graphs.add(document.id)
            else:
                artifacts.add(document.id)
        kernels.update(kernel.id for kernel in kernels_of_variant(reader, variant))
        saving.add(saving_variant(reader, variant).id)
    # An edit may be another variant's.
    graphs -= {before for before, after in edited if after in graphs}
    return RowsInUse(frozenset(graphs), frozenset(artifacts), frozenset(kernels), frozenset(saving))


def graphs_in_use(reader: SessionReader) -> frozenset[int] | None:
    """Return the ids of the graphs of variants in use; None if all are."""
    used = in_use(reader)
    return used.graphs if used else None


def variants_in_use(reader: SessionReader) -> list[model.Compilation]:
    """Return one variant per compilation; the first one for an aborted compilation."""
    every = reader.rows(model.Compilation)
    roots = {variant.name: variant for variant in every if not variant.variant_of}
    others_in_use = [variant for variant in every if variant.in_use and variant.variant_of]
    used = {root_name(variant.name): variant for variant in others_in_use}
    variants = []
    for name, first in roots.items():
        variant = first if first.in_use else used.get(name, first)
        variants.append(variant)
    return variants


def root_name(name: str) -> str:
    """Return ``0/1`` for ``0/1~2``."""
    return name.partition("~")[0]


def saving_variant(reader: SessionReader, variant: model.Compilation) -> model.Compilation:
    """Return the variant that decided which tensors are saved: it partitioned the graph, or lowered
    the forward again.
    """
    for compilation in reversed(_lineage(reader, variant)):
        if compilation.variant_from is None or not is_through(compilation.variant_from, "backward"):
            return compilation
        if reader.count(model.SavedTensor, compilation=compilation.id):
            return compilation
        variant = compilation
    return variant
