"""This module shows the options of the compiler in a dialog: what each does, its value in force,
and another value, for later compiles or for a trial.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from fx_explorer.analysis.words import counted
from fx_explorer.highlight import printable, printable_text
from fx_explorer.instruments.options.explained_options import (
    ExplainedOption,
    explained_options,
    read_settings,
)
from fx_explorer.instruments.options.trial import (
    OptionTrial,
    baseline_of,
    describe_settings,
)
from fx_explorer.model import WHOLE_CAPTURE, Setting
from fx_explorer.model.setting_values import as_python, expected, parse_value, python_text
from fx_explorer.session import SessionReader
from fx_explorer.trials import TrialWorker
from fx_explorer.tui.commands import Keymap, by_id
from fx_explorer.tui.dialogs.dialog import Keep, Keeping, is_under_way
from fx_explorer.tui.dialogs.options import (
    COLUMNS,
    READ_ONLY,
    READ_S,
    AskFirst,
    OptionEntry,
    ShowTrial,
    TryingDialog,
    TryOptions,
    entries,
    help_of,
    row_of,
    try_in_worker,
)
from fx_explorer.tui.keys import bindings_of, first_key, priority_bindings
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import Row, RowList, Rows

SEARCH_DELAY_S = 0.08
"""Seconds before a search begins, so that a word typed fast is searched once, not letter by
letter.
"""

NO_SETTINGS = (
    "This session has no list of options: it has not been read from torch yet (close this, and "
    "open it again in a moment), the capture ended before, or the session is too old."
)
NOTHING_MATCHES = "Nothing matches. Try fewer letters, or a word from torch's own help."


class Use(NamedTuple):
    """An action for values that were changed, and what it does."""

    words: str
    does: str


SHOW = Use("show the code that differs", "{code}")
USE = Use("continue with {changes}", "in the compilation that waits")
COMPILE_AGAIN = Use("compile again with {changes}", "one graph, beside the original")
TRY = Use("try {changes}", "captures once more, compares")
TRY_AGAIN = Use("try {changes} once more", "captures once more, compares")

FIND = "type to find a name or a word of the help"


class SettingsDialog(TryingDialog):
    """An input line, the matching options, and a description of the option under the cursor.

    Enter opens an option: its value can be typed, each letter is checked, and what is allowed is
    listed (↑ ↓ go through it). Once a value is taken, the first lines of the list say what can be
    done with all of them: try them, which captures the program once more beside this; open the
    comparison of a trial's code; or use them for what follows (they are handed over). Escape goes
    one step back, and asks first where something was typed or changed. From the list it gives an
    empty dict: nothing is changed.
    """

    DEFAULT_CSS = """
    SettingsDialog { align: center top; }
    SettingsDialog > Vertical {
        width: 96%; max-width: 190; height: 94%; margin-top: 1; padding: 0 1;
        background: $surface; border: round $border;
    }
    SettingsDialog Input { background: $surface; margin-bottom: 1; }
    SettingsDialog RowList { height: 1fr; min-height: 4; background: $surface; }
    SettingsDialog VerticalScroll {
        height: 45%; min-height: 3; max-height: 22; border-top: solid $border;
    }
    SettingsDialog.-tried VerticalScroll { height: 60%; max-height: 40; }
    SettingsDialog Static { color: $foreground; }
    SettingsDialog OneLine { padding: 0; color: $text-muted; }
    SettingsDialog .-editing, SettingsDialog.-edits .-finding { display: none; }
    SettingsDialog.-edits .-editing { display: block; }
    SettingsDialog.-edits VerticalScroll { height: 1fr; max-height: 100%; border-top: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of("dialog"), *priority_bindings("settings")]

    def __init__(
        self,
        settings: Sequence[Setting],
        chosen: Mapping[str, object] | None = None,
        *,
        options: Sequence[ExplainedOption] = (),
        follows: bool = True,
        use: Use = USE,
        try_options: TryOptions | None = None,
        trials: list[OptionTrial] | None = None,
        show_trial: ShowTrial | None = None,
        keymap: Keymap | None = None,
    ) -> None:
        """``chosen`` are values that were chosen earlier and not sent yet; they are returned with
        the others. With ``follows``, ``use`` says what the caller does with changed options.
        ``trials`` are earlier trials; the dialog adds its own, so that they are kept.
        """
        super().__init__(chosen, options, try_options, trials, show_trial)
        self._use = use
        self._settings = settings
        self._follows = follows
        self._keymap = keymap or {}
        self._shown_entries: Sequence[OptionEntry] = ()
        self._looked_for = ""
        self._edited: Setting | None = None
        self._text_before = ""
        """Text of the input line when its option was opened."""
        self._chosen_before = dict(self._chosen)
        self._input = Input(placeholder=FIND, compact=True, classes="-finding")
        self._list = RowList(COLUMNS, placeholder=NO_SETTINGS, classes="-finding")
        self._list.can_focus = False
        self._value = Input(compact=True, classes="-editing")
        self._verdict = OneLine(classes="-editing")
        self._help = Static(markup=False)
        self._scroll = VerticalScroll(self._help, can_focus=False)
        self._hint = OneLine()

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "Options: what they do, and their values in force"
            yield self._input
            yield self._list
            yield self._value
            yield self._verdict
            yield self._scroll
            yield self._hint

    def on_mount(self) -> None:
        self._input.focus()
        self._find()

    @property
    def edited(self) -> Setting | None:
        """Return the option whose value is being typed."""
        return self._edited

    # finding

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.input is self._value:
            self._check()
        else:

            def find() -> None:
                if event.value == self._input.value:
                    self._find()

            self.set_timer(SEARCH_DELAY_S, find)

    def _find(self) -> None:
        typed = self._looked_for = self._input.value
        self._shown_entries = entries(self._settings, typed, self._chosen)
        if self._settings:
            self._list.placeholder = NOTHING_MATCHES
        rows = [
            *self._rows_of_all(),
            *(row_of(entry, self._option(entry), self._chosen) for entry in self._shown_entries),
        ]
        self._list.load(Rows(rows), line=self._first_line(typed))
        self._show_help()

    def _first_line(self, typed: str) -> int:
        """Return the line of the first option. Without a search, the actions for all changes come
        before it.
        """
        if self._chosen and not typed:
            return 0
        return self._above + int(
            bool(self._shown_entries) and isinstance(self._shown_entries[0], str)
        )

    @property
    def _uses(self) -> list[tuple[Use, Callable[[], object]]]:
        """Return the actions that are possible with the changed settings."""
        if not self._chosen:
            return []
        uses: list[tuple[Use, Callable[[], object]]] = []
        trial = self._trial_of_chosen()
        if trial and trial.code and trial.code.differs and self._show_trial:
            uses.append((SHOW, partial(self._open_comparison, trial)))
        if self._follows and not any(name in WHOLE_CAPTURE for name in self._chosen):
            uses.append((self._use, lambda: self.dismiss(self._chosen)))
        if self._try_options:
            uses.append((TRY_AGAIN if trial else TRY, self.action_try_options))
        return uses

    @property
    def _above(self) -> int:
        """Return how many lines come before the first option."""
        return len(self._uses)

    def _rows_of_all(self) -> list[Row]:
        changes = counted(len(self._chosen), "change")
        trial = self._trial_of_chosen()
        code = trial.code.words if trial and trial.code else ""
        rows: list[Row] = []
        for use, _ in self._uses:
            words = f"⏎ {use.words.format(changes=changes)}"
            rows.append(((words, "strong"), "", "", "", (use.does.format(code=code), "muted")))
        return rows

    @property
    def _under_cursor(self) -> Setting | None:
        line = self._list.cursor - self._above
        setting = self._shown_entries[line] if 0 <= line < len(self._shown_entries) else None
        return setting if isinstance(setting, Setting) else None

    def _show_help(self) -> None:
        setting = self._edited or self._under_cursor
        has_result = bool(self._trial or self._trial_of_chosen()) and not self._edited
        parts = []
        if has_result or self._list.cursor < self._above:
            parts.append(self._describe_all())  # it stays while the cursor moves
        if setting:
            parts.append(help_of(setting, self._option(setting)))
        words = "\n\n".join(parts)
        self.set_class(has_result, "-tried")
        self._help.update(printable_text(words))
        self._scroll.scroll_home(animate=False)
        self._hint.show(*self._hints(setting))

    def show_clock(self) -> None:
        self._hint.show(*self._hints(self._edited or self._under_cursor))

    def _hints(self, setting: Setting | None) -> tuple[Content, Content]:
        if is_under_way(self._trial):
            what = describe_settings(self._chosen)
            step = self._step or f"capturing again with {what}"
            runs = f"trying · {self.running_for} · {step}"
            return Content(printable(runs)), Content("esc stops it")
        if self._edited:
            if self._edited.choices:
                keys = "↑ ↓ next value · ⏎ accepts · esc back"
            else:
                keys = "⏎ takes · esc back"
            return Content(self._edited.full_name), Content(keys)
        count = sum(isinstance(entry, Setting) for entry in self._shown_entries)
        if self._try_options:
            tries = f"{first_key(by_id('settings.try'), self._keymap)} tries · "
        else:
            tries = ""
        if setting:
            opens = "⏎ edits · "
        elif self._chosen:
            opens = "⏎ does what the line says · "
        else:
            opens = ""
        closes = "esc asks, and closes" if self._is_unused else "esc closes"
        options = counted(count, "option") if count else ""
        return Content(options), Content(f"{opens}{tries}{closes}")

    # editing

    def _edit(self, setting: Setting | None) -> None:
        if setting is None or not setting.type:
            self.app.bell()
            return
        if not self._follows and not self._try_options:
            self.notify(READ_ONLY, severity="warning", timeout=READ_S)
            return
        self._edited = setting
        self._value.value = self._text_before = python_text(self._value_of(setting))
        self._value.placeholder = expected(setting)
        self.add_class("-edits")
        self._value.focus()
        self._value.action_end()
        self._check()
        self._show_help()

    def _check(self) -> None:
        """Show whether the input would be accepted; if so, which other inputs are possible."""
        setting = self._edited
        if setting is None:
            return
        try:
            value = parse_value(setting, self._value.value)
        except ValueError as error:
            self._verdict.show(Content.styled(f"✗ {printable(str(error))}", "$text-error"))
        else:
            taken = printable(f"✓ {python_text(value)} · takes {expected(setting)}")
            self._verdict.show(Content.styled(taken, "$text-success"))

    def _take(self, setting: Setting) -> None:
        try:
            value = parse_value(setting, self._value.value)
        except ValueError:
            self.app.bell()  # the line below it says why
            return
        self._choose(setting, value)
        self._stop_editing()
        # The search that follows is at once; the message would begin another.
        with self._input.prevent(Input.Changed):
            self._input.value = ""
        self._find()
        is_unchanged = setting.full_name not in self._chosen
        if is_unchanged and setting in self._shown_entries:
            self._list.move_to(self._above + self._shown_entries.index(setting))
            self._show_help()

    def _stop_editing(self) -> None:
        self._edited = None
        self.remove_class("-edits")
        self._input.focus()
        self._show_help()

    # trying

    def action_try_options(self) -> None:
        edited = self._edited
        if edited:
            self._take(edited)
        if self._edited:  # what is typed is no value of this option
            return
        if edited and not self._chosen:
            self._refuse_unchanged(edited)
        else:
            self._try_chosen(self._under_cursor)

    def _show_chosen(self) -> None:
        """Move the cursor to the lines with the possible actions, where the result of a trial is
        shown: to the comparison of the code where the trial has one.
        """
        with self._input.prevent(Input.Changed):
            self._input.value = ""
        self._find()
        uses = [use for use, _ in self._uses]
        self._list.move_to(0 if SHOW in uses else max(0, self._above - 1))
        self._show_help()

    # keys and mouse

    def action_scroll_description(self, lines: int) -> None:
        self._scroll.scroll_relative(y=lines, animate=False)

    def action_move(self, lines: int) -> None:
        if self._edited:
            self._next_choice(self._edited, lines)
        else:
            self._list.move_to(self._list.cursor + lines)
            self._show_help()

    def _next_choice(self, setting: Setting, steps: int) -> None:
        """Go through the allowed values, if there are few."""
        choices = as_python(setting.choices)
        if choices:
            # From a text that is none of them, a step on leads to the first, and a step back to the
            # last.
            if self._value.value in choices:
                at = choices.index(self._value.value)
            elif steps > 0:
                at = -1
            else:
                at = 0
            self._value.value = choices[(at + steps) % len(choices)]
            self._value.action_end()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._edited:
            self._take(self._edited)
            return
        if self._input.value != self._looked_for:
            self._find()  # enter came before the search
        self._follow(self._list.cursor)

    def _follow(self, line: int) -> None:
        if line < self._above:
            self._uses[line][1]()
        else:
            self._edit(self._under_cursor)

    def on_line_view_moved(self, event: LineView.Moved) -> None:
        event.stop()
        self._show_help()

    def on_line_view_followed(self, event: LineView.Followed) -> None:
        event.stop()
        self._follow(event.line)

    def on_click(self, event: events.Click) -> None:
        if event.widget is self:
            self.action_leave()

    # leaving

    def action_leave(self) -> None:
        if is_under_way(self._trial):
            self._stop_trial()
        elif self._edited:
            self._leave_value(self._edited)
        elif self._is_unused:
            self._leave_chosen()
        else:
            self.dismiss({})

    @property
    def _is_unused(self) -> bool:
        """Return whether chosen values have not been used yet."""
        has_waiting_use = self._follows and self._use == USE
        was_tried = not has_waiting_use and self._trial_of_chosen() is not None
        return bool(self._uses) and self._chosen != self._chosen_before and not was_tried

    def _leave_value(self, setting: Setting) -> None:
        """Leave the input line; ask first if it has an unsaved value."""
        typed = self._value.value
        if typed == self._text_before:
            self._stop_editing()
            return
        try:
            value = python_text(parse_value(setting, typed))
        except ValueError as error:
            title = f"The value you typed for {setting.full_name} is not valid"
            question = Keeping(title, str(error), can_keep=False)
        else:
            words = f"{value}\nYou typed it, but did not accept it with Enter."
            question = Keeping(f"Keep the value you typed for {setting.full_name}?", words)

        def answered(answer: Keep | None) -> None:
            if answer == "keep":
                self._take(setting)
            elif answer == "drop":
                self._stop_editing()

        self.app.push_screen(question, answered)

    def _leave_chosen(self) -> None:
        """Leave the dialog; ask first what to do with the chosen values."""
        use, act = next(entry for entry in self._uses if entry[0] != SHOW)
        lines = "\n".join(f"{name} = {python_text(value)}" for name, value in self._chosen.items())

        def answered(answer: Keep | None) -> None:
            if answer == "keep":
                act()
            elif answer == "drop":
                self.dismiss({})

        question = "Use what was changed?" if use == self._use else "Try what was changed?"
        self.app.push_screen(Keeping(question, lines), answered)


def options_dialog(
    reader: SessionReader | None,
    worker: TrialWorker,
    trials: list[OptionTrial],
    keymap: Keymap,
    *,
    follows: bool,
    use: Use = USE,
    ask_first: AskFirst,
    show_trial: ShowTrial | None = None,
) -> SettingsDialog:
    """Make the dialog. ``ask_first`` raises FxExplorerError when the user does not want the program
    to be run.
    """
    if reader is None:
        return SettingsDialog([], follows=follows, keymap=keymap)
    request = reader.request()
    if request:
        try_options = try_in_worker(request, baseline_of(reader), worker, ask_first)
    else:
        try_options = None
    return SettingsDialog(
        read_settings(reader),
        options=explained_options(reader),
        follows=follows,
        use=use,
        try_options=try_options,
        trials=trials,
        show_trial=show_trial,
        keymap=keymap,
    )
