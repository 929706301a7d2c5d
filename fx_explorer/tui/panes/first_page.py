"""The first page: what was found, and beside it the user's own file with its marks, where the
terminal has room for both.
"""

from __future__ import annotations

from pathlib import Path

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message

from fx_explorer.analysis.documents import Place
from fx_explorer.overview.own_file import OwnPlace
from fx_explorer.session import SessionReader
from fx_explorer.tui.panes.kernel_marks import KernelMarks
from fx_explorer.tui.panes.overview_pane import FactList
from fx_explorer.tui.panes.pane import Pane
from fx_explorer.tui.panes.target_text import StartProgress, TargetText
from fx_explorer.tui.start_times import StartClock

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

    def show_start(self, clock: StartClock, elapsed_s: float) -> None:
        """Show how far the start of a capture is."""
        self._progress.tell(clock, elapsed_s)
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
