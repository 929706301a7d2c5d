"""The stages that another variant of a compilation can set out from, the changes it can be made
with, and the words for both.
"""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.variants.lineage import root_name
from fx_explorer.model import GATE_WORDS, GRAPH_GATES, Gate
from fx_explorer.session import SessionReader

_LEFT_BEHIND: dict[Gate, tuple[model.Stage, ...]] = {
    "dynamo": ("dynamo",),
    "pre_grad": ("pre_grad",),
    "joint": ("joint",),
    "partition": ("forward", "backward"),
    "post_grad": ("post_grad",),
}
"""Gate → the stages that show that a compilation has passed it. After the last of these gates torch
keeps nothing to start again from.
"""


@dataclass(frozen=True, slots=True)
class VariantStart:
    """A stage of a compilation to set out from."""

    compilation: str
    gate: Gate
    region: str = ""
    """The only region to lower, from the partition on, with the others kept; empty for all."""

    @property
    def words(self) -> str:
        only = f" · only region {self.region}" if self.region else ""
        return f"[{self.compilation}] from {GATE_WORDS[self.gate]}{only}"

    @property
    def redone(self) -> str:
        return "it is lowered again, the others are kept" if self.region else REDONE[self.gate]


REDONE: dict[Gate, str] = {
    "dynamo": "everything after Dynamo runs again",
    "pre_grad": "AOTAutograd and Inductor run again",
    "joint": "the partition and Inductor run again",
    "partition": "the lowering runs again",
    "post_grad": "fusion and code run again",
}


def variant_starts(reader: SessionReader, at: str = "") -> list[VariantStart]:
    """Return the stages that another variant can set out from, in the order in which they ran.

    ``at`` is the compilation that waits at a gate. torch is inside it, so no other one can be taken
    up until it has ended.
    """
    return [
        start
        for variant in reader.rows(model.Compilation)
        for gate in GRAPH_GATES
        if (not at or root_name(variant.name) == root_name(at)) and _passed(reader, variant, gate)
        for start in (
            VariantStart(variant.name, gate),
            *(_regions(reader, variant) if gate == "partition" else ()),
        )
    ]


def _regions(reader: SessionReader, variant: model.Compilation) -> list[VariantStart]:
    """Return a start per region that was compiled, when there are several."""
    rows = reader.rows(model.RegionLowering, compilation=variant.id)
    names = dict.fromkeys(row.name for row in rows if row.subgraph and row.name)
    if len(names) > 1:
        return [VariantStart(variant.name, "partition", name) for name in names]
    return []


@dataclass(frozen=True, slots=True)
class OfferedChanges:
    """Changes that another variant can be made with, as one choice of a menu."""

    words: str
    detail: str
    settings: dict[str, object] | None
    """The options to set; None when the user is asked for them."""


def changes_offered(start: VariantStart) -> list[OfferedChanges]:
    """Return the changes. Another backend is possible only after Dynamo; the usual ones make a
    comparison.
    """
    return [
        *(_BACKENDS if start.gate == "dynamo" else ()),
        SAME,
        OfferedChanges("with other options", "choose them first", None),
    ]


SAME = OfferedChanges("with the same options", "", {})

_BACKENDS = (
    OfferedChanges(
        "with regional Inductor",
        "only marked regions are compiled",
        {"compile.backend": "regional_inductor"},
    ),
    OfferedChanges("with Inductor", "everything is compiled", {"compile.backend": "inductor"}),
    OfferedChanges("eagerly", "nothing is compiled", {"compile.backend": "eager"}),
)


def _passed(reader: SessionReader, compilation: model.Compilation, gate: Gate) -> bool:
    return any(
        reader.count(model.Graph, compilation=compilation.id, stage=stage)
        for stage in _LEFT_BEHIND[gate]
    )
