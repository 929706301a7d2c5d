"""A fact is one sentence about a session without torch-internal words, and where to look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.analysis.documents import Place

Severity = Literal["good", "changed", "notice", "problem"]
"""``changed`` is neither good nor bad: it differs from the capture before."""

View = Literal[
    "overview", "source", "graphs", "breaks", "guards", "kernels", "memory", "passes", "time",
    "console", "regions", "sizes", "bench", "ledger", "step_memory", "backend", "support", "stages",
    "flame", "roofline", "profile",
]  # fmt: skip

Topic = Literal[
    "run", "graphs", "breaks", "recompiles", "backend", "kernels", "memory", "time", "caches",
    "call", "bench", "front_ends", "stages", "next", "old", "since", "profile", "pause",
]  # fmt: skip
"""What a fact is about. Facts of one topic follow each other."""

OF_FILES = "files"
"""The difference of the user's files, between when they were captured and now."""


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
    difference: str = ""
    """Which difference enter shows: what a line of the card "since the last capture" is about (its
    ``Aspect``), or ``OF_FILES``. It comes before ``place`` and ``view``.
    """
