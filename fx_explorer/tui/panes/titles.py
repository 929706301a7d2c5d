"""This module has the titles and notes above and below a pane: the name of its document, the
meaning of a view's rows, what a stage did, that a file has changed, and that a large graph is being
written as text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from fx_explorer.analysis.annotated_regions import RegionKey
from fx_explorer.analysis.documents import Document, Place
from fx_explorer.analysis.facts import OF_FILES, Fact
from fx_explorer.analysis.graph_python import GraphText
from fx_explorer.analysis.words import counted, listed
from fx_explorer.cut_text import cut_in_middle
from fx_explorer.drawing import view_table as views
from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import file_name
from fx_explorer.source_edit.user_files import ChangedFile
from fx_explorer.tui.background_tasks import BackgroundTask, TaskResult
from fx_explorer.tui.content import long_work
from fx_explorer.tui.content.presets import Slot
from fx_explorer.tui.content.shown_levels import LEVEL_TITLES
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import GAP, OneLine, fitted

if TYPE_CHECKING:
    from fx_explorer.instruments.modules.folded_graph import FoldedGraph

MAX_REGION_CHARACTERS = 16


def title_text(document: Document | None, slot: Slot) -> str:
    """Return the title: ``Backward · post-grad [0/0]``, or for an empty pane its purpose."""
    if document is None:
        level = next((title for level, title in LEVEL_TITLES.items() if level == slot), "")
        return f"{level or slot or 'nothing'} – empty"
    owner = f" [{document.owner}]" if document.owner else ""
    return printable(f"{document.title}{owner}")


def position_text(
    body: LineView, document: Document, region: RegionKey | None, lit: int, seen: int
) -> Content:
    """Return the region that the graph is narrowed to, how many lines are lit (``▌2 of 5`` when
    others are hidden: ``seen`` of ``lit``), and the cursor's position.
    """
    lit_words = f"▌{seen:,}" if lit else ""
    lit_words += f" of {lit:,}" if lit > seen else ""
    count = body.line_of_row(body.line_count - 1) + 1
    if body.line_count:
        at = f"{body.line_of_row(body.cursor) + 1:,}/{count:,}"
    else:
        at = "0"
    if region is None:
        return Content("  ".join(part for part in (lit_words, at) if part))
    parts = [Content.styled(f"only {shortened(region[1])}", "$text-warning")]
    if lit_words:
        parts.append(Content(lit_words))
    parts.append(Content(f"{at} of {document.line_count:,}"))
    return Content("  ").join(parts)


def shortened(name: str) -> str:
    """Return a region's name, shortened for a small space."""
    text = printable(name)
    if len(text) <= MAX_REGION_CHARACTERS:
        return text
    return text[: MAX_REGION_CHARACTERS - 1] + "…"


SHORT_ROWS = 30
"""Terminals with at most this many rows show the answer alone above a list."""

MOST_WRAPPED = 2
"""Maximum number of rows of the answer, and of what is important beside it."""


