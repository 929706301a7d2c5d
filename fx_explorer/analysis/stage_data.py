"""This module has ``StageWork``, which describes one stage as data: a sentence, counts, and what
happened to each node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fx_explorer.analysis.documents import Document
from fx_explorer.model import Direction, Gate

Fate = Literal[
    "kept", "changed", "replaced", "decomposed", "view", "fused", "several", "backward", "forward",
    "both", "made", "unchanged", "empty", "unused", "inlined", "removed",
]  # fmt: skip
"""What happened to an operation in a stage, or how it came to be. ``changed``: it has another name,
function or arguments; ``replaced``: other operations are in its place. ``fused``: several became
one, or are computed together. ``several``: it is computed in several places. ``forward``,
``backward``: it is for, or went into, that direction; ``both``: it went into both. ``view``: it
computes nothing.

Of what AOTAutograd left out: ``unchanged``: it returned its input as it was; ``empty``: it
returned nothing, and nothing was traced for it; ``unused``: it was traced, and removed again
because nothing used its result; ``inlined``: the operations of the graph
that it calls are in its place. ``removed``: nothing is known to have come of it.
"""

FATES: tuple[Fate, ...] = (
    "kept",
    "changed",
    "replaced",
    "decomposed",
    "view",
    "fused",
    "several",
    "forward",
    "backward",
    "both",
    "made",
    "unchanged",
    "empty",
    "unused",
    "inlined",
    "removed",
)

StageKey = Literal[
    "dynamo", "pre_grad", "joint", "joint_passes", "partition", "backend", "post_grad",
    "pre_fusion", "post_fusion", "output_code",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class StagePoint:
    """One stage of one variant."""

    key: StageKey
    compilation: int
    owner: str
    """Name of the variant: ``0/0``."""
    direction: Direction
    before: tuple[Document, ...]
    after: tuple[Document, ...]
    published: str = ""
    """Name of a stage that the backend published: ``segments of small``."""

    @property
    def gate(self) -> Gate:
        """Return the pause that follows it. There is none between Inductor's passes over the joint
        graph and its partition.
        """
        if self.key == "joint_passes":
            return "partition"
        return self.key

    @property
    def title(self) -> str:
        if self.key == "post_grad" and self.direction == "inference":
            return "Inductor's graph passes"
        return self.published or STAGE_TITLES[self.key]


STAGE_TITLES: dict[StageKey, str] = {
    "dynamo": "Dynamo",
    "pre_grad": "The pre-grad passes",
    "joint": "AOTAutograd",
    "joint_passes": "Inductor's passes over the joint graph",
    "partition": "The partitioner",
    "backend": "The backend",
    "post_grad": "The post-grad passes",
    "pre_fusion": "Lowering",
    "post_fusion": "Fusion",
    "output_code": "Code generation",
}

EXPLAINED: dict[StageKey, str] = {
    "dynamo": "Dynamo runs your Python symbolically and writes down every tensor operation.",
    "pre_grad": "These passes rewrite Dynamo's graph before autograd sees it.",
    "joint": (
        "AOTAutograd writes operations in terms of simpler ATen operations, and adds those "
        "of the backward."
    ),
    "joint_passes": (
        "Constants are folded and patterns replaced while forward and backward are one graph."
    ),
    "partition": (
        "One graph becomes a forward and a backward; cheap values are recomputed rather than saved."
    ),
    "backend": "A backend of your own has published this stage.",
    "post_grad": (
        "These passes rewrite the ATen graph: they replace patterns, and remove copies and "
        "duplicates."
    ),
    "pre_fusion": (
        "Each operation becomes a loop over elements or a library call; views become index "
        "arithmetic."
    ),
    "post_fusion": (
        "Loops that read the results of other loops are fused with them, so that less data goes "
        "through memory."
    ),
    "output_code": (
        "Each loop is written as a kernel, and a wrapper calls kernels and libraries in order."
    ),
}
"""Purpose of each stage, for somebody who does not know it."""


@dataclass(frozen=True, slots=True)
class StageWork:
    """The description of one stage."""

    point: StagePoint
    before: int
    """How many operations (or lines of source, or steps of the IR) went in."""
    after: int
    became: Mapping[Fate, int]
    """Fate → how many of the operations that went in met it."""
    made: Mapping[Fate, int]
    """How the operations in the output came to be. Empty if they are not operations of a graph."""
    sentence: str
    fates: Mapping[int, Fate] = field(default_factory=dict, repr=False)
    """Id of an operation, in the graphs before and after → what happened to it."""
    changed: Mapping[int, int] = field(default_factory=dict, repr=False)
    """Id of a changed operation after the stage → the id of the same operation before it."""

    @property
    def is_as_before(self) -> bool:
        """Return whether the stage changed nothing."""
        if self.point.key == "post_fusion":  # what is fused is less than before
            return self.before == self.after
        fates = {fate for fate, number in self.became.items() if number}
        return bool(self.became) and fates <= {"kept"}
