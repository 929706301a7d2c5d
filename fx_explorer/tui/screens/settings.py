"""Change options of the compiler for what follows: find one by typing, read torch's own words, type a value that is checked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from fx_explorer.analysis.settings import is_changed, search
from fx_explorer.highlight import printable, printable_text
from fx_explorer.model import Setting
from fx_explorer.model.setting_values import expected, parse_value, text_of
from fx_explorer.tui.bindings import bindings_of
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import Column, Row, RowList, Rows

SEARCH_DELAY_S = 0.08
"""A word typed fast is looked for once, not letter by letter."""

COLUMNS = (
    Column("group", "muted", min_width=9, max_width=9, priority=2),
    Column("option", "text", min_width=36, max_width=56),
    Column("value", "text", min_width=8, max_width=18),
    Column("default", "muted", min_width=8, max_width=18, priority=1),
    Column("type", "type", min_width=4, max_width=40, priority=3),
)

NO_SETTINGS = "This session has no list of options: the capture ended before torch was asked for it, or is older than the list."
FIND = "type to find a name or a word of the help"

Chosen = dict[str, object]
"""Full name → value, as a Command's ``changes.settings`` takes it."""


class SettingsDialog(ModalScreen[Chosen]):
    """A line to type in, the options that match, and torch's help of the one under the cursor.

    Enter opens an option: its value can be typed, each letter is checked, and what is allowed is listed (↑ ↓ go through it).
    Once a value is taken, the first line of the list hands all of them over: two times enter is enough. Escape goes one step
    back, and from the list gives an empty dict: nothing is changed.
    """

    DEFAULT_CSS = """
    SettingsDialog { align: center top; }
    SettingsDialog > Vertical {
        width: 94%; max-width: 140; height: 90%; margin-top: 1; padding: 0 1;
        background: $surface; border: round $border;
    }
    SettingsDialog Input { background: $surface; margin-bottom: 1; }
    SettingsDialog RowList { height: 1fr; min-height: 4; background: $surface; }
    SettingsDialog VerticalScroll { height: 30%; min-height: 3; max-height: 10; border-top: solid $border; }
    SettingsDialog Static { color: $foreground; }
    SettingsDialog OneLine { padding: 0; color: $text-muted; }
    SettingsDialog .-editing, SettingsDialog.-edits .-finding { display: none; }
    SettingsDialog.-edits .-editing { display: block; }
    SettingsDialog.-edits VerticalScroll { height: 1fr; max-height: 100%; border-top: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("dialog")

    def __init__(self, settings: Sequence[Setting], chosen: Mapping[str, object] | None = None) -> None:
        """``chosen``: values taken before and not sent yet; they come back with the others."""
        super().__init__()
        self._settings = settings
        self._chosen: Chosen = dict(chosen or {})
        self._found: Sequence[Setting] = ()
        self._looked_for = ""
        self._edited: Setting | None = None
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
            box.border_title = "Options for what follows"
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
        """The option whose value is being typed."""
        return self._edited

    # finding

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.input is self._value:
            self._check()
        else:
            self.set_timer(SEARCH_DELAY_S, lambda: self._find() if event.value == self._input.value else None)

    def _find(self) -> None:
        typed = self._looked_for = self._input.value
        self._found = search(self._settings, typed, self._chosen)
        if self._settings:
            self._list.placeholder = "Nothing matches. Try fewer letters, or a word that torch's help may have."
        rows = [*self._row_of_all(), *map(self._row, self._found)]
        self._list.load(Rows(rows), line=self._above if typed and self._found else 0)
        self._show_help()

    @property
    def _above(self) -> int:
        """Lines before the first option: the one that hands over what was chosen."""
        return 1 if self._chosen else 0

    def _row_of_all(self) -> list[Row]:
        if not self._chosen:
            return []
        return [(("use", "strong"), (f"⏎ uses what was changed: {len(self._chosen)}", "strong"))]

    def _row(self, setting: Setting) -> Row:
        is_chosen = setting.full_name in self._chosen
        value = json.dumps(self._chosen[setting.full_name], ensure_ascii=False) if is_chosen else setting.value
        kind = "warning" if is_chosen else "annotation" if is_changed(setting) else "text"
        name = (setting.name, "text" if setting.type else "muted")
        return (setting.group, name, (value, kind), setting.default, setting.type or "a Python object")

    @property
    def _all_chosen(self) -> str:
        return "\n".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in self._chosen.items())

    @property
    def _under_cursor(self) -> Setting | None:
        line = self._list.cursor - self._above
        return self._found[line] if 0 <= line < len(self._found) else None

    def _show_help(self) -> None:
        setting = self._edited or self._under_cursor
        self._help.update(printable_text(help_of(setting) if setting else self._all_chosen))
        self._scroll.scroll_home(animate=False)
        self._hint.show(*self._hints(setting))

    def _hints(self, setting: Setting | None) -> tuple[Content, Content]:
        if self._edited:
            keys = "↑ ↓ next value · ⏎ takes · esc back" if self._edited.choices else "⏎ takes · esc back"
            return Content(self._edited.full_name), Content(keys)
        found = Content(f"{len(self._found):,} options" if self._found else "")
        if setting is None and self._chosen:
            return found, Content("⏎ uses these options · esc discards them")
        return found, Content("⏎ edits · esc discards what was changed" if self._chosen else "⏎ edits · esc closes")

    # editing

    def _edit(self, setting: Setting | None) -> None:
        if setting is None or not setting.type:
            self.app.bell()
            return
        self._edited = setting
        value = self._chosen.get(setting.full_name, json.loads(setting.value))
        self._value.value = text_of(setting, value)
        self._value.placeholder = expected(setting)
        self.add_class("-edits")
        self._value.focus()
        self._value.action_end()
        self._check()
        self._show_help()

    def _check(self) -> None:
        """Say whether what is typed would be taken; without a problem, what else may be typed."""
        setting = self._edited
        if setting is None:
            return
        try:
            parse_value(setting, self._value.value)
        except ValueError as error:
            self._verdict.show(Content.styled(printable(str(error)), "$text-error"))
        else:
            self._verdict.show(Content.styled(f"✓ {printable(expected(setting))}", "$text-success"))

    def _take(self, setting: Setting) -> None:
        try:
            value = parse_value(setting, self._value.value)
        except ValueError:
            self.app.bell()  # the line below it says why
            return
        if json.dumps(value, sort_keys=True, ensure_ascii=False) == setting.value:
            self._chosen.pop(setting.full_name, None)
        else:
            self._chosen[setting.full_name] = value
        self._stop_editing()
        with self._input.prevent(Input.Changed):
            self._input.value = ""
        self._find()

    def _stop_editing(self) -> None:
        self._edited = None
        self.remove_class("-edits")
        self._input.focus()
        self._show_help()

    # keys and mouse

    def action_move(self, lines: int) -> None:
        if self._edited:
            self._next_choice(self._edited, lines)
        else:
            self._list.move_to(self._list.cursor + lines)
            self._show_help()

    def _next_choice(self, setting: Setting, steps: int) -> None:
        """Go through the values that are allowed, where there are few."""
        choices = [text_of(setting, json.loads(choice)) for choice in setting.choices]
        if choices:
            at = choices.index(self._value.value) if self._value.value in choices else -1 if steps > 0 else 0
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
            self.dismiss(self._chosen)
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
            self.dismiss({})

    def action_leave(self) -> None:
        if self._edited:
            self._stop_editing()
        else:
            self.dismiss({})


def help_of(setting: Setting) -> str:
    """The option's full name and type, what it takes, and torch's own words."""
    head = f"{setting.full_name}: {setting.type or 'a Python object'}"
    if not setting.type:
        head += "\nIt cannot be set from here, only in your own program."
    elif setting.choices:
        head += f"\nAllowed: {', '.join(setting.choices)}"
    return f"{head}\n\n{setting.help or 'torch has no words for it.'}"
