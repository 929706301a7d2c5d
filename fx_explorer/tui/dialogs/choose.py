"""This module lets the user choose one of many by typing: documents, links, places in the session.
Slow searches run in the background, so that keys are answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input

from fx_explorer.tui.dialogs.dialog import Dialog
from fx_explorer.tui.failures import notifies_user, survive
from fx_explorer.tui.keys import bindings_of
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import ListColumn, Row, RowList

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Choice(Generic[ValueT]):
    text: str
    detail: str
    value: ValueT
    synonyms: str = ""
    """Further words by which it is found, which are not shown."""


Found = Sequence[Choice[ValueT]]

Search = Callable[[str], Found[ValueT] | Awaitable[Found[ValueT]]]
"""Input → matches, best first; an awaitable if the search is slow."""

SEARCH_DELAY_S = 0.08
"""Seconds before a search begins, so that a word typed fast is searched once, not letter by
letter.
"""


MOST_LINES = 18

CHOICES_AT_ONCE = 2_000
"""Maximum number of choices that are searched before the next frame, which takes about 3 ms."""

CHOICES_AT_A_TIME = 500
"""Number of choices that are searched in one step, so that no key waits for it."""

LOOKING = "Looking …"
NOTHING = "Nothing matches. Try fewer letters."


def matching(choices: Sequence[Choice[ValueT]]) -> Search[ValueT]:
    """Return a search among a fixed list of choices: every typed word must occur. Choices with all
    words in their text come first.
    """

    def search(typed: str) -> Found[ValueT] | Awaitable[Found[ValueT]]:
        words = typed.casefold().split()
        if not words:
            return choices
        if len(choices) > CHOICES_AT_ONCE:
            return _in_steps(choices, words)
        return _best_first([_matches(choices, words)])

    return search


def matching_when_read(choices: Awaitable[Found[ValueT]]) -> Search[ValueT]:
    """Return a function that makes this search among choices that are still being read."""
    reading = asyncio.ensure_future(choices)

    async def search(typed: str) -> Found[ValueT]:
        matches = matching(await asyncio.shield(reading))(typed)
        if isinstance(matches, Sequence):
            return matches
        return await matches

    return search


async def _in_steps(choices: Found[ValueT], words: Sequence[str]) -> Found[ValueT]:
    steps = []
    for start in range(0, len(choices), CHOICES_AT_A_TIME):
        steps.append(_matches(choices[start : start + CHOICES_AT_A_TIME], words))
        await asyncio.sleep(0)
    return _best_first(steps)


Matches = tuple[Found[ValueT], Found[ValueT]]
"""(choices with all words in their text, choices with all words in their text or detail)."""


def _matches(choices: Found[ValueT], words: Sequence[str]) -> Matches[ValueT]:
    best, others = [], []
    for choice in choices:
        if _has_all(words, f"{choice.text} {choice.synonyms}"):
            best.append(choice)
        elif _has_all(words, f"{choice.text} {choice.synonyms} {choice.detail}"):
            others.append(choice)
    return best, others


def _best_first(steps: Sequence[Matches[ValueT]]) -> Found[ValueT]:
    best: list[Choice[ValueT]] = []
    others: list[Choice[ValueT]] = []
    for best_of_step, others_of_step in steps:
        best += best_of_step
        others += others_of_step
    return best + others


def _has_all(words: Sequence[str], text: str) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words)


class ChoiceRows(Generic[ValueT]):
    """Gives choices to the list, making each row when it is shown."""

    def __init__(self, choices: Found[ValueT]) -> None:
        self._choices = choices

    def __len__(self) -> int:
        return len(self._choices)

    def page(self, start: int, stop: int) -> Sequence[Row]:
        return [(choice.text, choice.detail) for choice in self._choices[start:stop]]


class Chooser(Dialog[ValueT | None], Generic[ValueT]):
    """A title, an input line, and the matches. Enter takes the line under the cursor, escape
    none.
    """

    DEFAULT_CSS = """
    Chooser { align: center top; }
    Chooser > Vertical {
        width: 90%; max-width: 120; height: auto; max-height: 80%; margin-top: 2; padding: 0 1;
        background: $surface; border: round $border;
    }
    Chooser Input { background: $surface; margin-bottom: 1; }
    Chooser RowList { height: 18; background: $surface; }
    Chooser OneLine { padding: 0; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("dialog")

    def __init__(self, title: str, search: Search[ValueT]) -> None:
        super().__init__()
        self._title = title
        self._search = search
        self._choices: Found[ValueT] = ()
        self._typed: str | None = None
        """The query that ``_choices`` are the matches of."""
        self._is_looking = False
        self._when_found: list[Callable[[], None]] = []
        """Actions of keys that came during a search."""
        self._input = Input(
            placeholder="type to find; ↑ ↓ choose, ⏎ takes, esc closes", compact=True
        )
        columns = (
            ListColumn("", "text", min_width=20, max_width=70),
            ListColumn("", "muted", min_width=10, max_width=90, priority=1),
        )
        self._list = RowList(columns, header=False, placeholder=NOTHING)
        # The input keeps the focus, so that one can type on wherever the cursor of the list is.
        self._list.can_focus = False
        self._list_has_height = False
        self._count = OneLine()

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            yield self._input
            yield self._list
            yield self._count

    def on_mount(self) -> None:
        self._input.focus()
        self._find()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()

        def find() -> None:
            if event.value == self._input.value:
                self._find()

        self.set_timer(SEARCH_DELAY_S, find)

    def _find(self) -> None:
        """List the present matches, unless they are listed already."""
        typed = self._input.value
        if typed == self._typed:
            return
        self._typed = typed
        self._when_found.clear()
        self.workers.cancel_group(self, "find")
        matches = self._search(typed)
        if isinstance(matches, Sequence):
            self._is_looking = False
            self._show(matches)
            return
        self._is_looking = True
        if not self._choices:
            self._list.placeholder = LOOKING
            self._list.refresh()
        self._count.show(Content(LOOKING))
        self.run_worker(
            self._wait_for(matches),
            name="find",
            group="find",
            description="look for what was typed",
        )

    async def _wait_for(self, awaitable: Awaitable[Found[ValueT]]) -> None:
        try:
            choices = await awaitable
        except Exception as error:  # noqa: BLE001 - told: a search that fails must not end the app
            if not notifies_user(self, error):
                survive(self.app, error, "look for what was typed")
            choices = ()
        self._is_looking = False
        self._show(choices)
        pending, self._when_found = self._when_found, []
        for do in pending:
            do()

    def _show(self, choices: Found[ValueT]) -> None:
        is_first, self._choices = not self._list_has_height, choices
        if self._typed:
            self._list.placeholder = NOTHING
        else:
            self._list.placeholder = "Type a part of a name."
        self._list.load(ChoiceRows(choices))
        count = f"{len(choices):,} found" if self._typed else ""
        self._count.show(Content(count))
        if is_first and choices and not self._typed:  # all there are: typing makes them fewer
            self._list_has_height = True
            self._list.styles.height = min(MOST_LINES, len(choices))

    def _once_shown(self, do: Callable[[], None]) -> None:
        """Carry out a key's action in the list that is about to be shown: keys may come faster than
        the delay, or than the search.
        """
        self._find()
        if self._is_looking:
            self._when_found.append(do)
        else:
            do()

    def action_move(self, lines: int) -> None:
        self._once_shown(lambda: self._list.move_to(self._list.cursor + lines))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._once_shown(self._take)

    def _take(self) -> None:
        if self._list.cursor < len(self._choices):
            self.dismiss(self._choices[self._list.cursor].value)

    def on_line_view_moved(self, event: LineView.Moved) -> None:
        event.stop()

    def on_line_view_followed(self, event: LineView.Followed) -> None:
        """Choose the line that is clicked."""
        event.stop()
        if event.line < len(self._choices):
            self.dismiss(self._choices[event.line].value)

    def on_click(self, event: events.Click) -> None:
        if event.widget is self:
            self.dismiss(None)

    def action_leave(self) -> None:
        self.dismiss(None)
