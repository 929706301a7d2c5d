"""What a stage made, read from the session by the functions that the app reads it with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.analysis.documents import Document, lines_of, rows_of
from fx_explorer.analysis.guards.kinds import guards_of
from fx_explorer.analysis.nodes import node_words
from fx_explorer.analysis.variants.ways import documents_of_way, kernels_of_way, saving_way
from fx_explorer.analysis.words import counted
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
    def way(self) -> str:
        """Name of the compilation, or of the other way, that made it: ``0/0``, ``0/0~1``."""
        return self.document.owner

    @property
    def direction(self) -> model.Direction:
        """``forward``, ``backward`` or ``inference``; empty before they part."""
        return self.document.direction

    @property
    def nodes(self) -> list[model.Node]:
        """In the order of the graph; empty for a text."""
        return rows_of(self.reader, self.document) if self.document.kind == "graph" else []

    @property
    def text(self) -> str:
        """Of a graph, one node a line: ``gelu = aten.gelu(addmm)  f32[4, 8]``."""
        lines = list(map(node_words, self.nodes)) or lines_of(self.reader, self.document)
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class StageView:
    """One stage of every compilation, or of one way; ``print`` it for a table of contents."""

    reader: SessionReader
    stage: StageName
    ways: tuple[model.Compilation, ...]

    @property
    def shown(self) -> list[Shown]:
        """Graphs and texts in the order of the stages, those a way shares with the one it set out from included."""
        return [
            Shown(self.reader, document)
            for way in self.ways
            for document in documents_of_way(self.reader, way)
            if document.stage in _SHOWN[self.stage]
        ]

    @property
    def graphs(self) -> list[Shown]:
        return [one for one in self.shown if one.document.kind == "graph"]

    @property
    def texts(self) -> list[Shown]:
        """Bytecode, guard tree, IR, output code, kernels."""
        return [one for one in self.shown if one.document.kind == "artifact"]

    @property
    def graph_breaks(self) -> list[DistinctBreak]:
        """Of the whole program, each cause once."""
        return distinct_breaks(self.reader)

    @property
    def guards(self) -> list[model.Guard]:
        return [guard for way in self.ways for guard in guards_of(self.reader, way.id)]

    @property
    def saved_tensors(self) -> list[model.SavedTensor]:
        """What the forward keeps for the backward."""
        saving = [saving_way(self.reader, way).id for way in self.ways]
        return [row for way in saving for row in self.reader.rows(model.SavedTensor, compilation=way)]

    @property
    def kernels(self) -> list[model.Kernel]:
        return [kernel for way in self.ways for kernel in kernels_of_way(self.reader, way)]

    @property
    def missing(self) -> dict[str, str]:
        """Compilation or way → why it has nothing of this stage."""
        made = {one.way for one in self.shown}
        return {way.name: self._why_missing(way) for way in self.ways if way.name not in made and not way.branch_of}

    def _why_missing(self, way: model.Compilation) -> str:
        reasons = way.missing_stages or {}
        stages = reversed(_SHOWN[self.stage]) if self.stage != "dynamo" else iter(reasons)
        return way.error or next((reasons[stage] for stage in stages if stage in reasons), "it made none")

    def __str__(self) -> str:
        lines = [f"[{one.way}] {one.title:<32} {_size(one.document)}" for one in self.shown]
        lines += [f"[{name}] nothing: {reason}" for name, reason in self.missing.items()]
        if self.stage == "dynamo":
            lines += _breaks_in_words(self.graph_breaks)
        return "\n".join(lines) or "Nothing was compiled."


def _size(document: Document) -> str:
    return counted(document.line_count, "node" if document.kind == "graph" else "line")


def _breaks_in_words(breaks: Sequence[DistinctBreak]) -> list[str]:
    return [f"graph break at {one.file}:{one.line}: {one.in_words}" for one in breaks]
