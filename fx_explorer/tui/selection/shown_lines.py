"""Which lines of a document a pane shows: all; of a graph those of one region, or its inputs as one
row; of a level below a kernel its code.

A *line* is a line of the document, as places, links and the other panes mean it; a *row* is where
the pane shows it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from fx_explorer.analysis.documents import Document, text_of
from fx_explorer.analysis.regions.region_nodes import RegionKey, positions_in
from fx_explorer.model import LEVELS, Graph
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graphs import leading_placeholders


class ShownLines:
    """Turns lines into rows and back."""

    def __init__(self, lines: Sequence[int] | None = None) -> None:
        """``lines`` are those that are shown, ascending; None shows all."""
        self.lines = lines
        self._rows = {line: row for row, line in enumerate(lines or ())}

    def line_of(self, row: int) -> int:
        return row if self.lines is None else self.lines[row]

    def row_of(self, line: int) -> int:
        """Return where a line is shown; for a hidden one, where the next shown one is, or the
        last.
        """
        if self.lines is None:
            return line
        return max(0, min(bisect_left(self.lines, line), len(self.lines) - 1))

    def shown(self, lines: frozenset[int]) -> frozenset[int]:
        """Return those of the lines that are shown."""
        return lines if self.lines is None else frozenset(line for line in lines if line in self._rows)

    def rows_of(self, lines: frozenset[int]) -> frozenset[int]:
        return lines if self.lines is None else frozenset(self._rows[line] for line in self.shown(lines))


EVERY_LINE = ShownLines()


class FoldedInputs(ShownLines):
    """Shows the first ``count`` lines, which are the inputs of a graph, as one row."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def line_of(self, row: int) -> int:
        return row + self.count - 1 if row else 0

    def row_of(self, line: int) -> int:
        return max(0, line - self.count + 1)

    def rows_of(self, lines: frozenset[int]) -> frozenset[int]:
        return frozenset(map(self.row_of, lines))


FEWEST_FOLDED = 6
"""So many inputs hide the first operation in a small pane. Fewer are worth seeing."""


def folded_inputs(reader: SessionReader, document: Document) -> ShownLines:
    """Return the lines of a graph with its inputs folded, where there are many."""
    count = leading_placeholders(reader, reader.get(Graph, document.id))
    return FoldedInputs(count) if count >= FEWEST_FOLDED else EVERY_LINE


def lines_in(reader: SessionReader, document: Document, region: RegionKey | None) -> ShownLines:
    """Return what a pane shows of a document while it is narrowed to ``region``."""
    if document.language in LEVELS and document.stage != "backend":
        return ShownLines(_lines_of_code(document.language, text_of(reader, document)))
    if document.kind != "graph":
        return EVERY_LINE
    if region is None:
        return folded_inputs(reader, document)
    return ShownLines(positions_in(reader, document, region))


def _lines_of_code(level: str, text: str) -> list[int]:
    from fx_explorer.analysis.kernel_ir.code_lines import code_lines  # not needed for the first paint

    return next((code_lines(one, text) for one in LEVELS if one == level), [])


def code_of(level: str, text: str, lines: Sequence[int]) -> str:
    """Return these lines of a level, in as little room as they need."""
    from fx_explorer.analysis.kernel_ir.code_lines import without_margin

    every = text.split("\n")
    shown = "\n".join(every[line] for line in lines)
    return without_margin("sass", shown) if level == "sass" else shown
