"""This module is the main screen: header, pipeline bar, outline, one of the views, inspector line
and footer.

Every selection goes through it: panes and lists tell it, and it tells the linked selection, the
inspector line and the history. What the user can ask of what is on it are controllers
(``controllers/``); capturing is the app's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.screen import Screen

from fx_explorer.analysis.annotated_regions import RegionKey
from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.facts import Fact, Topic
from fx_explorer.analysis.stage_data import EXPLAINED, StageWork
from fx_explorer.analysis.stage_work import work_in_use
from fx_explorer.drawing.view_table import ViewTable
from fx_explorer.overview.own_file import OwnPlace
from fx_explorer.session import SessionReader
from fx_explorer.tui.availability import absent_commands
from fx_explorer.tui.commands import Keymap, by_id
from fx_explorer.tui.content.destinations import RowOfView, Stop, StopHistory
from fx_explorer.tui.content.live import Waiting
from fx_explorer.tui.conversation import BelowWanted, DifferenceWanted, TurnLock, ViewShown, in_turn
from fx_explorer.tui.failures import TellsUnreadable, explained
from fx_explorer.tui.keys import bindings_of, first_key
from fx_explorer.tui.panes.first_page import FirstPage
from fx_explorer.tui.panes.linked_panes import LinkedPanes
from fx_explorer.tui.panes.linked_selection import LinkedSelection
from fx_explorer.tui.panes.overview_pane import FactList, OverviewFacts
from fx_explorer.tui.panes.pane import Pane
from fx_explorer.tui.panes.table_pane import TablePane
from fx_explorer.tui.panes.titles import OldFiles, StageText
from fx_explorer.tui.screens.header import HeaderLine
from fx_explorer.tui.screens.pipeline_bar import STEPS, PipelineBar, StepState
from fx_explorer.tui.screens.views import Cursor, InspectorLine, OutlineSide, Views
from fx_explorer.tui.terminal.frame_bytes import FrameCompositor
from fx_explorer.tui.widgets.footer import FindBar, FooterLine
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.outline_tree import Outline
from fx_explorer.tui.widgets.pane_border import Separator

if TYPE_CHECKING:
    from fx_explorer.tui.screens.help import Topic as HelpTopic

FEW_ROWS = 10
"""Minimum number of rows of a normal screen. With fewer rows, the screen shows the header, one row
of keys, and the view without its headings.
"""

NARROWED = (
    "Every view shows only {name} now: kernels (6), breaks (4), saved tensors (7), graphs "
    "(2, 3). Escape shows all."
)


class Explorer(TellsUnreadable, Screen[None]):
    """Shows one session, live or saved."""

    DEFAULT_CSS = """
    Explorer > #body { height: 1fr; visibility: hidden; }
    Explorer > #body > * { visibility: visible; }
    Explorer Outline.-hidden { display: none; }
    Explorer { overflow: hidden; }
    Explorer.-few-rows > PipelineBar, Explorer.-few-rows > Separator { display: none; }
    Explorer.-few-rows > InspectorLine, Explorer.-few-rows TablePane > TableNotes { display: none; }
    Explorer.-few-rows .pane-title, Explorer.-few-rows .pane-tabs { display: none; }
    Explorer.-few-rows TablePane > .totals, Explorer.-few-rows TablePane > .detail {
        height: 0; border: none;
    }
    """
    AUTO_FOCUS = ""
    BINDINGS = bindings_of("explorer")

    # Textual paints every container under a line that changed. What its children cover anyway is
    # not painted at all, or plain.
    BLANK = True

    def __init__(self, keymap: Keymap) -> None:
        super().__init__()
        self._compositor = FrameCompositor()
        self.keymap = keymap
        self.reader: SessionReader | None = None
        self.history: StopHistory[Stop] = StopHistory()
        self.turn = TurnLock(self)
        self.outline = Outline()
        self.facts = FactList(
            first_key(by_id("breaks.fix"), keymap), first_key(by_id("remedies.try"), keymap)
        )
        self.linked = LinkedPanes()
        self.linked_selection = LinkedSelection(self.linked)
        self.find_bar = FindBar(keymap)
        self.views = Views(self.facts, self.linked, self._candidates_table)
        self.cursor = Cursor(
            self.outline, self.views, self.facts, self.linked, self.linked_selection
        )
        self.outline_side = OutlineSide(self.outline, self.views)
        self._overview = OverviewFacts(
            self.facts, keymap, self._show_own_file, self._overview_changed
        )
        self.header = HeaderLine()
        self.pipeline = PipelineBar()
        self._inspector = InspectorLine()
        self.footer = FooterLine(keymap)
        self.old = OldFiles()
        """Which files have changed since they were captured."""
        self.is_saved = False
        """Whether the session has no worker, as a saved one."""
        self._progress = ""
        """Progress of compiling a kernel's configurations, in words."""

    def compose(self) -> ComposeResult:
        yield self.header
        yield self.pipeline
        with Horizontal(id="body"):
            yield self.outline
            yield self.views
        yield self.footer
        yield self.find_bar
        yield Separator()
        yield self._inspector

    async def on_mount(self) -> None:
        self.header.begin()
        self.pipeline.show([StepState(step.name, "waiting") for step in STEPS])
        await self.show_view("overview")

    # what is asked most: the view on screen, and the cursor in it

    @property
    def view(self) -> str:
        """Return the name of the view on screen."""
        return self.views.name_shown

    @property
    def table(self) -> TablePane | None:
        """Return the table on screen; None in a view without one."""
        return self.views.table

    @property
    def place(self) -> Place | None:
        """Return the place under the cursor of the focused widget."""
        return self.cursor.place

    # the session

    def open(self, reader: SessionReader) -> None:
        """Show another session, at the same place if it has that."""
        old, self.reader = self.reader, reader
        self.outline_side.forget()
        self._overview.forget()
        self.views.forget()
        self.old = OldFiles()
        self.views.show_old(self.old)
        with explained(self):
            self.linked_selection.open(reader)
        self.refresh_session()
        if old is not None:
            self.history = StopHistory()
            old.close()

    def refresh_session(self) -> None:
        """Refresh the screen, because the session has grown or is another one."""
        if self.reader is None:
            return
        with explained(self):
            self.outline_side.renew(self.reader)
            self.linked_selection.refresh()
        self.refresh_view()

    def refresh_view(self) -> None:
        """Refresh the view, and the description of the cursor's place."""
        if self.reader is not None:
            with explained(self):
                if self.view == "overview":
                    self._overview.renew(self.reader)
                elif self.table:
                    self.table.show_only(self.linked_selection.region)
                    self.table.refresh_from(self.reader)
        self.show_inspector()

    def _show_own_file(self, own: OwnPlace | None) -> None:
        with explained(self):
            self.views.page.show_source(self.reader, own)

    def _overview_changed(self) -> None:
        if self.view == "overview":
            self.show_inspector()

    # what the app tells of the capture

    def show_waiting(self, waiting: Waiting | None) -> None:
        """Show where the compiler waits for the user."""
        if waiting != self._overview.waiting:
            self._overview.waiting = waiting
            if waiting is None or waiting.gate is None:
                self.linked.stage_words.forget_key()
            if self.view == "overview":
                self.refresh_view()

    def show_of_app(self, topic: Topic, facts: Sequence[Fact]) -> None:
        """Show facts on the overview that no session knows."""
        self.facts.show_of_app(topic, facts)
        self._overview_changed()

    def show_old(self, old: OldFiles, remedy: str) -> None:
        """Mark the files that have changed since the capture. ``remedy`` says what the user
        can do.
        """
        self.old = old
        self.show_of_app("old", old.fact(remedy))
        self.views.show_old(old)

    def show_progress(self, words: str) -> None:
        """Show how far compiling the configurations is."""
        self._progress = words
        if self.view == "candidates":
            self.refresh_view()

    def _candidates_table(self, reader: SessionReader) -> ViewTable:
        """Make the table of configurations of the kernel that was asked for."""
        from fx_explorer.instruments.kernels.candidates_view import (
            candidates_table,  # not needed for the first paint
        )

        return candidates_table(reader, self.linked_selection.levels.listed, self._progress)

    # where the user goes

    @in_turn
    async def show_view(self, name: str) -> None:
        """Bring a view to the front and focus it."""
        widget = await self.views.mount_view(name)
        if name != self.view:
            self.views.stop_reading()
        self.views.name_shown = name
        widget.display = True
        if name == "source" and not self.linked.panes:
            await self.linked_selection.show_preset("source")
        # Before the others are hidden: when the focused widget disappears, Textual looks for
        # another by itself.
        self.set_focus(self.views.body, scroll_visible=False)
        self.views.hide_others()
        if name == "source" and self.linked.active:
            # Textual leaves the title of a pane that is mounted just now as it was before the
            # focus.
            self.app.stylesheet.update_nodes(self.linked.active.walk_children(with_self=True))
        if self.table:
            self.table.resume()
        self.footer.show_view(name)
        self.show_outline()
        self.refresh_view()

    @in_turn
    async def action_show_view(self, name: str) -> None:
        """Show the view that the user asked for, and remember where we were."""
        self.remember()
        line = self.stop().place if self.view == "source" else None
        if name == "source":
            await self.views.mount_view(name)
            with explained(self):
                await self.linked_selection.show_own_file()
        await self.show_view(name)
        if name == "trace" and self.table and line:
            self.table.go_to_place(line)  # what Dynamo did at this line
        self.remember()
        self.post_message(ViewShown(name))

    @in_turn
    async def go(self, place: Place, version: str = "") -> None:
        """Show a place in the linked panes, and remember where we were. ``version`` is the name of
        the compilation that it is meant of, such as ``0/1``: several may have the line.
        """
        self.remember()
        await self.show_view("source")
        pane = await self.linked_selection.go(place, version=version)
        if pane:
            self.linked.activate(pane)
        self.remember()
        self.show_inspector()

    @in_turn
    async def show_row(self, row: RowOfView) -> None:
        """Show a view with the cursor at one of its rows, and remember where we were. A region that
        hides the row is left.
        """
        self.remember()
        await self.show_view(row.view)
        if self.table:
            self.table.go_to(row.keys)
            if self.table.hides(row.keys) and self.linked_selection.region:
                self.narrow(None)
        self.remember()
        self.show_inspector()

    @in_turn
    async def show_stage(self, works: Sequence[StageWork], next_key: str = "") -> None:
        """Show the documents before and after the last of these stages side by side. ``next_key``
        is the key that continues, if something is paused.
        """
        self.remember()
        await self.show_view("source")
        with explained(self):
            await self.linked_selection.show_stage(works[-1])
        last = works[-1].point
        self.linked.stage_words.show(
            StageText([work.sentence for work in works], EXPLAINED[last.key], next_key)
        )
        self.show_outline()
        if self.linked.panes:
            self.linked.activate(self.linked.panes[0])
        self.show_inspector()
        self.remember()

    def stop(self) -> Stop:
        """Return where the user is, for the history."""
        pane = self.cursor.pane
        place = pane.place if pane else None
        return Stop(self.view, place)

    def remember(self) -> None:
        self.history.go(self.stop())

    def narrow(self, region: RegionKey | None) -> None:
        """Narrow every view to a region or a module; None shows everything again."""
        self.linked_selection.narrow(region)
        self.refresh_view()
        if region:
            self.notify(NARROWED.format(name=region[1]))

    # what the panes and lists tell

    @on(Pane.Moved)
    def pane_moved(self, event: Pane.Moved) -> None:
        if self.reader is None:
            return
        with self.reader.snapshot():
            with explained(self):
                self.linked_selection.user_selected(event.place, event.pane)
            self.linked.refresh_tabs()
            self.show_inspector()

    @on(Pane.Walked)
    def walked(self, event: Pane.Walked) -> None:
        """Follow the user's move to another node in the neighbourhood, so that going back leads to
        the node before.
        """
        self.history.amend(Stop(self.view, event.before))
        self.pane_moved(event)
        self.remember()

    @on(TablePane.Followed)
    async def row_followed(self, event: TablePane.Followed) -> None:
        if self.view == "candidates":
            self.app.post_message(BelowWanted())
        elif self.view == "stages" and self.reader and self.table:
            with explained(self):
                work = await asyncio.to_thread(work_in_use, self.reader.path, self.table.position)
                await self.show_stage([work])
        elif (
            self.table
            and self.table.narrows_to
            and self.table.narrows_to != self.linked_selection.region
        ):
            self.narrow(self.table.narrows_to)
        elif event.place:
            await self.go(event.place, self.table.version if self.table else "")
        elif not (self.table and self.table.fold_here()):
            self.notify("This row has no single place in the code.")

    @on(FirstPage.Followed)
    async def own_line_followed(self, event: FirstPage.Followed) -> None:
        await self.go(event.place)

    @on(Outline.Chosen)
    async def outline_chosen(self, event: Outline.Chosen) -> None:
        await self.go(event.place)

    @on(LineView.Followed)
    async def fact_followed(self) -> None:
        fact = self.facts.fact
        if fact and fact.difference:
            self.post_message(DifferenceWanted(fact.difference))
        elif fact and fact.place:
            await self.go(fact.place, fact.version)
        elif fact and fact.view:
            self.remember()
            await self.show_view(fact.view)
            self.remember()

    @on(LineView.Found)
    def count_matches(self, event: LineView.Found) -> None:
        self.find_bar.show_count(event)

    @on(TablePane.Moved)
    @on(LineView.Moved)
    def cursor_moved(self) -> None:
        """Update after the cursor moved in a table, the overview or the outline. Panes report for
        themselves.
        """
        if self.reader is None:
            self.show_inspector()
            return
        with self.reader.snapshot():
            self.show_inspector()

    def show_inspector(self) -> None:
        """Describe what the cursor is on, and the keys for it."""
        if self.header.only != self.linked_selection.region:
            self.header.narrow(self.linked_selection.region)
        absent = self.absent_commands()
        self.footer.show_view(self.view, (*self.cursor.idle_commands(), *absent), self.cursor.part)
        if self.reader is not None:
            self._inspector.show_cursor(
                self.place, self.outline, self.views, self.linked, self.linked_selection
            )

    def absent_commands(self) -> tuple[str, ...]:
        """Return the commands that footer and help leave out."""
        if self.reader is None:
            return ()
        return absent_commands(self.reader, is_saved=self.is_saved)

    def help_topic(self) -> HelpTopic:
        """Return the topic that help is about right now."""
        from fx_explorer.tui.screens.help import topic_of  # not needed for the first paint

        if self.outline.has_focus:
            return topic_of("outline")
        topic = topic_of(self.cursor.part or self.view)
        if self.views.table and not self.cursor.part:
            return topic.with_view(self.views.table.description)
        return topic

    # size

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < FEW_ROWS, "-few-rows")
        self.show_outline()

    @on(Views.EdgeDragged, "#views")
    def outline_dragged(self, event: Views.EdgeDragged) -> None:
        self.outline_side.drag_border(event.cell, self.size.width)

    def show_outline(self) -> None:
        """Show the outline where the view leaves it room, unless the user has asked otherwise."""
        self.outline_side.show_where_asked()
