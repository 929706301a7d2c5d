"""A fact: one sentence about a session without torch-internal words, and where to look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.analysis.documents import Place

Severity = Literal["good", "notice", "problem"]

View = Literal[
    "overview", "source", "graphs", "breaks", "guards", "kernels", "memory", "passes", "time", "console", "regions", "sizes",
    "bench", "ledger", "step_memory", "backend", "support", "stages", "flame", "roofline",
]  # fmt: skip

Topic = Literal[
    "run", "graphs", "breaks", "recompiles", "backend", "kernels", "memory", "time", "caches", "call", "bench", "front_ends",
    "stages", "next",
]  # fmt: skip
"""What a fact is about. Facts of one topic follow each other."""


@dataclass(frozen=True, slots=True)
class Fact:
    topic: Topic
    severity: Severity
    text: str
    detail: str = ""
    """Secondary text, which may be long: the user's own line, a hint, figures."""
    place: Place | None = None
    """Where enter goes. If None, ``view`` is the view that says more."""
    view: View | None = None
