"""This screen tries ``dynamic=None``, ``True``, ``False`` and ``mark_dynamic`` on the present
program. The table grows as each trial ends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Label
from textual.worker import Worker

from fx_explorer.errors import FxExplorerError
from fx_explorer.highlight import printable_text
from fx_explorer.instruments.dynamic.trial import COLUMNS as TRIAL_COLUMNS
from fx_explorer.instruments.dynamic.trial import (
    WAYS,
    DynamicTrial,
    Told,
    Way,
    advice,
    cells,
    describe_outcome,
    verdict,
)
from fx_explorer.model import TWICE_THE_BATCH, CaptureRequest
from fx_explorer.output.table import Column
from fx_explorer.tui.commands import Keymap, by_id
from fx_explorer.tui.conversation import CopyWanted
from fx_explorer.tui.dialogs.dialog import is_under_way
from fx_explorer.tui.dialogs.running import SCROLLING, RunningDialog, steps
from fx_explorer.tui.keys import closing_bindings, first_key, reused_bindings
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import ListColumn, Row, RowList, Rows
from fx_explorer.tui.widgets.titled_box import TitledBox

TryDynamic = Callable[[CaptureRequest, str, Told], AsyncIterator[DynamicTrial]]
"""``try_dynamic`` for one worker, or a test's replacement of it."""

READ_S = 15
"""Seconds for which a message is shown that explains why something was not done."""


