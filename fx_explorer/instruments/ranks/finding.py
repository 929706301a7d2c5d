"""One thing in which ranks differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Aspect = Literal[
    "torch",
    "parts",
    "extra",
    "missing",
    "order",
    "reasons",
    "graph",
    "inputs",
    "tensors",
    "breaks",
    "guards",
    "cache",
    "collectives",
    "results",
    "status",
    "executed",
    "numbers",
    "guard_values",
]

ASPECTS: dict[Aspect, str] = {
    "torch": "releases of torch and Python",
    "parts": "parts of the model",
    "missing": "which functions were compiled",
    "extra": "which functions were compiled, and how often",
    "order": "the order of compilations",
    "reasons": "why functions were compiled again",
    "graph": "operations of the graphs",
    "inputs": "sizes and types of inputs",
    "tensors": "sizes and types in the graphs",
    "breaks": "graph breaks",
    "guards": "what is checked before a call",
    "cache": "answers of torch's caches",
    "collectives": "order of collectives",
    "results": "sizes and types in the generated code",
    "status": "how compilations ended",
    "executed": "the order in which compiled graphs ran",
    "numbers": "numbers among the arguments",
    "guard_values": "numbers that are checked",
}
"""Aspect → in words, in the order in which one leads to the next."""

NOTED: tuple[Aspect, ...] = ("parts", "numbers", "guard_values")
"""Aspects that are told and no divergence: a rank's own number, its part of the data and its part
of the model differ by design.
"""


@dataclass(frozen=True, slots=True)
class RankFinding:
    """One difference between a group of ranks and those it is compared with."""

    aspect: Aspect
    ranks: tuple[int, ...]
    others: tuple[int, ...]
    position: int
    """Before which compilation of the others it is seen, from 0."""
    words: str
    compilation: str = ""
    """Its name on the ranks that differ; empty where they lack it."""
    other_compilation: str = ""
    function: str = ""
    file: str = ""
    """The user's line where it is known, else where the function begins."""
    line: int = 0

    @property
    def is_divergence(self) -> bool:
        return self.aspect not in NOTED
