"""This module has ``StageView``, which shows the result of a stage, read from the session as the
app does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.documents import Document, lines_of, rows_of
from fx_explorer.analysis.lineage import documents_of_variant, kernels_of_variant, saving_variant
from fx_explorer.analysis.words import counted, format_node
from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.guards.kinds import guards_of
from fx_explorer.session import SessionReader

StageName = Literal["dynamo", "aot", "inductor"]

_SHOWN: dict[StageName, tuple[model.Stage, ...]] = {
    "dynamo": ("dynamo",),
    "aot": ("pre_grad", "joint", "forward", "backward"),
    "inductor": ("post_grad", "schedule", "output_code", "kernel"),
}


@dataclass(frozen=True)
class Shown:
    """A graph, or a text such as the output code; ``print`` it."""

    reader: SessionReader
    document: Document

    @property
    def title(self) -> str:
        """``Dynamo graph``, ``Backward · post-grad``, ``Output code · forward``."""
        return self.document.title

    @property
    def variant(self) -> str:
        """Name of the compilation or variant that made it: ``0/0``, ``0/0~1``."""
        return self.document.owner

    @property
    def direction(self) -> model.Direction:
        """``forward``, ``backward`` or ``inference``; empty before they part."""
        return self.document.direction

    @property
    def nodes(self) -> list[model.Node]:
        """The nodes in the order of the graph; empty for a text."""
        if self.document.kind != "graph":
            return []
        return rows_of(self.reader, self.document)

    @property
    def text(self) -> str:
        """The text itself; for a graph one node per line: ``gelu = aten.gelu(addmm) f32[4, 8]``."""
        lines = list(map(format_node, self.nodes)) or lines_of(self.reader, self.document)
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class StageView:
    """One stage of every compilation, or of one variant; ``print`` it for a table of contents."""

    reader: SessionReader
    stage: StageName
    variants: tuple[model.Compilation, ...]

    @property
    def shown(self) -> list[Shown]:
        """Graphs and texts in the order of the stages, including those that a variant shares with
        the one from which it began.
        """
        documents: list[Document] = []
        for variant in self.variants:
            documents += documents_of_variant(self.reader, variant)
        of_stage = [document for document in documents if document.stage in _SHOWN[self.stage]]
        return [Shown(self.reader, document) for document in of_stage]

    @property
    def graphs(self) -> list[Shown]:
        return [shown for shown in self.shown if shown.document.kind == "graph"]

    @property
    def texts(self) -> list[Shown]:
        """Bytecode, guard tree, IR, output code, kernels."""
        return [shown for shown in self.shown if shown.document.kind == "artifact"]

    @property
    def graph_breaks(self) -> list[DistinctBreak]:
        """The graph breaks of the whole program, each cause once."""
        return distinct_breaks(self.reader)

    @property
    def guards(self) -> list[model.Guard]:
        guards: list[model.Guard] = []
        for variant in self.variants:
            guards += guards_of(self.reader, variant.id)
        return guards

    @property
    def saved_tensors(self) -> list[model.SavedTensor]:
        """The tensors that the forward saves for the backward."""
        saved: list[model.SavedTensor] = []
        for variant in self.variants:
            saving = saving_variant(self.reader, variant).id
            saved += self.reader.rows(model.SavedTensor, compilation=saving)
        return saved

    @property
    def kernels(self) -> list[model.Kernel]:
        kernels: list[model.Kernel] = []
        for variant in self.variants:
            kernels += kernels_of_variant(self.reader, variant)
        return kernels

    @property
    def missing(self) -> dict[str, str]:
        """Compilation or variant → why it has no result of this stage."""
        made = {shown.variant for shown in self.shown}
        missing = {}
        for variant in self.variants:
            if variant.name not in made and not variant.variant_of:
                missing[variant.name] = self._why_missing(variant)
        return missing

    def _why_missing(self, variant: model.Compilation) -> str:
        if variant.error:
            return variant.error
        reasons = variant.missing_stages or {}
        stages = reversed(_SHOWN[self.stage]) if self.stage != "dynamo" else iter(reasons)
        for stage in stages:
            if stage in reasons:
                return reasons[stage]
        return "it made none"

    def __str__(self) -> str:
        lines = [
            f"[{shown.variant}] {shown.title:<32} {_size(shown.document)}" for shown in self.shown
        ]
        lines += [f"[{name}] nothing: {reason}" for name, reason in self.missing.items()]
        if self.stage == "dynamo":
            lines += _describe_breaks(self.graph_breaks)
        return "\n".join(lines) or "Nothing was compiled."


def _size(document: Document) -> str:
    noun = "node" if document.kind == "graph" else "line"
    return counted(document.line_count, noun)


def _describe_breaks(breaks: Sequence[DistinctBreak]) -> list[str]:
    return [
        f"graph break at {graph_break.file}:{graph_break.line}: {graph_break.description}"
        for graph_break in breaks
    ]
