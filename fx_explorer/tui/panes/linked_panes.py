"""Any number of panes stand side by side. Where the terminal is too narrow for all, as many as fit
are shown, the others behind tabs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip
from textual.style import Style

from fx_explorer.analysis.documents import Document
from fx_explorer.cut_text import cut_in_middle
from fx_explorer.model import LEVELS
from fx_explorer.tui.content.long_work import READS
from fx_explorer.tui.content.presets import Slot
from fx_explorer.tui.failures import TellsUnreadable
from fx_explorer.tui.panes.kernel_marks import KernelMarks
from fx_explorer.tui.panes.pane import Pane
from fx_explorer.tui.panes.titles import OldFiles, StageWords
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.pane_border import move_border

MIN_PANE_CELLS = 28
"""Minimum width of a pane, in cells. A narrower one shows too little of a line to read, so some
panes go behind tabs instead.
"""

TABBED_PANE_CELLS = 40
"""Minimum width of a shown pane when others are behind tabs, in cells."""

PICTURE_CELLS = 80
"""Smallest width of a picture beside other panes, in cells. It is twice as wide as they are."""

LEVEL_PANE_CELLS = 60
"""Minimum width of a shown pane, in cells, when levels below a kernel are shown: an instruction
with its operands.
"""

SHOWN_FIRST: tuple[Slot, ...] = (
    "kernel",
    "sass",
    "amdgcn",
    "ptx",
    "ttgir",
    "llir",
    "graph",
    "source",
)
"""Order of the levels below a kernel, of which the first are shown if not all fit, until the user
chooses another.
"""

FEW_PANES = 4
"""Maximum number of panes that are shown side by side whatever their width. More are shown only if
each gets ``TABBED_PANE_CELLS``.
"""

MIN_ROW_CELLS = 84
"""Smallest width of a row for several panes; in a narrower row, one pane is shown at a time."""


MIN_TAB_CELLS = 8
TAB_MARGINS = 3
POSITION_CELLS = 12
"""Width of the cursor's position beside the tabs, in cells."""