class TableNotes(Widget):
    """Shows the answer of a view, and below it what is important for reading the rows, where there
    is room. Each is wrapped into two rows at most. The help (?) and the facts (i) have both in
    full, what the view shows, and its origin.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Content] = []

    def show(self, table: views.ViewTable, old: str) -> None:
        """``old`` says that the rows are outdated; empty if they are not."""
        answer = Content.styled(printable(table.answer or table.notice), "$text-secondary")
        if old:
            answer = Content.styled(printable(f"▲ {old}."), "$text-warning") + Content(" ") + answer
        self._lines = [answer] if answer.plain else []
        if table.answer and table.notice:
            self._lines.append(Content.styled(printable(table.notice), "$text-muted"))
        self.display = bool(self._lines)
        self.refresh(layout=True)

    def render(self) -> Content:
        return Content("\n").join(self._rows(self.size.width))

    def _rows(self, width: int) -> list[Content]:
        rows: list[Content] = []
        for line in self._shown:
            wrapped = line.wrap(width) if width > 0 else [line]
            if len(wrapped) > MOST_WRAPPED:
                last = Content(" ").join(wrapped[MOST_WRAPPED - 1 : MOST_WRAPPED + 1])
                wrapped = [*wrapped[: MOST_WRAPPED - 1], last.truncate(width, ellipsis=True)]
            rows += wrapped
        return rows

    @property
    def _shown(self) -> list[Content]:
        """Return the lines that the terminal has room for."""
        if self.app.size.height <= SHORT_ROWS:
            return self._lines[:1]
        return self._lines

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._rows(width))


@dataclass(frozen=True, slots=True)
class StageText:
    """The words for one stage, or for two that one step runs."""

    sentences: Sequence[str]
    """Full sentences on what the stage did."""
    explained: str
    """A sentence on the purpose of the last of these stages."""
    next_key: str = ""
    """The key for the next step and its effect; empty if nothing is paused."""


class StageWords(Widget):
    """Shows the sentences; on terminals with few rows, without the stage's purpose."""

    DEFAULT_CSS = """
    StageWords { height: auto; padding: 0 1; background: $surface; display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.text: StageText | None = None

    @property
    def sentences(self) -> Sequence[str]:
        return self.text.sentences if self.text else []

    def show(self, text: StageText | None) -> None:
        if text != self.text:
            self.text = text
            self.display = text is not None
            self.refresh(layout=True)

    def forget_key(self) -> None:
        """Remove the key for continuing, because nothing waits."""
        if self.text and self.text.next_key:
            self.show(replace(self.text, next_key=""))

    def render(self) -> Content:
        if self.text is None:
            return Content("")
        sentences = [_sentence_content(sentence) for sentence in self.text.sentences]
        explained = Content.styled(self.text.explained, "$text-muted")
        if self.text.explained and self.app.size.height > SHORT_ROWS:
            further = [explained]
        else:
            further = []
        if self.text.next_key:
            further.append(Content.styled(self.text.next_key, "$text-secondary"))
        if further:
            sentences.append(Content("  ").join(further))
        return Content("\n").join(sentences)


def _sentence_content(sentence: str) -> Content:
    """Return the sentence with the name of the stage standing out."""
    title, colon, rest = printable(sentence).partition(": ")
    if colon:
        return Content.styled(title, "bold") + Content(f"{colon}{rest}")
    return Content(title)


OLD_MARK = "old"
"""Mark at rows from a file that has changed since."""


@dataclass(frozen=True, slots=True)
class OldFiles:
    """The files on screen that have changed since they were captured."""

    changed: Sequence[ChangedFile] = ()

    @property
    def words(self) -> str:
        """Return ``old: model.py has changed since``; empty without changes."""
        return f"old: {self.description}" if self.changed else ""

    @property
    def description(self) -> str:
        """Return ``model.py has changed since``."""
        names = listed(file_name(changed_file.file.path) for changed_file in self.changed)
        verb = "has" if len(self.changed) == 1 else "have"
        return f"{names} {verb} changed since"

    def holds(self, place: Place | None) -> bool:
        """Return whether a place is in a file that has changed."""
        if place is None or place.document.kind != "source":
            return False
        return any(changed_file.file.id == place.document.id for changed_file in self.changed)

    def fact(self, remedy: str) -> list[Fact]:
        """Return the fact that the screen is outdated; empty if it is not. ``remedy`` says what to
        do.
        """
        if not self.changed:
            return []
        text = (
            f"This view is out of date: {self.description} it was captured, first in line "
            f"{self.changed[0].line}."
        )
        return [Fact("old", "notice", text, remedy, difference=OF_FILES)]


class PaneTitle(OneLine):
    """Shows the name of a document, what is added to it where there is room, and the position of
    the cursor. A long name is cut in the middle: both ends tell it from others.
    """

    def __init__(self) -> None:
        super().__init__(classes="pane-title")
        self._shown_name, self._mark = "", Content("")
        self._additions: Sequence[str] = ()
        self._position = Content("")

    def show_title(
        self, name: str, mark: Content, additions: Sequence[str], position: Content
    ) -> None:
        """Show another title. ``mark`` is always shown, of ``additions`` those that fit."""
        self._shown_name, self._mark, self._additions = name, mark, additions
        self._position = position
        added = "".join(f"{SEPARATOR}{addition}" for addition in additions)
        self.show(Content(name) + mark + Content(added), position)

    def render(self) -> Content:
        room = self.size.width - self._position.cell_length - GAP * bool(self._position)
        room -= self._mark.cell_length
        name = cut_in_middle(self._shown_name, max(0, room))
        for addition in self._additions:
            if cell_len(name) + len(SEPARATOR) + cell_len(addition) <= room:
                name += SEPARATOR + addition
        return fitted(Content(name) + self._mark, self._position, self.size.width)


SEPARATOR = " · "


class PaneRemark(Widget):
    """Shows a sentence between the title of a pane and its document, in as many rows as it needs;
    nothing without one.
    """

    DEFAULT_CSS = """
    PaneRemark {
        height: auto; padding: 0 1; background: $surface; color: $text-secondary; display: none;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.sentence = ""

    def show(self, sentence: str) -> None:
        """Show another sentence; an empty one hides the widget."""
        if sentence != self.sentence:
            self.sentence = sentence
            self.display = bool(sentence)
            self.refresh(layout=True)

    def render(self) -> Content:
        return Content(printable(self.sentence))


WRITING, FOLDING, STOPS = "Writing {what} …", "Folding {what} by module …", "Esc stops"
NOT_WRITTEN = "The graph could not be written in another form."
NOT_FOLDED = "The graph could not be folded."


class GraphWriting(OneLine):
    """Shows ``Writing 100,000 nodes …  Esc stops`` while a graph is being written or folded, and
    nothing else.
    """

    DEFAULT_CSS = """
    GraphWriting { background: $surface; color: $text-secondary; display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._beside: BackgroundTask[GraphText] = BackgroundTask(
            self, "write graph", "write a graph as a text"
        )
        self._folding: BackgroundTask[FoldedGraph] = BackgroundTask(
            self, "fold graph", "fold a graph by module"
        )

    def write(self, reader: SessionReader, document: Document, done: Callable[[], None]) -> None:
        """Write the text of a graph in the background, and call ``done`` when ``graph_texts`` has
        it.
        """
        self.show(
            Content(printable(WRITING.format(what=long_work.describe_graph(reader, document)))),
            Content(STOPS),
        )
        self.display = True

        def take(made: TaskResult[GraphText]) -> None:
            made.reader.close()
            long_work.keep_graph_text(reader, document, made.value)
            self.display = False
            done()

        def cannot(_: Exception) -> None:
            self.show(Content(NOT_WRITTEN))

        self._beside.begin(
            reader.path, partial(long_work.write_graph, document=document), take, cannot
        )

    def fold(self, reader: SessionReader, document: Document, done: Callable[[], None]) -> None:
        """Fold a graph in the background, and call ``done`` when ``folded_if_quick`` has it."""
        # not needed for the first paint, both
        from fx_explorer.instruments.modules.graph_folding import folded_graph
        from fx_explorer.tui.content.folded_rows import keep_folded

        what = counted(document.line_count, "node")
        self.show(Content(FOLDING.format(what=what)), Content(STOPS))
        self.display = True

        def take(made: TaskResult[FoldedGraph]) -> None:
            made.reader.close()
            keep_folded(reader, document, made.value)
            self.display = False
            done()

        def cannot(_: Exception) -> None:
            self.show(Content(NOT_FOLDED))

        def make(beside: SessionReader) -> FoldedGraph:
            return folded_graph(beside, document.id)

        self._folding.begin(reader.path, make, take, cannot)

    def stop(self) -> bool:
        """Stop writing or folding the graph. Returns whether either was under way."""
        self.display = False
        was_writing, was_folding = self._beside.stop(), self._folding.stop()
        return was_writing or was_folding
