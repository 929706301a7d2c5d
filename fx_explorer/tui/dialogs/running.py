"""This module has the base of dialogs in which the program runs: a clock beside what runs, and one
question before Escape stops it. ``MeasuringScreen`` is the plainest of them: a worker measures the
program meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.timer import Timer
from textual.widgets import Label

from fx_explorer.errors import FxExplorerError
from fx_explorer.highlight import printable
from fx_explorer.model import CaptureRequest
from fx_explorer.trials import BreakTimes, Told
from fx_explorer.tui.dialogs.dialog import AnswerT, Consent, Dialog
from fx_explorer.tui.keys import closing_bindings
from fx_explorer.tui.widgets.titled_box import TitledBox

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


def describe_earlier(least_s: float, most_s: float) -> str:
    """Return ``earlier ones took 20 s to 1:05``: how long trials of the same program took."""
    least, most = clock(least_s), clock(most_s)
    return f"earlier ones took {most if least == most else f'{least} to {most}'}"


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


MeasuredT = TypeVar("MeasuredT")

Measure = Callable[[CaptureRequest, Told], Awaitable[MeasuredT]]
"""A function that measures the program with one worker; tests replace it."""

MeasureBreaks = Measure[BreakTimes]


@dataclass(frozen=True, slots=True)
class MeasuringTexts:
    """The texts of the dialog during a measurement."""

    title: str
    what: str
    stopped: str
    failed: str = "not measured"
    """Title of the message that says why there is no result."""
    question: str = "Stop measuring?"
    discarded: str = "Results so far are discarded."


OF_BREAKS = MeasuringTexts(
    "How long graph breaks take",
    "A separate worker builds the program and calls it repeatedly, and measures the time between "
    "graphs.",
    "Stopped: graph breaks were not measured.",
)

OF_A_CALL = MeasuringTexts(
    "Where the time of a call goes",
    "A separate worker builds the program and calls it repeatedly, with and without a timer, and "
    "in eager mode.",
    "Stopped: no call was measured.",
)

OF_NUMERICS = MeasuringTexts(
    "Is it right",
    "Separate workers call the program in eager mode, in float64 and compiled, and compare the "
    "results.",
    "Stopped: results were not compared.",
)

OF_REMEDIES = MeasuringTexts(
    "What helps",
    "A separate worker captures the program again for each remedy, with only that change.",
    "Stopped: results of finished trials are shown.",
)

OF_ANOTHER_CHOICE = MeasuringTexts(
    "Another choice",
    "A worker of its own captures the program, and compiles the graph a second time with this "
    "choice. Then both stand side by side.",
    "Stopped: the other choice was not tried.",
    "not tried",
    "Stop compiling?",
    "What was compiled so far is discarded.",
)

OF_ANOTHER_PYTHON = MeasuringTexts(
    "By another Python",
    "A worker of that interpreter captures the program. Then both captures stand side by side.",
    "Stopped: the program was not captured by another Python.",
    "not captured",
    "Stop capturing?",
    "What was captured so far is discarded.",
)

READ_S = 20
"""Seconds that the reason for a refusal is shown."""


class MeasuringScreen(RunningDialog[MeasuredT | None], Generic[MeasuredT]):
    """Shows the worker's activity in one line, with a clock. It closes by itself with the result;
    escape asks, then returns None and ends the worker.
    """

    DEFAULT_CSS = """
    MeasuringScreen { align: center middle; }
    MeasuringScreen > Vertical {
        width: 80%; max-width: 90; height: auto; background: $surface; border: round $border;
    }
    MeasuringScreen Label { width: 1fr; padding: 0 1; }
    MeasuringScreen #what { color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = closing_bindings()

    def __init__(
        self,
        request: CaptureRequest,
        measure: Measure[MeasuredT],
        words: MeasuringTexts = OF_BREAKS,
        limit_s: float | None = None,
    ) -> None:
        """``limit_s``: the seconds after which the worker is stopped; None without a limit."""
        super().__init__()
        self._limit_s = limit_s
        self._activity = "starting Python"
        self._words = words
        self._request = request
        self._measure = measure
        self._doing = Label("", markup=False)

    def compose(self) -> ComposeResult:
        with TitledBox(self._words.title) as box:
            box.border_subtitle = "esc stops"
            yield Label(self._words.what, markup=False, id="what")
            yield self._doing

    def on_mount(self) -> None:
        self.begin_clock()
        self.show_clock()
        self._run()

    def show_clock(self) -> None:
        took = self.running_for
        if self._limit_s:
            took = f"{took} of at most {clock(self._limit_s)}"
        self._doing.update(f"… {printable(self._activity)} · {took}")

    @work(name="measure", group="measure", description="build the program, and measure it")
    async def _run(self) -> None:
        """Measure the program in a process of its own, which ends if this is cancelled."""
        try:
            measured = await self._measure(self._request, self._tell)
        except FxExplorerError as error:
            self.end_clock()
            title = self._words.failed
            self.app.notify(str(error), title=title, severity="warning", timeout=READ_S)
            self.dismiss(None)
        else:
            self.end_clock()
            self.dismiss(measured)

    def _tell(self, activity: str) -> None:
        self._activity = activity
        self.show_clock()

    def action_leave(self) -> None:
        self.ask_to_stop(self._words.question, self._words.discarded, self._stop)

    def _stop(self) -> None:
        self.workers.cancel_node(self)
        self.app.notify(self._words.stopped)
        self.dismiss(None)