class LinkedPanes(TellsUnreadable, Vertical):
    """Arranges the row of panes. The screen decides what they show and what is highlighted."""

    DEFAULT_CSS = """
    LinkedPanes { height: 1fr; }
    LinkedPanes > .pane-tabs { background: $panel; display: none; }
    LinkedPanes.-tabbed > .pane-tabs { display: block; }
    LinkedPanes.-single .pane-title { display: none; }
    LinkedPanes > Horizontal { height: 1fr; visibility: hidden; }
    LinkedPanes Pane { border-left: solid; visibility: hidden; }
    LinkedPanes Pane > * { visibility: visible; }
    LinkedPanes > .linked-panes--rule { color: $border; }
    LinkedPanes Pane.-first { border-left: none; }
    LinkedPanes Pane.-picture { width: 2fr; }
    """
    # Textual paints each container under a line that changed: with four panes a quarter of a frame.
    # So the containers between this one and the panes' contents are hidden, and what shows between
    # the panes is painted here.
    COMPONENT_CLASSES: ClassVar[set[str]] = {"linked-panes--rule"}

    def __init__(self) -> None:
        super().__init__()
        self.stage_words = StageWords()
        self.kernel_marks = KernelMarks(
            self,
            self._mark_lines,
            self._show_times,
            READS["kernels"].takes_long,
            READS["profile"].takes_long,
        )
        self._tabs = OneLine(classes="pane-tabs")
        self._row = Horizontal()
        self._active = 0
        self._first = 0
        """The leftmost pane on screen, if not all are shown."""
        self._shown: Sequence[int] = ()
        self._is_ranked = True
        """Whether the panes show the first levels of SHOWN_FIRST. False once the user has chosen
        another level.
        """
        self._is_zoomed = False
        self._old = OldFiles()
        self._dragged: Pane | None = None
        """The pane whose left border is being dragged."""

    def compose(self) -> ComposeResult:
        yield self.stage_words
        yield self._tabs
        yield self._row

    @property
    def panes(self) -> list[Pane]:
        """Return the panes from left to right."""
        return [child for child in self._row.children if isinstance(child, Pane)]

    @property
    def active(self) -> Pane | None:
        """Return the pane that has the focus, or had it last."""
        panes = self.panes
        if panes:
            return panes[min(self._active, len(panes) - 1)]
        return None

    @property
    def shown_documents(self) -> list[Document]:
        return [pane.document for pane in self.panes if pane.document]

    async def set_slots(self, slots: Sequence[Slot]) -> list[Pane]:
        """Show one pane per slot, in this order, without a stage. Existing panes are reused."""
        panes = self.panes
        self.forget_stage()
        for pane, slot in zip(panes, slots, strict=False):
            pane.slot = slot
        if len(panes) > len(slots):
            await self._row.remove_children(panes[len(slots) :])
        elif len(slots) > len(panes):
            await self._row.mount_all([self._new_pane(slot) for slot in slots[len(panes) :]])
        self._is_zoomed = False
        self._active = self._first = 0
        self.share_evenly()
        self._is_ranked = True
        self._show_panes()
        return self.panes

    def _new_pane(self, slot: Slot = "") -> Pane:
        pane = Pane(self.kernel_marks, slot)
        pane.show_old(self._old)
        return pane

    def show_old(self, old: OldFiles) -> None:
        """Mark the source files that have changed, in these panes and in later ones."""
        self._old = old
        for pane in self.panes:
            pane.show_old(old)

    def _mark_lines(self) -> None:
        """Show the cost of source lines, which is known only now."""
        for pane in self.panes:
            if pane.document and pane.document.kind == "source":
                pane.show_marks_again()

    def _show_times(self) -> None:
        """Show the times of a profile in graphs and generated code, which are known only now."""
        for pane in self.panes:
            if pane.document and pane.document.kind != "source":
                pane.show_marks_again()

    def forget_stage(self) -> None:
        """Stop showing a stage: remove its sentence, and its marks from the panes."""
        self.stage_words.show(None)
        for pane in self.panes:
            pane.work = None

    async def add(self) -> Pane:
        """Add a pane right of the active one."""
        active = self.active
        pane = self._new_pane()
        await self._row.mount(pane, after=active)
        self._active = self.panes.index(pane)
        self.share_evenly()
        self._is_ranked = True
        self._show_panes()
        return pane

    async def close(self, pane: Pane) -> None:
        await pane.remove()
        self.share_evenly()
        self._active = max(0, self._active - 1)
        self._is_ranked = True
        self._show_panes()

    def activate(self, pane: Pane) -> None:
        """Show a pane if it is behind tabs, and focus it."""
        pane.display = True
        self._active = self.panes.index(pane)
        self._first = self._first_shown
        self.screen.set_focus(pane.body, scroll_visible=False)
        self._show_panes()

    def begin_with(self, pane: Pane) -> None:
        """Show and focus a pane. If not all fit, panes to the right of it are preferred to those on
        the left.
        """
        self._first, self._is_ranked = self.panes.index(pane), True
        self.activate(pane)

    def toggle_zoom(self) -> None:
        self._is_zoomed = not self._is_zoomed
        self._show_panes()

    @property
    def is_single(self) -> bool:
        """Return whether one pane is shown at a time: zoomed, or in a narrow terminal."""
        return self._room == 1 < len(self.panes)

    @property
    def _room(self) -> int:
        """Return how many panes are shown side by side."""
        count, width = len(self.panes), self.size.width
        if self._is_zoomed or width < MIN_ROW_CELLS:
            return min(1, count)
        if any(pane.slot == "neighbourhood" for pane in self.panes):
            return min(count, 1 + max(0, width - PICTURE_CELLS) // TABBED_PANE_CELLS)
        if self.shows_levels:
            return min(count, max(1, width // LEVEL_PANE_CELLS))
        least = MIN_PANE_CELLS if count <= FEW_PANES else TABBED_PANE_CELLS
        if width >= least * count:
            return count
        return max(1, width // TABBED_PANE_CELLS)

    @property
    def shows_levels(self) -> bool:
        """Return whether a pane shows a level below a kernel, such as PTX."""
        return any(pane.slot in LEVELS for pane in self.panes)

    def on_resize(self, event: events.Resize) -> None:
        self._show_panes()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if event.widget is not self.screen.focused:
            # the focus has gone on since: news of two panes come by two ways, and the older may
            # come last
            return
        for index, pane in enumerate(self.panes):
            if pane in event.widget.ancestors and index != self._active:
                self._active = index
                self._show_panes()

    def on_click(self, event: events.Click) -> None:
        tab = event.style.meta.get("tab")
        if tab is not None:
            self.activate(self.panes[tab])
        elif event.chain == 2 and self._right_of_border(event):
            self.share_evenly()

    # widths

    def share_evenly(self) -> None:
        """Give all panes the same width."""
        for pane in self.panes:
            pane.styles.width = "1fr"

    def widen(self, pane: Pane, cells: int) -> None:
        """Make a pane wider by cells of its right neighbour, else of its left one; narrower if
        ``cells`` is negative.
        """
        shown = [pane for pane in self.panes if pane.display]
        if len(shown) > 1:
            at = shown.index(pane)
            if at == len(shown) - 1:
                self._move_border(shown, at - 1, -cells)
            else:
                self._move_border(shown, at, cells)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        pane = self._right_of_border(event) if event.button == 1 else None
        if pane:
            self._dragged = pane
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        shown = [pane for pane in self.panes if pane.display]
        if self._dragged in shown[1:]:
            border = shown.index(self._dragged) - 1
            self._move_border(shown, border, int(event.screen_x) - _border_of(self._dragged))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._dragged:
            self._dragged = None
            self.release_mouse()

    def _right_of_border(self, event: events.MouseEvent) -> Pane | None:
        """Return the pane on whose left border the mouse is; None elsewhere."""
        shown = [pane for pane in self.panes if pane.display]
        for pane in shown[1:]:
            is_in_column = _border_of(pane) == int(event.screen_x)
            if is_in_column and event.screen_y >= pane.body.region.y - 1:
                return pane
        return None

    def _move_border(self, shown: Sequence[Pane], border: int, by: int) -> None:
        # In shares and not in cells, so that they hold in a terminal of another size. A pane that
        # is hidden for the sake of speed has no size of its own (see the styles above); its body
        # has.
        widths = [pane.body.region.width + (at > 0) for at, pane in enumerate(shown)]
        for pane, width in zip(shown, move_border(widths, border, by), strict=True):
            pane.styles.width = f"{max(1, width)}fr"

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint the rules between the panes. The panes cover the rest."""
        columns = {_border_of(pane) - self.region.x for pane in self.panes if pane.display}
        style = self.get_component_rich_style("linked-panes--rule")
        row = ""
        for column in range(crop.right):
            row += "│" if column in columns else " "
        strip = Strip([Segment(row[crop.x :], style)], crop.width)
        for line_filter in self.get_line_filters():
            strip = strip.apply_filter(line_filter, self.background_colors[1])
        return [strip] * crop.height

    def refresh_tabs(self) -> None:
        """Redraw the tabs, because a pane shows another document or its cursor moved."""
        panes = self.panes
        if self._room < len(panes) and self.active:
            room = self._room_of_tabs()
            tabs = Content(" ").join(self._tab(i, pane, room) for i, pane in enumerate(panes))
            position = self.active.position if self.is_single else Content("")
            self._tabs.show(tabs, position)

    @property
    def _first_shown(self) -> int:
        """Return the leftmost pane on screen: the same as before, unless that would hide the active
        one.
        """
        panes, room = self.panes, self._room
        active = min(self._active, len(panes) - 1)
        return max(min(self._first, active, len(panes) - room), active - room + 1, 0)

    def _room_of_tabs(self) -> int:
        """Return the characters for each title: all if the tabs fit, else few enough that the last
        tab is visible.
        """
        titles = [len(pane.plain_title) for pane in self.panes]
        width = self.size.width - POSITION_CELLS
        if sum(titles) + TAB_MARGINS * len(titles) <= width:
            return max(titles)
        return max(MIN_TAB_CELLS, width // len(titles) - TAB_MARGINS)

    def _show_panes(self) -> None:
        """Show the active pane and its neighbours. The same panes stay as long as the active one is
        among them.
        """
        panes, room = self.panes, self._room
        self._shown = self._side_by_side()
        self.set_class(room < len(panes), "-tabbed")
        self.set_class(self.is_single, "-single")
        for index, pane in enumerate(panes):
            pane.display = index in self._shown
            pane.set_class(index == min(self._shown), "-first")
            pane.set_class(pane.slot == "neighbourhood", "-picture")
        self.refresh_tabs()

    def _side_by_side(self) -> Sequence[int]:
        """Return the indices of the panes that are shown. They stay the same while the active pane
        is among them.
        """
        panes, room = self.panes, self._room
        active = min(self._active, len(panes) - 1)
        if self._is_ranked and self.shows_levels:
            ranked = sorted(range(len(panes)), key=lambda at: _rank(panes[at].slot))[:room]
            if active in ranked:
                return sorted(ranked)
            self._is_ranked = False
        elif len(self._shown) == room and active in self._shown:
            return self._shown
        return range(self._first_shown, self._first_shown + room)

    def _tab(self, index: int, pane: Pane, room: int) -> Content:
        if pane is self.active:
            style = "bold reverse"
        elif not pane.display:
            style = "$text-muted"
        else:
            style = "$foreground"
        title = pane.plain_title
        shown = cut_in_middle(title, room)
        return Content.styled(f" {shown} ", style).stylize(Style.from_meta({"tab": index}))


def _border_of(pane: Pane) -> int:
    """Return the column of the screen in which the left border of a shown pane is."""
    return pane.body.region.x - 1


def _rank(slot: Slot) -> int:
    if slot in SHOWN_FIRST:
        return SHOWN_FIRST.index(slot)
    return len(SHOWN_FIRST)