class DynamicScreen(RunningDialog[None]):
    """Shows a row per way above; below, the result for the other inputs with the way under the
    cursor, and the verdict.
    """

    DEFAULT_CSS = """
    DynamicScreen { align: center middle; }
    DynamicScreen > Vertical {
        width: 100%; height: auto; max-height: 96%; background: $surface; border: round $border;
    }
    DynamicScreen > Vertical { padding: 0 1; }
    DynamicScreen RowList { background: $surface; height: 5; }
    DynamicScreen VerticalScroll { height: auto; margin: 1 0; min-height: 5; max-height: 12; }
    DynamicScreen Label { width: 1fr; padding: 0 1; }
    DynamicScreen OneLine { padding: 0; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *closing_bindings("app.quit"),
        *reused_bindings({"place.copy": "copy", **SCROLLING}),
    ]

    def __init__(
        self,
        request: CaptureRequest,
        others: str,
        try_dynamic: TryDynamic,
        trials: list[DynamicTrial],
        keymap: Keymap,
    ) -> None:
        """``trials`` are earlier trials; the screen adds its own, so that they outlive it. If all
        exist, none is run.
        """
        super().__init__()
        self._request = request
        self._others = others
        self._try_dynamic = try_dynamic
        self._keymap = keymap
        self._trials = trials
        self._doing: tuple[Way, str] | None = None
        self._trial: Worker[None] | None = None
        self._rows: list[Row] = []
        self._list = RowList(COLUMNS)
        self._words = Label("", markup=False)
        self._scroll = VerticalScroll(self._words, can_focus=False)
        self._hint = OneLine()

    def compose(self) -> ComposeResult:
        with TitledBox(f"Dynamic shapes · other inputs: {self._others or TWICE_THE_BATCH}"):
            yield self._list
            yield self._scroll
            yield self._hint

    def on_mount(self) -> None:
        self._list.load(Rows(self._rows))
        self._list.focus()
        if len(self._trials) < len(WAYS):
            self._trials.clear()
            self.begin_clock()
            self._trial = self._run()
        self._show_state()

    @work(
        name="try dynamic shapes",
        group="try dynamic",
        description="run the program with each setting of dynamic shapes",
    )
    async def _run(self) -> None:
        """Try each way in a process of its own, which ends when this is cancelled."""
        try:
            async for trial in self._try_dynamic(self._request, self._others, self._tell):
                self._trials.append(trial)
                self._doing = None
                self._show_state()
        except FxExplorerError as error:
            self.notify(f"it could not be tried: {error}", severity="error", timeout=READ_S)
        finally:
            self._doing = self._trial = None
            self.end_clock()
            if self.is_attached:
                self._show_state()

    def _tell(self, way: Way, activity: str) -> None:
        self._doing = way, activity
        self._show_state()

    @property
    def _advice(self) -> str:
        """Return the advice; empty while a better way may still be tried."""
        return "" if self._trial else advice(self._trials)

    # what is shown

    def on_line_view_moved(self, event: LineView.Moved) -> None:
        event.stop()
        self._show_description()

    def _show_state(self) -> None:
        self._rows[:] = [way_row(way, self._trials, self._doing) for way in WAYS]
        self._list.reload()
        self._show_description()

    def _show_description(self) -> None:
        shown = describe_way(
            WAYS[self._list.cursor], self._trials, is_running=self._trial is not None
        )
        self._words.update(Content(printable_text("\n\n".join(shown))))
        self.show_clock()

    def show_clock(self) -> None:
        runs = ""
        if self._trial:
            runs = f"trying {steps(len(self._trials), len(WAYS))} · {self.running_for}"
        copies, closes = (
            first_key(by_id(command), self._keymap) for command in ("place.copy", "dialog.close")
        )
        ends = "stops, and keeps the results" if self._trial else "closes"
        copying = f"{copies} copies the lines to write · " if self._advice else ""
        self._hint.show(Content(runs), Content(f"{copying}{closes} {ends}"))

    # what can be asked

    def action_scroll_description(self, lines: int) -> None:
        self._scroll.scroll_relative(y=lines, animate=False)

    def action_copy(self) -> None:
        if self._advice:
            self.app.post_message(CopyWanted(self._advice))
        elif self._trial:
            self.notify("Not known yet.")
        else:
            self.notify("There is nothing to write into the program.")

    def action_leave(self) -> None:
        if is_under_way(self._trial):
            self.ask_to_stop("Stop trying?", "What was tried is kept.", self._stop)
        else:
            self.dismiss(None)

    def _stop(self) -> None:
        if is_under_way(self._trial):
            self._trial.cancel()
            self.notify("Stopped: the other settings were not tried.")


# Ways of dealing with dynamic shapes as rows, and the text about the one under the cursor.

_WAY, *_NUMBERS, _OTHERS = TRIAL_COLUMNS


def _number_column(column: Column) -> ListColumn:
    return ListColumn(
        column.title, align="right", min_width=len(column.title), priority=column.priority
    )


COLUMNS = (
    ListColumn(_WAY.title, "strong", min_width=13),
    *map(_number_column, _NUMBERS),
    ListColumn(_OTHERS.title, min_width=_OTHERS.least, max_width=120),
)

_SIGNS = {"used again": ("✓", "good"), "recompiled": ("↻", "warning"), "": ("?", "warning")}
"""(sign, kind of highlight.py). A sign is given because colour alone must not carry meaning."""


def way_row(way: Way, trials: Sequence[DynamicTrial], doing: tuple[Way, str] | None) -> Row:
    trial = next((trial for trial in trials if trial.way == way), None)
    if trial is None:
        state = f"… {doing[1]}" if doing and doing[0] == way else "not tried"
        return (way, *[""] * (len(COLUMNS) - 2), (state, "muted"))
    sign, kind = _SIGNS[trial.others] if trial.is_whole else ("✗", "bad")
    *numbers, last = cells(trial)
    return (*numbers, (f"{sign} {last}", kind))


def describe_way(way: Way, trials: Sequence[DynamicTrial], *, is_running: bool) -> list[str]:
    """Return the text about the way under the cursor; after the last trial, also a conclusion from
    all of them.
    """
    here = [f"{trial.way}: {describe_outcome(trial)}" for trial in trials if trial.way == way]
    if is_running:
        return here
    code = [f"  {line}" for line in advice(trials).splitlines()]
    conclusion = "\n".join(filter(None, [verdict(trials), *code]))
    return [*here, conclusion]
