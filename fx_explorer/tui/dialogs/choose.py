"""This module lets the user choose one of many by typing: documents, links, places in the session.
Slow searches run in the background, so that keys are answered. The lists of documents for a pane,
of regions for the graphs and of variants to compare are made here too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Input

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import SEGMENT_KEY, RegionKey, regions
from fx_explorer.analysis.documents import (
    Document,
    Place,
    documents_of,
    front_end_documents,
    graph_form,
    source_documents,
)
from fx_explorer.analysis.graph_texts import forms_of
from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.analysis.lineage import root_name
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import counted, seconds
from fx_explorer.overview.find import find
from fx_explorer.overview.outline import variant_title
from fx_explorer.session import SessionReader
from fx_explorer.tui.content.shown_levels import LEVEL_TITLES
from fx_explorer.tui.dialogs.dialog import Dialog
from fx_explorer.tui.failures import notifies_user, survive
from fx_explorer.tui.keys import bindings_of
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import ListColumn, Row, RowList
from fx_explorer.tui.widgets.titled_box import TitledBox

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
    words in their text come first, then those with synonyms of theirs, then those with details.
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


Matches = tuple[Found[ValueT], Found[ValueT], Found[ValueT]]
"""Choices with all words in their text; in their text or synonyms; in those or the detail."""


def _matches(choices: Found[ValueT], words: Sequence[str]) -> Matches[ValueT]:
    by_text, by_synonym, by_detail = [], [], []
    for choice in choices:
        if _has_all(words, choice.text):
            by_text.append(choice)
        elif _has_all(words, f"{choice.text} {choice.synonyms}"):
            by_synonym.append(choice)
        elif _has_all(words, f"{choice.text} {choice.synonyms} {choice.detail}"):
            by_detail.append(choice)
    return by_text, by_synonym, by_detail


def _best_first(steps: Sequence[Matches[ValueT]]) -> Found[ValueT]:
    choices: list[Choice[ValueT]] = []
    for rank in range(3):
        for step in steps:
            choices += step[rank]
    return choices


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
            placeholder="type to search; ↑ ↓ choose, ⏎ accepts, esc closes", compact=True
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
        with TitledBox(self._title):
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


def document_choices(reader: SessionReader) -> list[Choice[Document | model.Level]]:
    """Return everything that a pane can show, by compilation."""
    sources = source_documents(reader)
    choices: list[Choice[Document | model.Level]] = [
        Choice(document.title, "source", document) for document in sources
    ]
    for compilation in reader.rows(model.Compilation):
        documents = documents_of(reader, compilation)
        for document in documents:
            noun = "node" if document.kind == "graph" else "line"
            length = counted(document.line_count, noun)
            detail = f"{document.direction} {document.kind} · {length}".strip()
            choices.append(Choice(f"[{compilation.name}] {document.title}", detail, document))
        for document in _graphs_in_other_forms(documents):
            detail = f"{document.direction} graph · {counted(document.line_count, 'node')}".strip()
            choices.append(Choice(f"[{compilation.name}] {document.title}", detail, document))
    for document in front_end_documents(reader):
        detail = f"graph of another front end · {counted(document.line_count, 'node')}"
        choices.append(Choice(document.title, detail, document))
        for form in forms_of(document.stage):
            shown = graph_form(document, form)
            choices.append(Choice(shown.title, detail, shown))
    return choices


def _graphs_in_other_forms(documents: Iterable[Document]) -> Iterator[Document]:
    for document in documents:
        if document.kind == "graph":
            for form in forms_of(document.stage):
                yield graph_form(document, form)


def pane_choices(reader: SessionReader) -> list[Choice[Document | model.Level]]:
    """Return everything that a pane can show, and the levels below the selected kernel."""
    return [*document_choices(reader), *level_choices(reader)]


def found_choices(reader: SessionReader, typed: str) -> list[Choice[Place]]:
    """Return the places in the session whose text matches the input, best first."""
    choices = []
    for match in find(reader, typed):
        kind = "" if match.kind == "node" else f"{match.kind} · "  # a node names its graph
        choices.append(Choice(match.text, f"{kind}{match.detail}", match.place))
    return choices


def level_choices(reader: SessionReader) -> list[Choice[Document | model.Level]]:
    """Return the levels of the selected kernel; empty if there is no Triton kernel."""
    if not reader.count(model.Kernel, language="triton"):
        return []
    gpu = session_gpu(reader)
    vendor = gpu.vendor if gpu else ""
    levels_of_others = {"nvidia": ("amdgcn",), "amd": ("ptx", "sass"), "": ()}[vendor]
    levels = [level for level in LEVEL_TITLES if level not in levels_of_others]
    detail = "level below the selected kernel"
    return [Choice(LEVEL_TITLES[level], detail, level) for level in levels]


def region_choices(
    reader: SessionReader, wanted: Sequence[RegionKey] = ()
) -> list[Choice[RegionKey]]:
    """Return these regions, or all. A backend's segments are not annotations: they are listed if
    the cursor is on one.
    """
    choices = [
        Choice(value, f"of a backend's {key}s", (key, value))
        for key, value in wanted
        if key == SEGMENT_KEY
    ]
    for region in regions(reader):
        region_key = (region.key, region.value)
        if wanted and region_key not in wanted:
            continue
        stages = ", ".join(f"{stage} {count}" for stage, count in region.nodes.items())
        choices.append(Choice(region.name, stages, region_key))
    return choices


def variant_choices(
    reader: SessionReader, chosen: Sequence[model.Compilation] = ()
) -> list[Choice[model.Compilation]]:
    """Return the variants with which a comparison can begin, in the order of their creation. With a
    first one chosen, return the candidates for the second: variants of the same compilation first,
    newest first, since the newest was just tried.
    """
    variants = [variant for variant in reader.rows(model.Compilation) if variant not in chosen]
    if chosen:
        variants.sort(
            key=lambda variant: (root_name(variant.name) != root_name(chosen[0].name), -variant.id)
        )
    return [
        Choice(f"[{variant.name}] {_title(reader, variant)}", _detail(variant), variant)
        for variant in variants
    ]


def _title(reader: SessionReader, variant: model.Compilation) -> str:
    if variant.variant_of:
        return variant_title(reader, variant)
    return plain_function(variant.function)


def _detail(variant: model.Compilation) -> str:
    if variant.variant_of and variant.in_use:
        use = "the program uses it"
    else:
        use = ""
    duration = seconds(variant.duration_s) if variant.duration_s else ""
    return " · ".join(filter(None, (variant.status, duration, use)))
