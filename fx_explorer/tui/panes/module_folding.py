"""This module folds the graph of a pane by module, and remembers which rows the user has opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.words import counted
from fx_explorer.session import SessionReader
from fx_explorer.tui.content.folded_modules import FoldedModules
from fx_explorer.tui.content.shown_lines import ShownLines
from fx_explorer.tui.panes.titles import GraphWriting

if TYPE_CHECKING:
    from fx_explorer.instruments.profile.figures import GraphTimes

MOST_LINKED = 60
"""Maximum number of nodes of a folded row whose links are shown: 100 take up to 15 ms."""


class ModuleFolding:
    """Decides whether the graphs of a pane are folded by module, and which rows are open."""

    def __init__(self, note: GraphWriting) -> None:
        self._note = note
        self.is_on = False
        self.is_interrupted = False
        """Whether every node is shown for as long as the user searches."""
        self.is_asked = False
        """Whether the user waits for what folding says of the graph."""
        self._reader: SessionReader | None = None
        self._opened: dict[int, FoldedModules] = {}
        """Id of a graph → its rows as they were last."""

    def rows(
        self, reader: SessionReader, document: Document, done: Callable[[], None]
    ) -> FoldedModules | None:
        """Return the rows of a graph; None if it is not folded. A large one is folded in the
        background, and ``done`` is called when its rows are there.
        """
        if not self.is_on or self.is_interrupted or document.kind != "graph":
            return None
        if reader is not self._reader:
            self._reader = reader
            self._opened.clear()
        if document.id in self._opened:
            return self._opened[document.id]
        from fx_explorer.tui.content.folded_rows import folded_if_quick  # not for the first paint

        graph = folded_if_quick(reader, document)
        if graph is None:
            self._note.fold(reader, document, done)
            return None
        return FoldedModules(graph) if graph.has_modules else None

    def remember(self, document: Document, shown: ShownLines) -> None:
        """Remember the rows of a graph as they are now."""
        if isinstance(shown, FoldedModules):
            self._opened[document.id] = shown

    def answer(self, reader: SessionReader, document: Document) -> str:
        """Return what folding says of a graph; empty while it is being folded."""
        # not needed for the first paint, both
        from fx_explorer.instruments.modules.folded_listing import describe_folded
        from fx_explorer.tui.content.folded_rows import folded_if_quick

        graph = folded_if_quick(reader, document)
        return describe_folded(graph) if graph else ""


def describe_row(modules: FoldedModules, row: int, times: GraphTimes | None) -> list[str]:
    """Return the facts of a row that stands for several nodes; empty for any other."""
    # not needed for the first paint
    from fx_explorer.instruments.modules.folded_listing import GraphSeconds, describe_group

    if modules.group(row) is None:
        return []
    seconds = GraphSeconds(times.seconds, times.whole.seconds) if times else None
    facts = describe_group(modules.graph, modules.shown_rows[row], seconds)
    if len(modules.lines_below(row)) > MOST_LINKED:
        facts.append(f"links of its first {MOST_LINKED} operations")
    return facts


def describe_rows(modules: FoldedModules) -> str:
    """Return ``427 nodes by module``, for the title."""
    return f"{counted(len(modules.graph.positions), 'node')} by module"


def linked_lines_below(modules: FoldedModules, row: int) -> list[int]:
    """Return the nodes whose links are shown for a row: those below it, of many the first from its
    first operation on.
    """
    lines = modules.lines_below(row)
    if len(lines) <= MOST_LINKED:
        return list(lines)
    begins = lines.index(modules.line_of(row))
    return list(lines[begins : begins + MOST_LINKED])
