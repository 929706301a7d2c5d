"""The first page: what was found, and beside it the user's own file with its marks, where the
terminal has room for both.
"""

from __future__ import annotations

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message

from fx_explorer.analysis.documents import Place
from fx_explorer.overview.own_file import OwnPlace
from fx_explorer.session import SessionReader
from fx_explorer.tui.panes.kernel_marks import KernelMarks
from fx_explorer.tui.panes.overview_pane import FactList
from fx_explorer.tui.panes.pane import Pane

LEAST_CELLS = 110
"""In a narrower page the facts have all the room."""


class FirstPage(Horizontal):
    """Shows the facts, and from ``LEAST_CELLS`` on the user's own file right of them."""

    DEFAULT_CSS = """
    FirstPage { height: 1fr; }
    FirstPage > FactList { width: 3fr; }
    FirstPage > Pane { width: 2fr; border-left: solid $border; }
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

    def compose(self) -> ComposeResult:
        yield self.facts
        yield self.source

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
        """Give the file its room where there is enough."""
        self.source.display = self._own is not None and self.size.width >= LEAST_CELLS

    @on(Pane.Moved)
    def source_moved(self, event: Pane.Moved) -> None:
        event.stop()  # it is linked to nothing here

    @on(Pane.Followed)
    def source_followed(self, event: Pane.Followed) -> None:
        event.stop()
        self.post_message(self.Followed(event.place))
