"""The frame of the main screen: header, pipeline bar, outline, one of the views, inspector line,
footer.

Every selection goes through it: panes and lists tell it, and it tells the linked selection, the
inspector line and the history. What the user can ask of it is in explorer.py; capturing is the
app's business.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.facts import Fact, Topic
from fx_explorer.analysis.kernels.kernel_documents import builds_here
from fx_explorer.analysis.outline import OutlineEntry, kernels_below, outline
from fx_explorer.analysis.overview.overview import overview
from fx_explorer.analysis.regions.annotated_regions import regions
from fx_explorer.analysis.regions.region_nodes import RegionKey, regions_at
from fx_explorer.analysis.stages.stage_work import work_in_use
from fx_explorer.analysis.stages.work import EXPLAINED, StageWork
from fx_explorer.errors import FxExplorerError
from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader
from fx_explorer.tui.beside import Beside, Renewed
from fx_explorer.tui.commands import OF_A_PLACE, OF_TRITON, Keymap, sentence_of
from fx_explorer.tui.panes.linked import LinkedPanes
from fx_explorer.tui.panes.linked_selection import LinkedSelection
from fx_explorer.tui.panes.overview import FactList, leads_to
from fx_explorer.tui.panes.pane import Pane
from fx_explorer.tui.panes.stage_words import StageText
from fx_explorer.tui.panes.table_pane import TablePane
from fx_explorer.tui.panes.views_box import Views
from fx_explorer.tui.selection.history import History, Stop
from fx_explorer.tui.status import header
from fx_explorer.tui.status.live import Waiting
from fx_explorer.tui.status.old_files import OldFiles
from fx_explorer.tui.status.pipeline import STEPS, StepState
from fx_explorer.tui.status.waiting_fact import waiting_fact
from fx_explorer.tui.terminal.frame_bytes import FrameCompositor
from fx_explorer.tui.turn_lock import TurnLock, in_turn
from fx_explorer.tui.unreadable import TellsUnreadable, tells
from fx_explorer.tui.views.reads import OUTLINE_READS, OVERVIEW_READS, READING, UNREADABLE
from fx_explorer.tui.views.table import Table
from fx_explorer.tui.widgets.footer_line import FooterLine
from fx_explorer.tui.widgets.lines.find_bar import FindBar
from fx_explorer.tui.widgets.lines.line_view import LineView
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.outline import Outline
from fx_explorer.tui.widgets.pipeline_bar import PipelineBar
from fx_explorer.tui.widgets.separator import Separator

FEW_ROWS = 10
"""With fewer rows the screen shows the header, one row of keys, and the view without its headings."""

MIN_CELLS_FOR_OUTLINE = 110
OUTLINE_CELLS = 32
LEAST_OUTLINE_CELLS = 16
LEAST_VIEW_CELLS = 40
"""What dragging the border leaves to the outline, and to the views."""

COMFORTABLE_PANE_CELLS = 34
"""In narrower linked panes, the outline gives up its room: panes need it more."""


NARROWED = "Every view shows only {name} now: kernels (6), breaks (4), saved tensors (7), graphs (2, 3). Escape shows all."


class ExplorerFrame(TellsUnreadable, Screen[None]):
    """Shows one session, live or saved."""

    DEFAULT_CSS = """
    ExplorerFrame > #header { background: $panel; }
    ExplorerFrame > #body { height: 1fr; visibility: hidden; }
    ExplorerFrame > #body > * { visibility: visible; }
    ExplorerFrame #views { width: 1fr; height: 1fr; }
    ExplorerFrame #views.-beside { border-left: solid $border; }
    ExplorerFrame > #inspector { background: $surface; color: $text-muted; }
    ExplorerFrame Outline.-hidden { display: none; }
    ExplorerFrame { overflow: hidden; }
    ExplorerFrame.-few-rows > PipelineBar, ExplorerFrame.-few-rows > Separator { display: none; }
    ExplorerFrame.-few-rows > #inspector, ExplorerFrame.-few-rows TablePane > Words { display: none; }
    ExplorerFrame.-few-rows .pane-title, ExplorerFrame.-few-rows .pane-tabs { display: none; }
    ExplorerFrame.-few-rows TablePane > .totals, ExplorerFrame.-few-rows TablePane > .detail { height: 0; border: none; }
    """
    AUTO_FOCUS = ""

    class DifferenceWanted(Message):
        """Asks the app to show what differs from the last capture, or in the user's files by now (OF_FILES)."""

        def __init__(self, aspect: str) -> None:
            super().__init__()
            self.aspect = aspect

    # Textual paints every container under a line that changed. What its children cover anyway is
    # not painted at all, or plain.
    BLANK = True

    def __init__(self, keymap: Keymap) -> None:
        super().__init__()
        self._compositor = FrameCompositor()
        self.keymap = keymap
        self._waiting: Waiting | None = None
        self.reader: SessionReader | None = None
        self.view = ""
        self.history: History[Stop] = History()
        self.turn = TurnLock()
        self._header = OneLine(id="header")
        self._pipeline = PipelineBar()
        self.outline = Outline()
        self.outline_wish: bool | None = None
        """Whether the user asked for the outline; None shows it where it fits."""
        self._views = Views(id="views")
        self._view_widgets: dict[str, Widget] = {}
        self._inspector = OneLine(id="inspector")
        self._footer = FooterLine(keymap)
        self.find_bar = FindBar()
        self.linked = LinkedPanes()
        self.facts = FactList()
        self.linked_selection = LinkedSelection(self.linked)
        self._outlined: Renewed[list[OutlineEntry]] = Renewed(
            Beside(self.outline, "outline", "read the outline"), self._show_entries, self._outline_failed
        )
        self._told: Renewed[list[Fact]] = Renewed(
            Beside(self.facts, "overview", "read the overview"), self._show_facts, self._overview_failed
        )
        self.old = OldFiles()
        """Which files have changed since they were captured."""
        self._in_header: tuple[str, str, header.CaptureState] | None = None
        """What the top line says."""
        self._headed: RegionKey | None = None
        """The region that it names."""
        self.progress = ""
        """How far the compiling of a kernel's configurations is, in words."""

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._pipeline
        with Horizontal(id="body"):
            yield self.outline
            yield self._views
        yield self._footer
        yield self.find_bar
        yield Separator()
        yield self._inspector

    async def on_mount(self) -> None:
        self._header.show(Content.styled("fx-explorer", "bold $primary"))
        self._pipeline.show([StepState(step.name, "waiting") for step in STEPS])
        await self.show_view("overview")

    # the session

    def open(self, reader: SessionReader) -> None:
        """Show this session, at the same place where it has one."""
        old, self.reader = self.reader, reader
        self._outlined.forget()
        self._told.forget()
        self.facts.forget_of_app()
        self.old = OldFiles()
        self.linked.show_old(self.old)
        self.outline.forget()
        for widget in self._view_widgets.values():
            if isinstance(widget, TablePane):
                widget.forget()
                widget.show_old(self.old)
        with self.explained():
            self.linked_selection.open(reader)
        self.refresh_session()
        if old is not None:
            self.history = History()
            old.close()

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Tell the user, inside the block, that a session cannot be read (any more). What is on
        screen stays.
        """
        try:
            yield
        except FxExplorerError as error:
            if not tells(self, error):
                self.notify(printable(str(error)), title="the session cannot be read", severity="error")

    def refresh_session(self) -> None:
        """Show what is on screen again, because the session has grown or is another one."""
        if self.reader is None:
            return
        with self.explained():
            self._outlined.renew(self.reader, outline, takes_long=OUTLINE_READS.takes_long(self.reader))
            self.linked_selection.refresh()
        self._refresh_view()
        self.show_inspector()

    def _show_entries(self, entries: list[OutlineEntry]) -> None:
        is_over = self.reader is not None and self.reader.meta("outcome") is not None
        self.outline.placeholder = "Nothing was compiled." if is_over else "Nothing has been compiled yet."
        self.outline.show(entries, self._below)

    def _below(self, entry: OutlineEntry) -> list[OutlineEntry]:
        with self.explained():
            return kernels_below(self.reader, entry) if self.reader else []
        return []

    def _outline_failed(self) -> None:
        self.outline.placeholder = UNREADABLE
        self.outline.refresh()

    def show_header(self, left: str, conditions: str, state: header.CaptureState) -> None:
        self._in_header = (left, conditions, state)
        self._show_header()

    def _show_header(self) -> None:
        """Write the top line, with what every view is narrowed to."""
        if self._in_header is None:
            return
        left, conditions, state = self._in_header
        region = self._headed = self.linked_selection.region
        only = Content.styled(f"  {header.only(region[1])}", "bold $warning") if region else Content("")
        name = Content.styled("fx-explorer", "bold $primary") + only + Content.styled(f"  {left}", "bold")
        colour = header.COLOURS[state.tone]
        self._header.show(name + Content.styled(f"   {conditions}", "$foreground 60%"), Content.styled(state.text, colour))

    def show_waiting(self, waiting: Waiting | None) -> None:
        """Show where the compiler waits for the user."""
        if waiting != self._waiting:
            self._waiting = waiting
            if waiting is None or waiting.gate is None:
                self.linked.stage_words.forget_key()
            if self.view == "overview":
                self._refresh_view()
                self.show_inspector()

    def show_pipeline(self, states: list[StepState]) -> None:
        self._pipeline.show(states)

    def show_first(self, command_ids: tuple[str, ...]) -> None:
        """Set the commands that the footer begins with."""
        self._footer.show_first(command_ids)

    # views

    @in_turn
    async def show_view(self, name: str) -> None:
        """Bring a view to the front and focus it."""
        widget = await self._view_widget(name)
        if name != self.view:
            self.stop_reading()
        self.view = name
        widget.display = True
        if name == "source" and not self.linked.panes:
            await self.linked_selection.show_preset("source")
        # Before the others are hidden: when the focused widget disappears, Textual looks for
        # another by itself.
        self.set_focus(self.body, scroll_visible=False)
        for other in self._view_widgets.values():
            other.display = other is widget
        if isinstance(widget, TablePane):
            widget.resume()
        self._footer.show_view(name)
        self.show_outline()
        self._refresh_view()
        self.show_inspector()

    async def _view_widget(self, name: str) -> Widget:
        """Return the widget of a view. Views are mounted when they are first shown, so that
        starting costs only the first.
        """
        if name not in self._view_widgets:
            widget: Widget
            if name == "overview":
                widget = self.facts
            elif name == "source":
                widget = self.linked
            else:
                from fx_explorer.tui.views.reads import READS
                from fx_explorer.tui.views.tables import TABLES  # not needed for the first paint: 20 ms

                widget = TablePane(TABLES.get(name, self.candidates_table), READS.get(name), id=name)
                widget.show_old(self.old)
            self._view_widgets[name] = widget
            await self._views.mount(widget)
        return self._view_widgets[name]

    def _refresh_view(self) -> None:
        if self.reader is None:
            return
        widget = self._view_widgets.get(self.view)
        with self.explained():
            if widget is self.facts:
                self._renew_facts(self.reader)
            elif isinstance(widget, TablePane):
                widget.show_only(self.linked_selection.region)
                widget.refresh_from(self.reader)

    def _renew_facts(self, reader: SessionReader) -> None:
        waiting, keymap = self._waiting, self.keymap

        def facts(of: SessionReader) -> list[Fact]:
            return overview(of, waiting_fact(of, waiting, keymap))

        takes_long = OVERVIEW_READS.takes_long(reader)
        if not self._told.renew(reader, facts, takes_long=takes_long, given=waiting):
            self.facts.say_what_is_done(READING.format(what=OVERVIEW_READS.words(reader)))

    def _show_facts(self, facts: list[Fact]) -> None:
        self.facts.show(facts)
        if self.view == "overview":
            self.show_inspector()

    def show_of_app(self, topic: Topic, facts: Sequence[Fact]) -> None:
        """Show facts on the overview that no session knows."""
        self.facts.show_of_app(topic, facts)
        if self.view == "overview":
            self.show_inspector()

    def show_old(self, old: OldFiles, remedy: str) -> None:
        """Mark what is old. ``remedy`` says what to do."""
        self.old = old
        self.show_of_app("old", old.fact(remedy))
        self.linked.show_old(old)
        for widget in self._view_widgets.values():
            if isinstance(widget, TablePane):
                widget.show_old(old)

    def _overview_failed(self) -> None:
        self.facts.say_what_is_done(UNREADABLE)

    @property
    def body(self) -> LineView | None:
        """Return the list or text that keys go to in the current view."""
        widget = self._view_widgets.get(self.view)
        if isinstance(widget, FactList):
            return widget
        if isinstance(widget, TablePane):
            return widget.body
        return self.linked.active.body if self.linked.active else None

    @property
    def picture_here(self) -> str:
        """Return what the picture with the focus shows: ``neighbourhood``; empty where there is none."""
        pane = self.linked.active if self.view == "source" else None
        return "neighbourhood" if pane and pane.picture else ""

    @property
    def table(self) -> TablePane | None:
        """Return the table of the current view; None where it is no table."""
        widget = self._view_widgets.get(self.view)
        return widget if isinstance(widget, TablePane) else None

    @property
    def detail(self) -> LineView | None:
        """Return the text below the list of the current view; None where there is none."""
        widget = self._view_widgets.get(self.view)
        return widget.detail if isinstance(widget, TablePane) and widget.detail.line_count else None

    def stop_reading(self) -> bool:
        """Abandon what is being made for the view on screen. Returns whether there was something."""
        if self.view == "source":
            stopped = [pane.stop_writing() for pane in self.linked.panes]
            return any(stopped)
        return self.table.stop_reading() if self.table else False

    # narrowed to a region or a module

    def narrow(self, region: RegionKey | None) -> None:
        """Narrow every view to a region or a module; None shows everything again."""
        self.linked_selection.narrow(region)
        self._refresh_view()
        self.show_inspector()
        if region:
            self.notify(NARROWED.format(name=region[1]))

    def leave_row(self) -> bool:
        """Show what the table on screen was opened from. Returns whether it was opened from anything."""
        return bool(self.table and self.table.leave_row())

    # selection

    @property
    def compilation_looked_at(self) -> int:
        """Return the id of the compilation of what the cursor is on; 0 where it is on nothing of one."""
        if self.outline.has_focus:
            return self.outline.compilation
        place = self.place
        return (place.document.compilation if place else 0) or self.linked_selection.compilation

    @property
    def place(self) -> Place | None:
        """Return the place under the cursor of whatever has the focus."""
        if self.outline.has_focus:
            return self.outline.place
        widget = self._view_widgets.get(self.view)
        if isinstance(widget, FactList):
            return widget.fact.place if widget.fact else None
        if isinstance(widget, TablePane):
            return widget.place
        return self.linked.active.place if self.linked.active else None

    @property
    def selected_lines(self) -> list[int]:
        """Return the lines that are selected with the mouse in the document of ``place``."""
        pane = self.linked.active if self.view == "source" and not self.outline.has_focus else None
        return pane.selected if pane else []

    def regions_here(self) -> list[RegionKey]:
        """Return the regions of what is under the cursor."""
        if self.reader is None:
            return []
        table = self._view_widgets.get(self.view)
        if self.view == "regions" and isinstance(table, TablePane) and not self.outline.has_focus:
            return [(one.key, one.value) for one in regions(self.reader)[table.position :][:1]]
        return regions_at(self.reader, self.place) if self.place else []

    def row_of_breaks(self) -> int:
        """Return the row that the cursor is on in the list of breaks."""
        table = self._view_widgets.get("breaks")
        return table.position if isinstance(table, TablePane) else 0

    @property
    def place_of_break_told(self) -> Place | None:
        """Return the line of the break that the overview's cursor is on; None in another view, and on
        another fact.
        """
        on_it = self.view == "overview" and self.facts.is_on_a_break and self.facts.fact
        return on_it.place if on_it else None

    async def show_below(self) -> None:
        """Show what is below the kernel that the cursor is on."""
        raise NotImplementedError

    @in_turn
    async def go(self, place: Place) -> None:
        """Show a place in the linked panes, and remember where we were."""
        self.remember()
        await self.show_view("source")
        pane = await self.linked_selection.go(place)
        if pane:
            self.linked.activate(pane)
        self.remember()
        self.show_inspector()

    @in_turn
    async def show_stage(self, works: Sequence[StageWork], next_key: str = "") -> None:
        """Show what stages did: what stood before the last of them beside what stood after it.
        ``next_key`` says what goes on, where something waits.
        """
        self.remember()
        await self.show_view("source")
        with self.explained():
            await self.linked_selection.show_stage(works[-1].point, works[-1].fates)
        last = works[-1].point
        self.linked.stage_words.show(StageText([work.sentence for work in works], EXPLAINED[last.key], next_key))
        self.show_outline()
        if self.linked.panes:
            self.linked.activate(self.linked.panes[0])
        self.show_inspector()
        self.remember()

    def stop(self) -> Stop:
        """Return where the user is, for the history."""
        place = self.linked.active.place if self.view == "source" and self.linked.active else None
        return Stop(self.view, place)

    def remember(self) -> None:
        self.history.go(self.stop())

    @on(Pane.Moved)
    def pane_moved(self, event: Pane.Moved) -> None:
        if self.reader is None:
            return
        with self.reader.snapshot():
            with self.explained():
                self.linked_selection.user_selected(event.place, event.pane)
            self.linked.refresh_tabs()
            self.show_inspector()

    def candidates_table(self, reader: SessionReader) -> Table:
        """Make the table of configurations of the kernel that was asked for."""
        from fx_explorer.tui.views.candidates import candidates_table  # not needed for the first paint

        return candidates_table(reader, self.linked_selection.levels.listed, self.progress)

    def show_progress(self, words: str) -> None:
        """Show how far compiling the configurations is."""
        self.progress = words
        if self.view == "candidates":
            self._refresh_view()
            self.show_inspector()

    def candidate_here(self) -> int | None:
        """Return the configuration that the cursor is on, in the view of configurations."""
        table = self._view_widgets.get("candidates")
        if self.view != "candidates" or not isinstance(table, TablePane) or self.outline.has_focus:
            return None
        kernel, reader = self.linked_selection.levels.listed, self.reader
        rows = builds_here(reader, kernel) if kernel and reader else []
        return rows[table.position].position if table.position < len(rows) else None

    @on(TablePane.Followed)
    async def row_followed(self, event: TablePane.Followed) -> None:
        if self.view == "candidates":
            await self.show_below()
        elif self.view == "stages" and self.reader and self.table:
            with self.explained():
                work = await asyncio.to_thread(work_in_use, self.reader.path, self.table.position)
                await self.show_stage([work])
        elif self.table and self.table.narrows_to and self.table.narrows_to != self.linked_selection.region:
            self.narrow(self.table.narrows_to)
        elif event.place:
            await self.go(event.place)
        elif not (self.table and self.table.fold_here()):
            self.notify("This row stands for no one place in the code.")

    @on(TablePane.Moved)
    def row_moved(self) -> None:
        self.show_inspector()

    @on(Outline.Chosen)
    async def outline_chosen(self, event: Outline.Chosen) -> None:
        await self.go(event.place)

    @on(LineView.Moved)
    def line_moved(self) -> None:
        """Update after the cursor moved in the overview or the outline. The other views report for
        themselves.
        """
        self.show_inspector()

    @on(LineView.Followed)
    async def fact_followed(self) -> None:
        fact = self.facts.fact
        if fact and fact.difference:
            self.post_message(self.DifferenceWanted(fact.difference))
        elif fact and fact.place:
            await self.go(fact.place)
        elif fact and fact.view:
            self.remember()
            await self.show_view("graphs" if fact.view == "passes" else fact.view)
            self.remember()

    @on(LineView.Found)
    def found(self, event: LineView.Found) -> None:
        self.find_bar.show_count(event)

    def show_inspector(self) -> None:
        """Say what the cursor is on. Costs 1 ms, and is painted in the same frame as what lights
        up.
        """
        place = self.place
        if self._headed != self.linked_selection.region:
            self._show_header()
        self._footer.show_view(self.view, self._without(place), self.picture_here)
        if self.reader is None:
            return
        if self.outline.has_focus:
            self._inspector.show(Content(printable(self.outline.text)))
        elif isinstance(self._view_widgets.get(self.view), FactList) and self.facts.fact:
            lead = leads_to(self.facts.fact)
            self._inspector.show(Content(f"⏎ {lead}" if lead else sentence_of(self.view)))
        elif place and (selection := self.linked_selection.selected_at(place)):
            with self.explained():
                costs = self.linked.kernel_marks.words(selection.place)
                from fx_explorer.tui.inspector import inspect  # not needed for the first paint

                here, *rest = inspect.summary(selection) or [""]
                self._inspector.show(inspector_content([here, *([costs] if costs else []), *rest]))
        else:
            self._inspector.show(Content(sentence_of(self.view)))

    def _without(self, place: Place | None) -> tuple[str, ...]:
        """Return the commands of the view that do nothing for the row under the cursor."""
        if self.view == "overview":
            return () if self.facts.is_on_a_break else ("breaks.fix",)
        if self.view not in ("breaks", "guards", "kernels", "sizes"):
            return ()
        if place is None:
            return (*OF_A_PLACE, "line.follow")
        kernel = self.linked_selection.kernel_at(place) if self.view == "kernels" else None
        return OF_TRITON if kernel and kernel.language != "triton" else ()

    # size

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < FEW_ROWS, "-few-rows")
        self.show_outline()

    @on(Views.EdgeDragged, "#views")
    def outline_dragged(self, event: Views.EdgeDragged) -> None:
        """Make the outline as wide as the user drags it."""
        most = max(LEAST_OUTLINE_CELLS, self.size.width - LEAST_VIEW_CELLS)
        cells = max(LEAST_OUTLINE_CELLS, min(event.cell - self.outline.region.x, most))
        self.outline.styles.width = self.outline.styles.min_width = self.outline.styles.max_width = cells

    def show_outline(self) -> None:
        """Show the outline where there is room, unless the user wished otherwise."""
        panes = self.linked.widths_wanted if self.view == "source" else 0
        fits = self.size.width >= max(MIN_CELLS_FOR_OUTLINE, OUTLINE_CELLS + panes * COMFORTABLE_PANE_CELLS)
        is_shown = fits if self.outline_wish is None else self.outline_wish
        self.outline.set_class(not is_shown, "-hidden")
        self._views.set_class(is_shown, "-beside")


def inspector_content(parts: list[str]) -> Content:
    """Return ``erf · aten.erf.default · f32[4, 64] …`` with the first part standing out."""
    if not parts:
        return Content("")
    separator = Content.styled(" · ", "$foreground 30%")
    return separator.join(
        [Content.styled(printable(parts[0]), "bold $foreground"), *(Content(printable(p)) for p in parts[1:])]
    )
