"""The outline at the left of the main screen: it is read beside the screen, and has the room that
the views leave.
"""

from __future__ import annotations

from fx_explorer.overview.outline import OutlineEntry, kernels_below, outline
from fx_explorer.session import SessionReader
from fx_explorer.tui.beside import BackgroundTask, Renewed
from fx_explorer.tui.content.long_work import OUTLINE_READS, UNREADABLE
from fx_explorer.tui.failures import explained
from fx_explorer.tui.screens.main.views import Views
from fx_explorer.tui.widgets.outline import Outline

MIN_CELLS_FOR_OUTLINE = 110
OUTLINE_CELLS = 32
LEAST_OUTLINE_CELLS = 16
LEAST_VIEW_CELLS = 40
"""What dragging the border leaves to the outline, and to the views."""

COMFORTABLE_PANE_CELLS = 34
"""In narrower linked panes, the outline gives up its room: panes need it more."""


class OutlineSide:
    """Keeps the outline up to date, and decides whether it is shown."""

    def __init__(self, outline: Outline, views: Views) -> None:
        self._outline = outline
        self._views = views
        self._reader: SessionReader | None = None
        self._read: Renewed[list[OutlineEntry]] = Renewed(
            BackgroundTask(outline, "outline", "read the outline"), self._show, self._cannot_read
        )
        self.wish: bool | None = None
        """Whether the user asked for the outline; None shows it where it fits."""

    # what it lists

    def forget(self) -> None:
        """Drop what was read of a session, which is about to be closed."""
        self._read.forget()
        self._outline.forget()

    def renew(self, reader: SessionReader) -> None:
        """List what is in the session by now."""
        self._reader = reader
        self._read.renew(reader, outline, takes_long=OUTLINE_READS.takes_long(reader))

    def _show(self, entries: list[OutlineEntry]) -> None:
        is_over = self._reader is not None and self._reader.meta("outcome") is not None
        if is_over:
            self._outline.placeholder = "Nothing was compiled."
        else:
            self._outline.placeholder = "Nothing has been compiled yet."
        self._outline.show(entries, self._below)

    def _below(self, entry: OutlineEntry) -> list[OutlineEntry]:
        with explained(self._outline):
            return kernels_below(self._reader, entry) if self._reader else []
        return []

    def _cannot_read(self) -> None:
        self._outline.placeholder = UNREADABLE
        self._outline.refresh()

    # its room

    def drag_border(self, cell: int, width: int) -> None:
        """Make the outline as wide as the user drags its border to ``cell``, on a screen of
        ``width`` cells.
        """
        most = max(LEAST_OUTLINE_CELLS, width - LEAST_VIEW_CELLS)
        cells = max(LEAST_OUTLINE_CELLS, min(cell - self._outline.region.x, most))
        styles = self._outline.styles
        styles.width = styles.min_width = styles.max_width = cells

    def show_where_it_fits(self, width: int, panes: int) -> None:
        """Show the outline where there is room beside so many panes, unless the user wished
        otherwise.
        """
        fits = width >= max(MIN_CELLS_FOR_OUTLINE, OUTLINE_CELLS + panes * COMFORTABLE_PANE_CELLS)
        is_shown = fits if self.wish is None else self.wish
        self._outline.set_class(not is_shown, "-hidden")
        self._views.set_class(is_shown, "-beside")
