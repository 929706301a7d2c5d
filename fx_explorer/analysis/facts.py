"""A fact: one sentence about a session for somebody who knows no torch-internal word, with where to look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.analysis.documents import Place

Severity = Literal["good", "notice", "problem"]

View = Literal[
    "overview", "source", "graphs", "breaks", "guards", "kernels", "memory", "passes", "time", "console", "regions", "sizes"
]  # fmt: skip

Topic = Literal["run", "graphs", "breaks", "recompiles", "kernels", "memory", "time", "next"]
"""What a fact is about; facts of one topic follow each other."""


@dataclass(frozen=True, slots=True)
class Fact:
    topic: Topic
    severity: Severity
    text: str
    detail: str = ""
    """The user's own line, a hint, figures: secondary, may be long."""
    place: Place | None = None
    """Where Enter goes; when None, ``view`` says which view answers more."""
    view: View | None = None
