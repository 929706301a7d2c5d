"""This module decides which lines of a document a pane shows: all, or only some of them: of a graph
those of one region, or its inputs as one row; beside a stage, runs of operations that it left as
they were as one row each; of a level below a kernel its code, with runs of directives as one row
each.

A *line* is a line of the document, as places, links and the other panes mean it; a *row* is where
the pane shows it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from fx_explorer.analysis.annotated_regions import RegionKey, positions_in
from fx_explorer.analysis.documents import Document, text_of
from fx_explorer.model import LEVELS, Graph
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graphs import leading_placeholders

if TYPE_CHECKING:
    from fx_explorer.analysis.stage_data import Fate
    from fx_explorer.instruments.profile.figures import GraphTimes


class ShownLines:
    """Turns lines into rows and back."""

    def __init__(self, lines: Sequence[int] | None = None) -> None:
        """``lines`` are the lines to show, ascending; None shows all."""
        self.lines = lines
        self._rows = {line: row for row, line in enumerate(lines or ())}

    def line_of(self, row: int) -> int:
        return row if self.lines is None else self.lines[row]

    def row_of(self, line: int) -> int:
        """Return the row of a line; for a hidden line, the row of the next shown one, or the last
        row.
        """
        if self.lines is None:
            return line
        return max(0, min(bisect_left(self.lines, line), len(self.lines) - 1))

    def shown(self, lines: frozenset[int]) -> frozenset[int]:
        """Return the given lines without those that are hidden."""
        if self.lines is None:
            return lines
        return frozenset(line for line in lines if line in self._rows)

    def rows_of(self, lines: frozenset[int]) -> frozenset[int]:
        if self.lines is None:
            return lines
        return frozenset(self._rows[line] for line in self.shown(lines))

    # what is folded to a row, which Enter opens

    def is_fold(self, row: int) -> bool:
        """Return whether a row stands for several lines."""
        return False

    def folds(self, line: int) -> bool:
        """Return whether a line is hidden in a folded row, which must be opened to show it."""
        return False

    def unfolded(self) -> ShownLines:
        """Return these lines with every folded line shown."""
        return self

    def toggled(self, row: int) -> ShownLines:
        """Return these lines with a folded row opened."""
        return self.unfolded()

    def opened_at(self, line: int) -> ShownLines:
        """Return these lines with the row opened in which a line is hidden."""
        return self.unfolded() if self.folds(line) else self

    def lines_below(self, row: int) -> Sequence[int]:
        """Return the lines that a row stands for."""
        return [self.line_of(row)]


EVERY_LINE = ShownLines()


class FoldedInputs(ShownLines):
    """Shows the first ``count`` lines of a graph, its inputs, as one row."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def line_of(self, row: int) -> int:
        return row + self.count - 1 if row else 0

    def row_of(self, line: int) -> int:
        return max(0, line - self.count + 1)

    def rows_of(self, lines: frozenset[int]) -> frozenset[int]:
        return frozenset(map(self.row_of, lines))

    def is_fold(self, row: int) -> bool:
        return row == 0

    def folds(self, line: int) -> bool:
        return 0 < line < self.count

    def unfolded(self) -> ShownLines:
        return EVERY_LINE


class FoldedRuns(ShownLines):
    """Shows runs of lines as one row each: directives of assembly, operations that a stage left as
    they were.
    """

    def __init__(self, every: Sequence[int], runs: Sequence[tuple[int, int, str]]) -> None:
        """``every``: the lines that are shown when all is open. ``runs``: (start, end, text) of
        each, as places among them.
        """
        hidden: set[int] = set()
        for start, end, _ in runs:
            hidden.update(range(start + 1, end))
        super().__init__([line for at, line in enumerate(every) if at not in hidden])
        self._every = every
        self.words: Mapping[int, str] = {
            self.row_of(every[start]): words for start, _, words in runs
        }
        """Row of a run → its text."""

    def is_fold(self, row: int) -> bool:
        return row in self.words

    def folds(self, line: int) -> bool:
        is_code = bisect_left(self._every, line) < bisect_right(self._every, line)
        return is_code and line not in self._rows

    def unfolded(self) -> ShownLines:
        return ShownLines(self._every)


