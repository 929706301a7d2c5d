"""This module has facts: a fact is one sentence about a session without torch-internal words, with
a place to look at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.analysis.documents import Place

Severity = Literal["good", "running", "changed", "notice", "problem"]
"""Severity of a fact. ``changed`` is neither good nor bad: it differs from the earlier capture.
``running`` says what still works; it is no finding.
"""

View = Literal[
    "overview", "source", "graphs", "breaks", "guards", "kernels", "memory", "passes", "time",
    "console", "regions", "sizes", "bench", "ledger", "step_memory", "backend", "support", "stages",
    "flame", "roofline", "profile", "fusion", "decisions",
    "side_effects", "trace", "values", "collectives",
]  # fmt: skip

Topic = Literal[
    "run", "graphs", "breaks", "recompiles", "backend", "kernels", "memory", "time", "caches",
    "call", "bench", "front_ends", "stages", "next", "old", "since", "profile", "pause",
]  # fmt: skip
"""Subject of a fact. Facts of one topic follow each other."""

OF_FILES = "files"
"""Value of ``difference`` for the user's files: how they differ now from when they were
captured.
"""


@dataclass(frozen=True, slots=True)
class Fact:
    topic: Topic
    severity: Severity
    text: str
    detail: str = ""
    """Secondary text, which may be long: the user's own line, a hint, figures."""
    place: Place | None = None
    """Place that enter leads to. If None, ``view`` is the view with more."""
    view: View | None = None
    difference: str = ""
    """The difference that enter shows: the ``Aspect`` of a line on the card "since the last
    capture", or ``OF_FILES``. It takes precedence over ``place`` and ``view``.
    """
    cost: str = ""
    """What it costs, in a few words: ``+1 graph``; empty where that is not known."""
    brief: str = ""
    """A shorter sentence for one line; empty where there is only ``text``."""
    can_try: bool = False
    """Whether something that may help can be tried, and was not."""
    version: str = ""
    """Name of the compilation that ``place`` is meant of, such as ``0/1``; empty for any."""
