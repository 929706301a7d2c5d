"""What the user is looking at, and what has happened, as far as a step of the tour asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fx_explorer.analysis.documents import Place

MAIN_SCREEN = "Explorer"


@dataclass(frozen=True, slots=True)
class TourMoment:
    """The app at one time."""

    screen: str = MAIN_SCREEN
    """The class of the screen that is on top: the main one, a dialog, the fixes."""
    view: str = "overview"
    row: int = 0
    """The line that the cursor is on."""
    place: Place | None = None
    """What that line stands for."""
    lit: int = 0
    """Lines that are lit in linked panes beside the focused one."""
    panes: frozenset[str] = frozenset()
    """Kinds of documents that the linked panes show; empty in another view."""
    shows_stage: bool = False
    """Whether the panes show what a stage did."""
    gate: str = ""
    """The stage after which the compiler pauses; empty when it does not."""
    is_compiled: bool = False
    """Whether there is a complete capture: nothing runs, and nothing pauses."""
    captures: int = 0
    """How many captures were begun."""
    trials: int = 0
    """How many fixes were tried to their end."""
    verdict: str = ""
    """The verdict of the last trial."""
    saved_ns: int = 0
    """When the target's file was last written."""


Done = Callable[[TourMoment, TourMoment], bool]
"""Whether a step is done, given the moment when it began and the one now."""
