"""This module has the bottom of the screen: the most important keys, and the views as tabs, all
clickable. Above it opens the input line of a find.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.geometry import Size
from textual.style import Style
from textual.widgets import Input

from fx_explorer.analysis.words import counted
from fx_explorer.tui.commands import GOES_ON, OF_VIEW, VIEWS, AppCommand, Keymap, by_id, of_scope
from fx_explorer.tui.commands.view_commands import MORE_VIEWS
from fx_explorer.tui.keys import bindings_of, first_key
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import Cached, OneLine

MARGIN = 3
"""Minimum number of cells between keys and tabs in one row."""

FEW_ROWS = 10
"""Number of rows of a terminal below which there is one row of keys, and no tabs."""

MOST_BEFORE_NOW = 3
"""Commands of a view before the first of those that matter now, which a narrow terminal is to show,
too.
"""

TAIL = ("app.help",)
"""Commands that stay if there is no room for the others."""


class FooterLine(Cached):
    """Shows ``x x fix  ⏎ source  / find  ? help   1 overview 2 source …``; on a narrow terminal in
    two rows.
    """

    DEFAULT_CSS = """
    FooterLine {
        dock: bottom; height: auto; width: 1fr; background: $panel; color: $text-muted;
        padding: 0 0 0 1;
    }
    """

    def __init__(self, keymap: Keymap) -> None:
        super().__init__()
        self._keymap = keymap
        self._view = ""
        self._part = ""
        self._first: tuple[str, ...] = ()
        self._without: frozenset[str] = frozenset()

    def show_first(self, command_ids: tuple[str, ...]) -> None:
        """Set the commands that come first, because they are the most useful ones now."""
        if command_ids != self._first:
            self._first = command_ids
            self.refresh(layout=True)

    def show_view(self, view: str, without: Collection[str] = (), part: str = "") -> None:
        """Show the commands of a view, or of a part of it that has commands of its own. ``without``
        are commands that do nothing for the row under the cursor.
        """
        if (view, frozenset(without), part) != (self._view, self._without, self._part):
            self._view, self._without, self._part = view, frozenset(without), part
            self.refresh(layout=True)

    async def on_click(self, event: events.Click) -> None:
        # Not Textual's @click: it would give the whole footer the look of links.
        command_id = event.style.meta.get("command")
        if command_id:
            await self.run_action(f"app.run_command({command_id!r})")

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._rows(width))

    def render(self) -> Content:
        return Content("\n").join(self._rows(self.size.width))

    def _rows(self, width: int) -> list[Content]:
        tabs = tabs_content(self._view, self._keymap, " ")
        if tabs.cell_length > width:
            tabs = tabs_content(self._view, self._keymap, "", SHORT_LABELS)
        more = more_views_content(self._keymap)
        if tabs.cell_length + more.cell_length <= width:
            tabs += more
        keys = [
            key_content(command, self._keymap)
            for command in footer_commands(self._first, self._part or self._view, self._without)
        ]
        room = width - tabs.cell_length - MARGIN
        wanted = sum(key.cell_length + 2 for key in keys) - 2
        if wanted <= room:
            return [Content("  ").join(keys) + Content(" " * (room - wanted + MARGIN)) + tabs]
        rows = [Content("  ").join(fitting(keys, width)), tabs.truncate(width)]
        if self.app.size.height >= FEW_ROWS:
            return rows
        return rows[:1]


def footer_commands(
    first: Sequence[str] = (), view: str = "", without: Collection[str] = ()
) -> list[AppCommand]:
    """Return the commands of the footer, without the tabs, in this order: commands that continue,
    if something is paused; those of the view, with the first useful command among them; the other
    useful ones; all others, with help at the end.
    """
    wanted = [
        c for c in of_scope("explorer", "lines", "app") if c.footer and not c.id.startswith("view.")
    ]
    usual = sorted(wanted, key=lambda command: (command.id in TAIL, command.id == "app.quit"))
    of_view = [replace(by_id(command_id), title=word) for command_id, word in OF_VIEW.get(view, ())]
    here = [command for command in of_view if command.id not in without]
    goes_on = [by_id(command_id) for command_id in first if command_id in GOES_ON]
    now = [by_id(command_id) for command_id in first if command_id not in GOES_ON]
    most = min(len(here), MOST_BEFORE_NOW)
    if goes_on:
        among = [*now[:1], *here]
    else:
        among = [*here[:most], *now[:1], *here[most:]]
    wanted_once: dict[str, AppCommand] = {}
    for command in (*goes_on, *among, *now, *usual):
        wanted_once.setdefault(command.id, command)
    return list(wanted_once.values())


SHORT_LABELS = {"modules": "mods"}
"""Labels for a terminal of 80 columns, where the names of the views do not fit side by side."""


def tabs_content(
    active: str, keymap: Keymap, gap: str, labels: Mapping[str, str] = MappingProxyType({})
) -> Content:
    """Return the views as tabs. ``labels`` replace the names of some of them."""
    parts = []
    for name, label, _ in VIEWS:
        command = by_id(f"view.{name}")
        style = "bold reverse" if name == active else ""
        number = Content.styled(f"{first_key(command, keymap)}{gap}", style or "bold $text-accent")
        tab = number + Content.styled(labels.get(name, label), style)
        parts.append(_clickable(tab, command))
    return Content(" ").join(parts)


def more_views_content(keymap: Keymap) -> Content:
    """Return `` v more``: the key that all views without a digit begin with; empty where they have
    no such key.
    """
    view = MORE_VIEWS[0][0]
    first, _, rest = first_key(by_id(f"view.{view}"), keymap).partition(" ")
    if not rest:
        return Content("")
    return Content(" ") + Content.styled(first, "bold $text-accent") + Content(" more")


def key_content(command: AppCommand, keymap: Keymap) -> Content:
    key = Content.styled(first_key(command, keymap), "bold $text-accent")
    return _clickable(key + Content(f" {command.title}"), command)


def fitting(parts: Sequence[Content], width: int) -> list[Content]:
    """Return as many parts as fit into ``width`` cells. The last one (help) is always included."""
    room = width - parts[-1].cell_length
    kept = []
    for part in parts[:-1]:
        room -= part.cell_length + 2
        if room < 0:
            break
        kept.append(part)
    return [*kept, parts[-1]]


def _clickable(content: Content, command: AppCommand) -> Content:
    return content.stylize(Style.from_meta({"command": command.id}))


class FindBar(Horizontal):
    """``/ addmm          12 lines``, for the pane that had the focus when it was opened."""

    DEFAULT_CSS = """
    FindBar { height: 1; dock: bottom; background: $panel; display: none; }
    FindBar.-open { display: block; }
    FindBar > Input { width: 2fr; background: $panel; }
    FindBar > .find-prompt { width: 3; }
    FindBar > .find-count { width: 1fr; color: $text-muted; }
    FindBar.-nothing > .find-count { width: 2fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("dialog")

    def __init__(self, keymap: Keymap) -> None:
        super().__init__()
        leaves, everywhere = (
            first_key(by_id(command), keymap) for command in ("dialog.close", "find.anything")
        )
        self._no_match = f"no match; {leaves} {everywhere} searches everywhere"
        self._prompt = OneLine(classes="find-prompt")
        self._input = Input(
            placeholder="find in this pane; case counts if you type a capital", compact=True
        )
        self._count = OneLine(classes="find-count")
        self._view: LineView | None = None
        self._closes_with_match = False
        """Whether Enter was pressed before anything was found."""

    def compose(self) -> ComposeResult:
        yield self._prompt
        yield self._input
        yield self._count

    def on_mount(self) -> None:
        self._prompt.show(Content.styled("/", "bold $text-accent"))

    def open(self, view: LineView) -> None:
        """Find in ``view``, beginning with its last search text."""
        self._view = view
        self.add_class("-open")
        self.remove_class("-nothing")
        self._closes_with_match = False
        self._count.show(Content(""))
        self._input.value = view.find_pattern
        self._input.focus()

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    def show_count(self, event: LineView.Found) -> None:
        if event.view is self._view:
            finds_nothing = event.done and bool(event.pattern) and not event.count
            self.set_class(finds_nothing, "-nothing")
            if finds_nothing:
                words = self._no_match
            elif not event.pattern:
                words = ""
            elif event.done:
                words = counted(event.count, "line")
            else:
                words = f"{counted(event.count, 'line')} so far"
            self._count.show(Content(words))
            if self._closes_with_match and event.count:
                self._close()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._closes_with_match = False
        if self._view and self.is_open and event.value != self._view.find_pattern:
            self._view.find(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._view and event.value and not self._view.matches:
            self._closes_with_match = True  # until then it says that there is none
        else:
            self._close()

    def action_leave(self) -> None:
        if self._view:
            self._view.find("")
        self._close()

    def action_move(self, lines: int) -> None:
        """Go to the next match, or the one before."""
        if self._view:
            step = self._view.find_next if lines > 0 else self._view.find_previous
            step()

    def _close(self) -> None:
        self.remove_class("-open")
        if self._view:
            self._view.focus(scroll_visible=False)
