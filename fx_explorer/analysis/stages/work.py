"""What one stage did, as data: a sentence, counts, and rows that stand before beside after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from fx_explorer.analysis.documents import Document
from fx_explorer.model import Direction, Gate

Fate = Literal[
    "kept", "changed", "decomposed", "view", "fused", "several", "backward", "forward", "both", "made", "removed", "input"
]  # fmt: skip
"""What became of something in a stage, or how it came to be. ``several``: it is computed in several
places. ``both``: in the forward and in the backward. ``view``: a view that a decomposition made.
``input``: an input or the output of a graph, which is shown and not counted.
"""

FATE_WORDS: dict[Fate, tuple[str, str]] = {
    "kept": ("=", "kept"),
    "changed": ("~", "changed"),
    "decomposed": ("<", "decomposed"),
    "view": ("v", "a view"),
    "fused": (">", "fused"),
    "several": ("*", "in several"),
    "backward": ("b", "for the backward"),
    "forward": ("f", "in the forward"),
    "both": ("2", "in both"),
    "made": ("+", "made"),
    "removed": ("-", "removed"),
    "input": (" ", ""),
}
"""Fate → its mark and its words, since colour alone must not carry meaning."""


class TextItem(NamedTuple):
    """A line of a text that stands in a row: of a source file, an IR, or a kernel's name."""

    text: str
    document: Document | None = None
    line: int = 0


Item = int | TextItem
"""The id of a node, which is read when its row is looked at; or a text."""


class AlignedRow(NamedTuple):
    """One row of the stage view: what stood before, and what stands in its place."""

    fate: Fate
    cells: tuple[Item | None, ...]
    """One per side, before first."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class StagePoint:
    """One stage of one variant, named by the pause that comes after it."""

    compilation: int
    owner: str
    """Name of the variant: ``0/0``."""
    gate: Gate
    direction: Direction
    before: tuple[Document, ...]
    after: tuple[Document, ...]

    @property
    def title(self) -> str:
        return STAGE_TITLES[self.gate]


STAGE_TITLES: dict[Gate, str] = {
    "dynamo": "Dynamo",
    "pre_grad": "The pre-grad passes",
    "joint": "AOTAutograd",
    "partition": "The partitioner",
    "backend": "The backend",
    "post_grad": "The post-grad passes",
    "pre_fusion": "Lowering",
    "post_fusion": "Fusion",
    "output_code": "Code generation",
}

EXPLAINED: dict[Gate, str] = {
    "dynamo": "Dynamo runs your Python symbolically and writes down every tensor operation.",
    "pre_grad": "These passes rewrite Dynamo's graph before autograd sees it.",
    "joint": "AOTAutograd writes operations in terms of simpler ATen operations, and adds those of the backward.",
    "partition": "One graph becomes a forward and a backward; cheap values are computed again rather than kept.",
    "backend": "A backend of your own has published this stage.",
    "post_grad": "These passes rewrite the ATen graph: patterns are replaced, copies and duplicates go.",
    "pre_fusion": "Each operation becomes a loop over elements or a library call; views become index arithmetic.",
    "post_fusion": "Loops that read what others write are joined, so that values stay in registers.",
    "output_code": "Each loop is written as a kernel, and a wrapper calls kernels and libraries in order.",
}
"""What a stage is for, for somebody who meets it for the first time."""


@dataclass(frozen=True, slots=True)
class StageWork:
    """What a stage did."""

    point: StagePoint
    sides: tuple[str, ...]
    """Heads of the columns, before first."""
    before: int
    """How many operations (or lines, or steps) went in."""
    after: int
    counts: Mapping[Fate, int]
    """How many met each fate. Which things are counted, those before or those after, depends on the
    fate: ``removed`` counts those before, ``made`` those after.
    """
    sentence: str
    rows: Sequence[AlignedRow] = field(default=(), repr=False)