class SortedLines(ShownLines):
    """Shows lines in another order than the document's."""

    def __init__(self, lines: Sequence[int]) -> None:
        super().__init__(lines)

    def row_of(self, line: int) -> int:
        """Return the row of a line; the first row for a hidden one."""
        return self._rows.get(line, 0)


def most_expensive_first(lines: Sequence[int], times: GraphTimes) -> list[int]:
    """Return lines of a graph by the time of their node, the most expensive first. Lines with the
    same time, and those without one at the end, keep the graph's order.
    """
    return sorted(lines, key=times.seconds.__getitem__, reverse=True)


FEWEST_FOLDED = 6
"""Minimum number of inputs that are folded. Fewer do not hide the first operation in a small
pane.
"""


def folded_inputs(reader: SessionReader, document: Document) -> ShownLines:
    """Return the lines of a graph with its inputs folded, if it has many."""
    count = leading_placeholders(reader, reader.get(Graph, document.id))
    if count >= FEWEST_FOLDED:
        return FoldedInputs(count)
    return EVERY_LINE


FEWEST_UNCHANGED = 4
"""Minimum number of neighbouring operations that a stage left as they were to be folded."""


def folded_unchanged(
    reader: SessionReader, document: Document, fates: Mapping[int, Fate]
) -> ShownLines:
    """Return the lines of a graph beside a stage: its inputs are folded, and each run of operations
    that the stage left as they were.
    """
    graph = reader.get(Graph, document.id)
    inputs = leading_placeholders(reader, graph)
    runs = [(0, inputs, f"{inputs} inputs")] if inputs >= FEWEST_FOLDED else []
    start = inputs
    for line in range(inputs, graph.node_count + 1):
        if fates.get(graph.first_node + line) == "kept" and line < graph.node_count:
            continue
        if line - start >= FEWEST_UNCHANGED:
            runs.append((start, line, f"{line - start:,} kept"))
        start = line + 1
    if runs:
        return FoldedRuns(range(graph.node_count), runs)
    return EVERY_LINE


def lines_in(
    reader: SessionReader,
    document: Document,
    region: RegionKey | None,
    fates: Mapping[int, Fate] | None = None,
) -> ShownLines:
    """Return the lines of a document that a pane shows while it is narrowed to ``region``, or
    compares what a stage did to operations (``fates``).
    """
    if document.language in LEVELS and document.stage != "backend":
        return _lines_of_code(document.language, text_of(reader, document))
    if document.kind != "graph":
        return EVERY_LINE
    if region is None and fates is not None:
        return folded_unchanged(reader, document, fates)
    if region is None:
        return folded_inputs(reader, document)
    return ShownLines(positions_in(reader, document, region))


FOLDED_SIGN = "▸"


def _lines_of_code(language: str, text: str) -> ShownLines:
    # not needed for the first paint
    from fx_explorer.instruments.kernels.assembly_text import code_lines, runs

    level = next(name for name in LEVELS if name == language)
    code = code_lines(level, text)
    every = text.split("\n")
    directives = runs(level, [every[line] for line in code])
    if directives:
        return FoldedRuns(code, directives)
    return ShownLines(code)


def code_of(level: str, text: str, shown: ShownLines) -> str:
    """Return the shown lines of a level, in as little room as they need."""
    from fx_explorer.instruments.kernels.assembly_text import without_margin

    every = text.split("\n")
    folded = shown.words if isinstance(shown, FoldedRuns) else {}
    lines = [every[line] for line in shown.lines or ()]
    for row, words in folded.items():
        lines[row] = f"{FOLDED_SIGN} {words}  ⏎ shows them"
    if level == "sass":
        return without_margin("sass", "\n".join(lines))
    return "\n".join(lines)


EVENT_GLYPHS: dict[Literal["graph break", "recompile"], tuple[str, str]] = {
    "graph break": ("✗", "bad"),
    "recompile": ("↻", "warning"),
}
