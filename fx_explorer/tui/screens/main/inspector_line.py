"""The line at the bottom that says what the cursor is on."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from fx_explorer.analysis.documents import Place
from fx_explorer.highlight import printable
from fx_explorer.tui.commands import sentence_of
from fx_explorer.tui.failures import explained
from fx_explorer.tui.panes.linked import LinkedPanes
from fx_explorer.tui.panes.linked_selection import LinkedSelection
from fx_explorer.tui.panes.overview import FactList, leads_to
from fx_explorer.tui.screens.main.views import Views
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.outline import Outline


class InspectorLine(OneLine):
    """Shows ``erf · aten.erf.default · f32[4, 64] …`` of a node, and of other things what is known
    of them.
    """

    DEFAULT_CSS = """
    InspectorLine { background: $surface; color: $text-muted; }
    """

    def tell(
        self,
        place: Place | None,
        outline: Outline,
        views: Views,
        linked: LinkedPanes,
        linked_selection: LinkedSelection,
    ) -> None:
        """Say what the cursor is on. Costs 1 ms, and is painted in the same frame as what lights
        up.
        """
        shown = views.shown
        if outline.has_focus:
            self.show(Content(printable(outline.text)))
        elif isinstance(shown, FactList) and shown.fact:
            lead = leads_to(shown.fact)
            self.show(Content(f"⏎ {lead}" if lead else sentence_of(views.name_shown)))
        elif place and (selection := linked_selection.selected_at(place)):
            with explained(self):
                costs = linked.kernel_marks.words(selection.place)
                from fx_explorer.tui.content import inspect  # not needed for the first paint

                here, *rest = inspect.summary(selection) or [""]
                self.show(inspector_content([here, *([costs] if costs else []), *rest]))
        else:
            self.show(Content(sentence_of(views.name_shown)))


def inspector_content(parts: Sequence[str]) -> Content:
    """Return ``erf · aten.erf.default · f32[4, 64] …`` with the first part standing out."""
    if not parts:
        return Content("")
    separator = Content.styled(" · ", "$foreground 30%")
    return separator.join(
        [
            Content.styled(printable(parts[0]), "bold $foreground"),
            *(Content(printable(p)) for p in parts[1:]),
        ]
    )
