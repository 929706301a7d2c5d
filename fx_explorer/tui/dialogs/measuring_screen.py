"""This module has a dialog that stays open while a worker measures the program: it shows the
worker's activity, and the key that stops it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Label

from fx_explorer.errors import FxExplorerError
from fx_explorer.highlight import printable
from fx_explorer.model import CaptureRequest
from fx_explorer.trials import BreakTimes, Told
from fx_explorer.tui.dialogs.running import RunningDialog, clock
from fx_explorer.tui.keys import closing_bindings

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


OF_BREAKS = MeasuringTexts(
    "How long graph breaks take",
    "A worker of its own builds the program and calls it again and again: what lies "
    "between two graphs is timed.",
    "Stopped: graph breaks were not measured.",
)

OF_A_CALL = MeasuringTexts(
    "Where the time of a call goes",
    "A worker of its own builds the program and calls it again and again, with and "
    "without a clock, and uncompiled.",
    "Stopped: no call was accounted for.",
)

OF_NUMERICS = MeasuringTexts(
    "Is it right",
    "Workers of their own call the program in eager mode, in float64 and compiled, and compare the "
    "results.",
    "Stopped: results were not compared.",
)

READ_S = 20
"""Seconds that the reason for a refusal is shown."""


class MeasuringScreen(RunningDialog[MeasuredT | None], Generic[MeasuredT]):
    """Shows the worker's activity in one line, with a clock. It closes by itself with the result;
    escape asks, then returns None and ends the worker.
    """

    DEFAULT_CSS = """
    MeasuringScreen { align: center middle; }
    MeasuringScreen > Vertical { width: 80%; max-width: 90; height: auto; background: $surface; border: round $border; }
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
        with Vertical() as box:
            box.border_title = self._words.title
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
            self.app.notify(str(error), title="not measured", severity="warning", timeout=READ_S)
            self.dismiss(None)
        else:
            self.end_clock()
            self.dismiss(measured)

    def _tell(self, activity: str) -> None:
        self._activity = activity
        self.show_clock()

    def action_leave(self) -> None:
        self.ask_to_stop("Stop measuring?", "Nothing of it is kept.", self._stop)

    def _stop(self) -> None:
        self.workers.cancel_node(self)
        self.app.notify(self._words.stopped)
        self.dismiss(None)
