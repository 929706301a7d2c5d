"""The first page: what was found, and beside it the user's own file with its marks, where the
terminal has room for both. While a capture starts, it shows the text of the target as it is on
disk, and above it what is being done, for how long, and how long that usually takes.
"""

from __future__ import annotations

import os
from pathlib import Path

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message

from fx_explorer.analysis.documents import Place
from fx_explorer.highlight import printable
from fx_explorer.overview.own_file import OwnPlace
from fx_explorer.session import SessionReader
from fx_explorer.tui.panes.kernel_marks import KernelMarks
from fx_explorer.tui.panes.overview_pane import FactList
from fx_explorer.tui.panes.pane import Pane
from fx_explorer.tui.start_times import PHASES, StartClock
from fx_explorer.tui.terminal.beginning import text_to_show
from fx_explorer.tui.widgets.code_view import CodeView
from fx_explorer.tui.widgets.one_line import Cached, OneLine

MOST_BAR_CELLS = 40


class StartProgress(Cached):
    """Shows ``importing torch · 6 s · usually 10 to 15 s here``, and below it a bar by phase."""

    DEFAULT_CSS = """
    StartProgress { height: 2; width: 1fr; padding: 0 1; display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._sentence = ""
        self._share = 0.0
        self._phase = 0

    def show_start(self, clock: StartClock, elapsed_s: float) -> None:
        """Show how far the start is, ``elapsed_s`` seconds after it began."""
        self._sentence = clock.sentence(elapsed_s)
        self._share = clock.share(elapsed_s)
        self._phase = clock.phase
        self.display = True
        self.refresh()

    def render(self) -> Content:
        phases = []
        for at, phase in enumerate(PHASES):
            if at < self._phase:
                phases.append(Content.styled(f"✓ {phase}", "$text-success"))
            elif at == self._phase:
                phases.append(Content.styled(f"▷ {phase}", "bold $text-accent"))
            else:
                phases.append(Content.styled(f"· {phase}", "$text-muted"))
        names = Content("  ").join(phases)
        cells = max(8, min(MOST_BAR_CELLS, self.size.width - names.cell_length - 2))
        done = round(self._share * cells)
        bar = Content.styled("━" * done, "$text-accent") + Content.styled(
            "─" * (cells - done), "$border"
        )
        width = self.size.width
        first = Content.styled(printable(self._sentence), "bold").truncate(width, ellipsis=True)
        return first + Content("\n") + (bar + Content("  ") + names).truncate(width, ellipsis=True)


class TargetText(Vertical):
    """Shows the text of the target as it is on disk, until the session has it with its marks."""

    def __init__(self) -> None:
        super().__init__()
        self._title = OneLine(classes="pane-title")
        self.code = CodeView()
        self.has_text = False
        self._file = ""

    def compose(self) -> ComposeResult:
        yield self._title
        yield self.code

    def read(self, file: Path) -> None:
        """Show a Python file; nothing where it cannot be read, which the worker will say."""
        text = text_to_show(file)
        if not text:
            return
        self._title.show(Content(printable(file.name)))
        self.code.load(text, "python")
        self.has_text = True
        self._file = os.path.realpath(file)

    def point_at(self, path: str, line: int) -> None:
        """Move to a line (from 1 on), if it is one of this file."""
        if self.has_text and os.path.realpath(path) == self._file:
            self.code.move_to(line - 1, center=True)


LEAST_CELLS = 110
"""Width of a page, in cells, below which the facts have all the room."""


class FirstPage(Vertical):
    """Shows the facts, and from ``LEAST_CELLS`` on the user's own file right of them. While a
    capture starts, the file is there at once, with how far the start is.
    """

    DEFAULT_CSS = """
    FirstPage { height: 1fr; }
    FirstPage > Horizontal { height: 1fr; }
    FirstPage FactList { width: 3fr; }
    FirstPage Pane { width: 2fr; border-left: solid $border; }
    FirstPage TargetText { width: 2fr; border-left: solid $border; display: none; }
    FirstPage TargetText > .pane-title { background: $surface; color: $text-muted; }
    FirstPage.-over > Horizontal { layout: vertical; }
    FirstPage.-over FactList { width: 1fr; height: 3; }
    FirstPage.-over TargetText { width: 1fr; height: 1fr; border-left: none; }
    """

    class Followed(Message):
        """Posted when the user asked where a line of their own file leads."""

        def __init__(self, place: Place) -> None:
            super().__init__()
            self.place = place

    def __init__(self, facts: FactList, marks: KernelMarks) -> None:
        super().__init__()
        self.facts = facts
        self.source = Pane(marks, "source")
        self._marks = marks
        self._own: OwnPlace | None = None
        self._progress = StartProgress()
        self.target = TargetText()
        self._is_starting = False

    def compose(self) -> ComposeResult:
        yield self._progress
        with Horizontal():
            yield self.facts
            yield self.source
            yield self.target

    def show_target(self, file: Path) -> None:
        """Show the target's file as it is on disk, before anything is captured."""
        self.target.read(file)
        self._is_starting = self.target.has_text
        self._share()

    def show_start(
        self, clock: StartClock, elapsed_s: float, reading: tuple[str, int] | None
    ) -> None:
        """Show how far the start of a capture is. ``reading`` are the file and line that Dynamo is
        reading.
        """
        self._progress.show_start(clock, elapsed_s)
        if reading is not None:
            self.target.point_at(*reading)
        self._is_starting = True
        self._share()

    def end_start(self) -> None:
        """Show the facts alone, because the capture has come beyond its start."""
        if self._is_starting:
            self._is_starting = self._progress.display = False
            self._share()

    def on_mount(self) -> None:
        self._share()

    def on_resize(self, event: events.Resize) -> None:
        self._share()

    def show_source(self, reader: SessionReader | None, own: OwnPlace | None) -> None:
        """Show a line of the user's own file; with None the facts have all the room."""
        is_new = own is None or self._own is None or own.place != self._own.place
        self._own = own
        if reader and own:
            if is_new or self.source.document != own.place.document:
                self.source.show(reader, own.place.document, own.place.line)
            self._marks.renew(reader)
            self.source.annotate(reader)
        self._share()

    def forget(self) -> None:
        """Drop the file, whose session is about to be closed."""
        self._own = None

    def _share(self) -> None:
        """Give the file its room where there is enough; while a capture starts, below the facts
        where there is not.
        """
        is_wide = self.size.width >= LEAST_CELLS
        self.source.display = self._own is not None and is_wide
        shows_target = self.target.has_text and self._own is None
        is_over = shows_target and self._is_starting and not is_wide
        self.target.display = shows_target and (is_wide or is_over)
        self.set_class(is_over, "-over")

    @on(Pane.Moved)
    def source_moved(self, event: Pane.Moved) -> None:
        event.stop()  # it is linked to nothing here

    @on(Pane.Followed)
    def source_followed(self, event: Pane.Followed) -> None:
        event.stop()
        self.post_message(self.Followed(event.place))
