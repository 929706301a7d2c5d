"""From where a finished compilation can be continued, and the words for it. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.model import GATE_WORDS, GATES, GRAPH_GATES, Gate
from fx_explorer.session import SessionReader

_LEFT_BEHIND: dict[Gate, str] = {
    "dynamo": "SELECT 1 FROM graph WHERE stage='dynamo' AND compilation=?",
    "pre_grad": "SELECT 1 FROM graph WHERE stage='pre_grad' AND compilation=?",
    "joint": "SELECT 1 FROM graph WHERE stage='joint' AND compilation=?",
    "partition": "SELECT 1 FROM graph WHERE stage IN ('forward', 'backward') AND compilation=?",
    "post_grad": "SELECT 1 FROM graph WHERE stage='post_grad' AND compilation=?",
}
"""What shows that a compilation has been through a gate. After the last of these torch keeps nothing to start again from."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A stage of a compilation to set out from."""

    compilation: str
    gate: Gate

    @property
    def words(self) -> str:
        return f"[{self.compilation}] from {GATE_WORDS[self.gate]}"


REDONE: dict[Gate, str] = {
    "dynamo": "everything after Dynamo is done again",
    "pre_grad": "AOTAutograd and Inductor are done again",
    "joint": "the partition and Inductor are done again",
    "partition": "the lowering is done again",
    "post_grad": "fusion and code are done again",
}


def departures(reader: SessionReader, gates: Collection[Gate] = GRAPH_GATES) -> list[Departure]:
    """From where another way can be taken, in the order things happened."""
    return [
        Departure(compilation.name, gate)
        for compilation in reader.rows(model.Compilation)
        for gate in GATES
        if gate in gates and gate in _LEFT_BEHIND and _passed(reader, compilation, gate)
    ]


def _passed(reader: SessionReader, compilation: model.Compilation, gate: Gate) -> bool:
    return bool(reader.query(f"{_LEFT_BEHIND[gate]} LIMIT 1", (compilation.id,)))
