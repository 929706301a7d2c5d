"""This screen shows the fixes of a break: each as a row with its diff, tried on demand, and written
to the user's file after asking. The text below explains why the fix under the cursor may help, what
it changes and how its trial went.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Label
from textual.worker import Worker

from fx_explorer.analysis.words import listed
from fx_explorer.errors import FxExplorerError, UsageError
from fx_explorer.highlight import printable, printable_text
from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.breaks.hints import Hinted, note_trial
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.offers import (
    FixOffer,
    TryFix,
    accept,
    all_proposals,
    is_whole,
    next_to_try,
    together,
    unknown_yet,
    why_not_accepted,
)
from fx_explorer.instruments.fixes.trial import Trial, Verdict
from fx_explorer.session.file_names import file_name, in_file
from fx_explorer.source_edit.writing import WrittenEdits
from fx_explorer.tui.commands import Keymap, by_id
from fx_explorer.tui.config import AfterFix
from fx_explorer.tui.conversation import CopyWanted, ask, conversation
from fx_explorer.tui.dialogs.dialog import Consent, is_under_way
from fx_explorer.tui.dialogs.running import SCROLLING, RunningDialog, describe_earlier, steps
from fx_explorer.tui.failures import TellsUnreadable
from fx_explorer.tui.keys import (
    closing_bindings,
    first_key,
    priority_bindings,
    reused_bindings,
)
from fx_explorer.tui.widgets.code_view import DiffView
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import ListColumn, Row, RowList, Rows
from fx_explorer.tui.widgets.titled_box import TitledBox

COLUMNS = (
    ListColumn("", "text", min_width=30, max_width=70),
    ListColumn("", "muted", min_width=16),
)

SIGNS: dict[Verdict, tuple[str, str]] = {
    "good": ("✓", "good"),
    "prints differ": ("▲", "warning"),
    "good where compared": ("✓", "good"),
    "refused": ("✗", "bad"),
    "not compared": ("?", "warning"),
    "timed out": ("?", "warning"),
}
"""(sign, kind of highlight.py). A sign is given because colour alone must not carry meaning."""

_DOUBTS: dict[Verdict, str] = {
    "prints differ": "Prints differ. ",
    "good where compared": "All that could be compared is equal. ",
}
"""Verdicts other than good with which a fix may be written → the beginning of the question."""

Told = tuple[str, str]
"""(text of a line, its kind)."""


def title_of(offer: FixOffer) -> str:
    broken = offer.broken
    return f"Fixes · {in_file(broken.file, broken.line)} · {broken.description}"


def fix_row(fix: Fix, trial: Trial | None, *, is_being_tried: bool) -> Row:
    if is_being_tried:
        return (fix.title, ("… being tried", "warning"))
    if trial is None:
        return (fix.title, "not tried")
    sign, kind = SIGNS[trial.verdict]
    return (fix.title, (f"{sign} {trial.verdict}", kind))


_NOT_CHECKED = re.compile("; (?=not compared: |not tried: )")
"""Splits the reason for a verdict: what was checked, and what was not."""


def describe_fix(fix: Fix, trial: Trial | None) -> list[Told]:
    lines = [(fix.why, "text")]
    if fix.risk:
        lines.append((f"▲ {fix.risk}", "warning"))
    if trial is not None:
        sign, kind = SIGNS[trial.verdict]
        checked, *not_checked = _NOT_CHECKED.split(trial.reason)
        lines.append((f"{sign} {trial.verdict}: {checked}", kind))
        lines += [(f"{part[0].upper()}{part[1:]}", "text") for part in not_checked]
        lines.append((measured(trial), "muted"))
    return [(text, kind) for text, kind in lines if text]


def measured(trial: Trial) -> str:
    """Return the figures of a trial, before → after; only its time when the changed program
    failed.
    """
    took = f"tried in {trial.took_s:.0f} s"
    before, after = trial.before, trial.after
    if after is None:
        return took
    compiling = f"compiling {before.compile_s:.2f} s → {after.compile_s:.2f} s, one timing each"
    return (
        f"breaks {before.graph_breaks} → {after.graph_breaks} · graphs {before.graphs} → "
        f"{after.graphs} · {took} · {compiling}"
    )


def shown(fix: Fix) -> str:
    """Return the edit as a diff, and options as the lines to add to the program."""
    lines = []
    for line in fix.instruction.splitlines():
        sign = " " if line.startswith("#") else "+"
        lines.append(f"{sign}{line}")
    options = "\n".join(lines)
    return f"{fix.diff}{options}"


def why_not_written(fix: Fix, trial: Trial | None) -> str:
    """Return why a fix cannot be written; empty when the user may be asked whether to write it."""
    if fix.marks:
        return (
            "This changes no file: mark it in your program, before the first call. The lines "
            "can be copied."
        )
    if fix.settings and not fix.edits:
        return "This fix changes no file: set the option in your program. The lines can be copied."
    if trial is None:
        return "It has not been tried: only tried fixes are written to your file."
    if trial.verdict in ("good", *_DOUBTS):
        return ""
    return f"Not written: {trial.verdict}, {trial.reason}. The diff can be copied."


def describe_good_fixes(good: int, of: int, key: str) -> str:
    """Return how many of the tried fixes are good. ``key`` writes one."""
    if not good:
        return f"None of the {of} fixes is good."
    verb = "is" if good == 1 else "are"
    return f"{good} of the {of} {verb} good: {key} writes the one at the cursor."


def question(fix: Fix, trial: Trial) -> str:
    doubt = _DOUBTS.get(trial.verdict, "")
    others = "".join(f", {file_name(edit.path)}" for edit in fix.edits[1:])
    return f"{doubt}Write it to {in_file(fix.path, fix.line)}{others}?"


MOST_ROWS = 6

READ_S = 15
"""Seconds for which a message is shown that explains why something was not done."""

_HINTED = (
    "fixes.try",
    "fixes.try_all",
    "fixes.accept",
    "place.copy",
    "fixes.other",
    "dialog.close",
)

_COLOURS = {
    "text": "$foreground",
    "muted": "$text-muted",
    "good": "$text-success",
    "warning": "$text-warning",
}


CAPTURE_AGAIN = "{file} is written. Capture again now?"
OLD_NOW = (
    "The screen still shows the file before the fix. The capture continues to the end, and then "
    "shows the effect."
)

KEEPS_BACKUP = "A backup of the current file is kept next to it (.orig)."
BEING_TRIED = "It is being tried: it can be written when the trial has ended."
"""Message in the question whether to write a fix that is still being tried."""

ALL_TRIED = "All of these fixes have been tried."
TRYING_ALL = "Trying all of these, the most promising first."


class FixScreen(TellsUnreadable, RunningDialog[bool]):
    """Shows the fixes of one break above; below, why the fix under the cursor may help, how its
    trial went, and its diff. It returns whether to capture again, because a fix was written.
    """

    DEFAULT_CSS = """
    FixScreen { align: center middle; }
    FixScreen > Vertical {
        width: 100%; height: 96%; background: $surface; border: round $border; padding: 0 1;
    }
    FixScreen RowList { background: $surface; }
    FixScreen VerticalScroll { height: auto; max-height: 60%; margin: 1 0; }
    FixScreen Label { width: 1fr; padding: 0 1; }
    FixScreen DiffView { height: 1fr; background: $surface; }
    FixScreen OneLine { padding: 0; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *closing_bindings("app.quit"),
        *priority_bindings("fixes"),
        *reused_bindings({"place.copy": "copy", **SCROLLING}),
    ]

    def __init__(
        self,
        offer: FixOffer,
        try_fix: TryFix,
        trials: list[Trial],
        written: list[WrittenEdits],
        keymap: Keymap,
        *,
        after_fix: AfterFix = "nothing",
        tries_all: bool = False,
    ) -> None:
        """``trials`` are earlier trials, and ``written`` what was written to the user's files; the
        screen adds its own, so that they outlive it.
        ``after_fix`` is called when a fix was written. ``tries_all``: begin by trying all fixes.
        """
        super().__init__()
        self._offer = offer
        self._try_fix = try_fix
        self._keymap = keymap
        self._trials = trials
        self._written = written
        self._after_fix = after_fix
        self._tries_all = tries_all
        self._trying: int | None = None
        self._rows_done = 0
        self._rows_planned = 1
        self._step = ""
        """The present step of the trial's worker."""
        self._trial: Worker[None] | None = None
        self._rows: list[Row] = []
        self._list = RowList(COLUMNS, header=False)
        self._words = Label("", markup=False)
        self._scroll = VerticalScroll(self._words, can_focus=False)
        self._diff = DiffView("")
        self._progress = OneLine()
        """What runs, for how long, and how far it is; shown while something is tried."""
        self._hint = OneLine()

    def compose(self) -> ComposeResult:
        with TitledBox(title_of(self._offer)):
            yield self._list
            yield self._scroll
            yield self._diff
            yield self._progress
            yield self._hint

    def on_mount(self) -> None:
        self._list.styles.height = min(MOST_ROWS, len(self._fixes))
        self._list.load(Rows(self._rows))
        self._show_state()
        self._diff.show(shown(self._fix))
        self._list.focus()
        if self._tries_all:
            self.action_try_all()

    @property
    def _fixes(self) -> list[Fix]:
        """Return the fixes of the break, and when there are several, one that fixes all breaks."""
        if self._offer.before.graph_breaks < 2 or not isinstance(self._offer.broken, DistinctBreak):
            return list(self._offer.fixes)
        tried = (trial.fix for trial in reversed(self._trials) if is_whole(trial.fix))
        return [*self._offer.fixes, next(tried, unknown_yet(self._offer.before.graph_breaks))]

    @property
    def _fix(self) -> Fix:
        return self._fixes[self._list.cursor]

    def _trial_of(self, fix: Fix) -> Trial | None:
        return next((trial for trial in reversed(self._trials) if trial.fix == fix), None)

    # what is shown

    def on_line_view_moved(self, event: LineView.Moved) -> None:
        event.stop()
        if event.control is self._list:
            self._show_description()
            self._diff.show(shown(self._fix))

    def on_line_view_followed(self, event: LineView.Followed) -> None:
        """Move the cursor into the fix's diff at enter."""
        event.stop()
        if event.control is self._list:
            self._diff.focus()

    def _show_state(self) -> None:
        """Redraw after a trial has begun or ended. Cursors keep their places."""
        self._rows[:] = [
            fix_row(fix, self._trial_of(fix), is_being_tried=row == self._trying)
            for row, fix in enumerate(self._fixes)
        ]
        self._list.reload()
        self._show_description()

    def _show_description(self) -> None:
        lines = describe_fix(self._fix, self._trial_of(self._fix))
        words = (
            Content.styled(printable_text(text), _COLOURS.get(kind, "$text-error"))
            for text, kind in lines
        )
        self._words.update(Content("\n").join(words))
        self._show_hint()

    def _show_hint(self) -> None:
        tries, tries_all, writes, copies, other, closes = (
            first_key(by_id(command), self._keymap) for command in _HINTED
        )
        # While one is tried, no other can be: the key that stops it needs the room of a narrow
        # terminal.
        if self._trial:
            first = f"{closes} stops the trial"
        else:
            first = f"{tries} tries it · {tries_all} all"
        last = "" if self._trial else f" · {closes} closes"
        # Only what was tried is written.
        second = f" · {writes} writes it" if self._trial_of(self._fix) else ""
        keys = f"{first}{second} · {copies} copies · {other} diff{last}"
        self._hint.show(Content(""), Content(keys))
        self.show_clock()

    def show_clock(self) -> None:
        self._progress.display = self._trial is not None
        counted_steps = steps(self._rows_done, self._rows_planned)
        trying = " ".join(filter(None, ("trying", counted_steps)))
        parts = (trying, self.running_for, printable(self._step))
        took = [trial.took_s for trial in self._trials if trial.took_s]
        usual = describe_earlier(min(took), max(took)) if took else ""
        self._progress.show(Content(" · ".join(filter(None, parts))), Content(usual))

    def _show_step(self, step: str) -> None:
        """Show what the worker of the trial is doing."""
        self._step = step
        if self.is_attached:
            self.show_clock()

    # what can be asked

    def action_scroll_description(self, lines: int) -> None:
        self._scroll.scroll_relative(y=lines, animate=False)

    def action_other_list(self) -> None:
        if self._diff.has_focus:
            self._list.focus()
        else:
            self._diff.focus()

    def action_copy(self) -> None:
        self.app.post_message(CopyWanted(self._fix.diff or self._fix.instruction))

    def action_try_fix(self) -> None:
        if self._can_try():
            self._trial = self._run_trials([self._list.cursor])

    def action_try_all(self) -> None:
        """Try all fixes that have not been tried, in the order of the list, which begins with the
        likeliest.
        """
        rows = [row for row, fix in enumerate(self._fixes) if self._trial_of(fix) is None]
        if not self._can_try():
            return
        if rows:
            self.notify(TRYING_ALL)
            self._trial = self._try_all(rows)
        else:
            self.notify(ALL_TRIED)
            self._trial = None

    def _can_try(self) -> bool:
        """Return whether fixes can be tried now; if not, tell the user why."""
        if self._offer.why_not_tried:
            self.notify(self._offer.why_not_tried, severity="warning", timeout=READ_S)
        elif is_under_way(self._trial):
            self.notify("A fix is being tried: wait for it, or stop it first.")
        return not self._offer.why_not_tried and not is_under_way(self._trial)

    @work(name="try fix", group="fix", description="run the program with a fix, and compare")
    async def _run_trials(self, rows: Sequence[int]) -> None:
        await self._run_them(rows)

    @work(
        name="try fixes",
        group="fix",
        description="run the program with one fix after the other, and compare",
    )
    async def _try_all(self, rows: Sequence[int]) -> None:
        """Try several fixes, report how many are good, and go to the best, unless the user has
        moved the cursor meanwhile.
        """
        began_at = self._list.cursor
        if not await self._run_them(rows):
            return
        fixes = self._fixes
        trials = [self._trial_of(fix) for fix in fixes]
        good = [row for row, trial in enumerate(trials) if trial and trial.works]
        wholly_good = [row for row in good if (trial := trials[row]) and trial.is_good]
        best = next((row for row in good if is_whole(fixes[row])), None)
        if best is None:
            best = next(iter(wholly_good or good), None)
        self.notify(
            describe_good_fixes(
                len(good), len(fixes), first_key(by_id("fixes.accept"), self._keymap)
            ),
            timeout=READ_S,
        )
        if best is not None and self._list.cursor == began_at:
            self._list.move_to(best)
            self._show_description()
            self._diff.show(shown(self._fix))

    async def _run_them(self, rows: Sequence[int]) -> bool:
        """Run trials one after the other. Returns whether all of them could be made. Each runs in a
        process of its own, which ends when this is cancelled.
        """
        self._rows_done, self._rows_planned = 0, len(rows)
        self.begin_clock()
        try:
            for done, row in enumerate(rows):
                self._rows_done = done
                self._trying = row
                self._show_state()
                fix = self._fixes[row]
                if is_whole(fix):
                    await self._try_whole()
                else:
                    await self._try_fix_now(fix)
            return True
        except FxExplorerError as error:
            self.notify(f"it could not be tried: {error}", severity="error", timeout=READ_S)
            return False
        finally:
            self._trying = self._trial = None
            self.end_clock()
            if self.is_attached:
                self._show_state()
                self._diff.show(shown(self._fix))

    async def _try_fix_now(self, fix: Fix) -> None:
        assert self._offer.request is not None
        self._show_step("starting")
        trial = await self._try_fix(self._offer.request, fix, self._offer.before, self._show_step)
        self._trials.append(trial)
        broken = self._offer.broken
        sets_only_options = fix in self._offer.fixes and not fix.edits
        if sets_only_options and isinstance(broken, Hinted):
            end = f"{SIGNS[trial.verdict][0]} {trial.verdict}: {trial.reason}"
            note_trial(self._offer.session, broken, fix.settings, end)

    async def _try_whole(self) -> None:
        """Try all good fixes together, after trying, break by break, the fixes that decide which
        are good. Verdicts are kept as they come.
        """
        breaks = await asyncio.to_thread(all_proposals, self._offer.session)
        while fix := next_to_try(breaks, self._trials):
            self.notify(f"Trying first: {fix.title} (line {fix.line})")
            await self._try_fix_now(fix)
            self._show_state()
        whole = together(breaks, self._trials)
        if whole:
            await self._try_fix_now(whole.fix)
        else:
            self.notify(
                "Fewer than two fixes are good and compatible, so there is nothing to combine.",
                timeout=READ_S,
            )

    @conversation("write fix", "write a fix to the file")
    async def action_accept(self) -> None:
        fix = self._fix
        trial = self._trial_of(fix)
        is_being_tried = self._trying is not None and self._fixes[self._trying] is fix
        if is_being_tried:
            reason = BEING_TRIED
        else:
            reason = why_not_written(fix, trial) or why_not_accepted(fix)
        if reason or trial is None:
            self.notify(reason, severity="warning", timeout=READ_S)
            return
        if await ask(self.app, Consent(question(fix, trial), KEEPS_BACKUP)):
            await self._write(fix)
        else:
            self.notify("Not written.")

    async def _write(self, fix: Fix) -> None:
        try:
            written_edits = accept(fix)
        except UsageError as error:
            self.notify(str(error), title="not written", severity="error", timeout=READ_S)
            return
        files = ", ".join(str(edit.path) for edit in fix.edits)
        self._written.append(written_edits)
        old = ", ".join(map(str, written_edits.backups))
        if fix.settings:
            options = f" Set in your program too: {fix.instruction}"
        else:
            options = ""
        undo = first_key(by_id("breaks.undo"), self._keymap)
        written = f"Wrote {files}. {undo} undoes it; backup of the original: {old}."
        if self._after_fix == "nothing":
            self.notify(f"{written} Capture again to see its effect.{options}", timeout=READ_S)
            return
        self.notify(f"{written}{options}", timeout=READ_S)
        name = listed(file_name(edit.path) for edit in fix.edits)
        if self._after_fix == "capture" or await ask(
            self.app, Consent(CAPTURE_AGAIN.format(file=name), OLD_NOW)
        ):
            self.dismiss(True)

    def action_leave(self) -> None:
        if is_under_way(self._trial):
            self.ask_to_stop("Stop the trial?", "Trials that have ended are kept.", self._stop)
        else:
            self.dismiss(False)

    def _stop(self) -> None:
        if is_under_way(self._trial):
            self._trial.cancel()
            self.notify("Stopped: the trial of the fix was not finished.")
