"""This module finds what the cursor of the main screen is on: a place, a break, a region or a
configuration, in any focused widget; the line at the bottom describes it.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from fx_explorer.analysis.annotated_regions import RegionKey, regions, regions_at
from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.kernel_documents import builds_here
from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader
from fx_explorer.tui.commands import OF_A_PLACE, OF_TRITON, sentence_of
from fx_explorer.tui.failures import explained
from fx_explorer.tui.panes.first_page import FirstPage
from fx_explorer.tui.panes.linked_panes import LinkedPanes
from fx_explorer.tui.panes.linked_selection import LinkedSelection
from fx_explorer.tui.panes.overview_pane import FactList, leads_to
from fx_explorer.tui.panes.pane import Pane
from fx_explorer.tui.panes.table_pane import TablePane
from fx_explorer.tui.screens.views import Views
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.outline_tree import Outline


class Cursor:
    """Finds what the cursor of the main screen is on: a place, a break, a region or a
    configuration.
    """

    def __init__(
        self,
        outline: Outline,
        views: Views,
        facts: FactList,
        linked: LinkedPanes,
        linked_selection: LinkedSelection,
    ) -> None:
        self._outline = outline
        self._views = views
        self._facts = facts
        self._linked = linked
        self._linked_selection = linked_selection

    @property
    def place(self) -> Place | None:
        """Return the place under the cursor of the focused widget."""
        if self._outline.has_focus:
            return self._outline.place
        shown = self._views.shown
        if isinstance(shown, FirstPage):
            if shown.source.body.has_focus:
                return shown.source.place
            return self._facts.fact.place if self._facts.fact else None
        if isinstance(shown, TablePane):
            return shown.place
        if self._linked.active:
            return self._linked.active.place
        return None

    @property
    def place_or_selection(self) -> Place | None:
        """Return the place under the cursor; without one, the selection in the linked panes."""
        return self.place or self._linked_selection.selection

    @property
    def compilation(self) -> int:
        """Return the id of the compilation under the cursor; 0 without one."""
        if self._outline.has_focus:
            return self._outline.compilation
        place = self.place
        compilation = place.document.compilation if place else 0
        return compilation or self._linked_selection.compilation

    @property
    def pane(self) -> Pane | None:
        """Return the linked pane that receives keys; None in another view."""
        if self._views.name_shown == "source":
            return self._linked.active
        return None

    @property
    def part(self) -> str:
        """Return the part of the linked panes that has its own keys and help: ``neighbourhood`` if
        it has the focus, ``below`` if levels below a kernel are shown; else empty.
        """
        if self.pane is None:
            return ""
        if self.pane.picture:
            return "neighbourhood"
        return "below" if self._linked.shows_levels else ""

    @property
    def selected_lines(self) -> list[int]:
        """Return the lines that are selected with the mouse in the document of ``place``."""
        if self.pane and not self._outline.has_focus:
            return self.pane.selected
        return []

    def regions(self, reader: SessionReader) -> list[RegionKey]:
        """Return the regions that the row or node under the cursor belongs to."""
        table = self._views.table
        if self._views.name_shown == "regions" and table and not self._outline.has_focus:
            return [(region.key, region.value) for region in regions(reader)[table.position :][:1]]
        if self.place:
            return regions_at(reader, self.place)
        return []

    def row_of_breaks(self) -> int:
        """Return the row that the cursor is on in the list of breaks."""
        table = self._views.table_of("breaks")
        return table.position if table else 0

    @property
    def place_of_shown_break(self) -> Place | None:
        """Return the line of the break under the overview's cursor; None in another view, and on
        another fact.
        """
        on_it = (
            self._views.name_shown == "overview" and self._facts.is_on_a_break and self._facts.fact
        )
        return on_it.place if on_it else None

    def candidate(self, reader: SessionReader) -> int | None:
        """Return the configuration that the cursor is on, in the view of configurations."""
        table = self._views.table
        if self._views.name_shown != "candidates" or not table or self._outline.has_focus:
            return None
        kernel = self._linked_selection.levels.listed
        rows = builds_here(reader, kernel) if kernel else []
        if table.position < len(rows):
            return rows[table.position].position
        return None

    def idle_commands(self) -> tuple[str, ...]:
        """Return the view's commands that do nothing for the row under the cursor."""
        view, place = self._views.name_shown, self.place
        if view == "overview":
            if self._facts.is_on_a_break:
                return ()
            return ("breaks.fix",)
        if view not in ("breaks", "guards", "kernels", "sizes"):
            return ()
        if place is None:
            return (*OF_A_PLACE, "line.follow")
        if view == "kernels":
            kernel = self._linked_selection.kernel_at(place)
        else:
            kernel = None
        if kernel and kernel.language != "triton":
            return OF_TRITON
        return ()


class InspectorLine(OneLine):
    """Shows the selection in one line: ``erf · aten.erf.default · f32[4, 64] …`` for a node."""

    DEFAULT_CSS = """
    InspectorLine { background: $surface; color: $text-muted; }
    """

    def show_cursor(
        self,
        place: Place | None,
        outline: Outline,
        views: Views,
        linked: LinkedPanes,
        linked_selection: LinkedSelection,
    ) -> None:
        """Describe what the cursor is on. It takes 1 ms, and is painted in the same frame as the
        highlights.
        """
        shown = views.shown
        if outline.has_focus:
            self.show(Content(printable(outline.text)))
        elif isinstance(shown, FirstPage) and shown.facts.fact:
            lead = leads_to(shown.facts.fact)
            sentence = f"⏎ {lead}" if lead else sentence_of(views.name_shown)
            self.show(Content(sentence))
        elif place and (selection := linked_selection.selected_at(place)):
            with explained(self):
                costs = linked.kernel_marks.words(selection.place)
                from fx_explorer.tui.content.place_summary import (
                    summary,  # not needed for the first paint
                )

                here, *facts = summary(selection) or [""]
                active = linked.active
                change = active.change if active else ""
                facts = [*filter(None, (change, costs)), *facts]
                self.show(inspector_content([here, *facts]))
        else:
            self.show(Content(sentence_of(views.name_shown)))


def inspector_content(parts: Sequence[str]) -> Content:
    """Return ``erf · aten.erf.default · f32[4, 64] …`` with the first part standing out."""
    if not parts:
        return Content("")
    separator = Content.styled(" · ", "$text-disabled")
    return separator.join(
        [
            Content.styled(printable(parts[0]), "bold $foreground"),
            *(Content(printable(p)) for p in parts[1:]),
        ]
    )
