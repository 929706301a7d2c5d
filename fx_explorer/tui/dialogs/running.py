"""This module has the base of dialogs in which the program runs: a clock beside what runs, and one
question before Escape stops it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic

from textual.timer import Timer

from fx_explorer.tui.dialogs.dialog import AnswerT, Consent, Dialog

TICK_S = 1.0
"""Seconds between two updates of the clock."""

SCROLLING = {
    "settings.words_down": "scroll_description(3)",
    "settings.words_up": "scroll_description(-3)",
}
"""Commands that scroll a long description, for dialogs that have one: they are the same in each."""


def clock(seconds: float) -> str:
    """Return ``12 s``, or ``2:05`` from a minute on."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"


def steps(done: int, planned: int) -> str:
    """Return ``2 of 5``, the number of the present step; empty where there is one step only."""
    return f"{min(done + 1, planned)} of {planned}" if planned > 1 else ""


class RunningDialog(Dialog[AnswerT], Generic[AnswerT]):
    """A dialog whose work takes seconds to minutes. A subclass shows ``running_for`` whenever
    ``show_clock`` is called, and says how its work is stopped.
    """

    _began_s: float | None = None
    _ticking: Timer | None = None
    _question: Consent | None = None

    def show_clock(self) -> None:
        """Show the time that has passed."""
        raise NotImplementedError

    @property
    def running_for(self) -> str:
        """Return for how long the work runs; empty when none does."""
        if self._began_s is None:
            return ""
        return clock(time.monotonic() - self._began_s)

    def begin_clock(self) -> None:
        self._began_s = time.monotonic()
        if self._ticking is None:
            self._ticking = self.set_interval(TICK_S, self._tick)

    def end_clock(self) -> None:
        """Stop the clock, and withdraw the question whether to stop: there is nothing left to
        stop.
        """
        self._began_s = None
        if self._question is not None and self._question.is_current:
            self._question.dismiss(False)

    def _tick(self) -> None:
        if self._began_s is not None:
            self.show_clock()

    def ask_to_stop(self, question: str, kept: str, stop: Callable[[], object]) -> None:
        """Ask whether to stop. The work continues meanwhile; ``kept`` says what is kept of it."""

        def answered(stops: bool | None) -> None:
            self._question = None
            if stops and self._began_s is not None:
                stop()

        self._question = Consent(question, f"It runs for {self.running_for}. {kept}")
        self.app.push_screen(self._question, answered)
