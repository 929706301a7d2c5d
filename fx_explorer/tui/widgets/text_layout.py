"""Texts are laid out on the rows of a pane: indentation folded, long lines and prose wrapped.

Generated code is indented by four cells a level, and a C++ kernel is eight levels deep: in a pane
of 40 cells it would lie right of what is shown. Folded, a level takes two cells, and what all lines
have in common none.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Protocol

from rich.cells import cell_len

from fx_explorer.cut_text import cell_count, cut_cells
from fx_explorer.highlight import TAB_SIZE
from fx_explorer.tui.widgets.line_painter import Piece

CELLS_A_LEVEL = 2

LINES_LOOKED_AT = 5_000
"""Number of lines from which the indentation of a text is determined."""

HANGING_CELLS = 2
"""Additional indentation of a wrapped line after its first row."""

LEAST_CELLS_A_ROW = 12


class LineLayout(Protocol):
    """The layout of a text's lines in a pane. Copying returns the original text."""

    def fitted(self, room: int) -> LineLayout:
        """Return the layout for a pane of this many cells; 0 while it has no width yet."""

    def text(self, text: str) -> str:
        """Return a line as it is shown."""

    def tokens(self, tokens: Sequence[Piece]) -> Sequence[Piece]:
        """Return the tokens of a line as they are shown."""


class Indentation:
    """Shortens the indentation of lines that are shown in a narrow pane."""

    def __init__(self, margin: int = 0, step: int = 0) -> None:
        """``margin``: the cells that all lines have in common, which are left out. ``step``: the
        cells of a level, which are shown as two; 0 leaves them as they are.
        """
        self.margin = margin
        self.step = step

    def shown(self, cells: int) -> int:
        """Return with how many cells a line is shown that begins with ``cells`` of blanks."""
        inner = max(0, cells - self.margin)
        if self.step <= CELLS_A_LEVEL:
            return inner
        return inner // self.step * CELLS_A_LEVEL + min(inner % self.step, CELLS_A_LEVEL)

    def fitted(self, room: int) -> Indentation:
        """Return the same: indentation does not depend on the room."""
        return self

    def text(self, text: str) -> str:
        """Return a line as it is shown."""
        cells = _blanks(text)
        if cells:
            return " " * self.shown(cells) + text[cells:]
        return text

    def tokens(self, tokens: Sequence[Piece]) -> Sequence[Piece]:
        """Return the tokens of a line as they are shown."""
        leading = 0
        for index, (text, kind) in enumerate(tokens):
            blanks = _blanks(text)
            leading += blanks
            if blanks < len(text):
                before = " " * self.shown(leading)
                return [(before + text[blanks:], kind), *tokens[index + 1 :]]
        if leading:
            return [(" " * self.shown(leading), "text")]
        return tokens


AS_IT_IS = Indentation()


def folded(text: str) -> Indentation:
    """Return the indentation with which a text is shown: two cells for each level, and none for the
    common indentation of all lines.

    A level is the step by which lines most often go further to the right. Steps of two cells and
    less stay.
    """
    lines = text.split("\n", LINES_LOOKED_AT)[:LINES_LOOKED_AT]
    cells = [_blanks(line.expandtabs(TAB_SIZE)) for line in lines if line.strip()]
    steps = Counter(after - before for before, after in pairwise(cells) if after > before)
    step = steps.most_common(1)[0][0] if steps else 0
    return Indentation(min(cells, default=0), step)


def _blanks(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


class WrappedRows:
    """The rows that lines take where each is at most ``room`` cells wide."""

    def __init__(self, texts: Iterable[str], room: int) -> None:
        """``texts``: the lines as they are shown."""
        self._cuts: dict[int, Sequence[int]] = {}
        """The cells at which the further rows of a line begin; lines of one row are left out."""
        self._first = array("Q", [0])
        """The first row of each line, and at the end the number of rows."""
        room = max(room, LEAST_CELLS_A_ROW)
        for line, text in enumerate(texts):
            cuts = _cuts(text, room)
            if cuts:
                self._cuts[line] = cuts
            self._first.append(self._first[-1] + 1 + len(cuts))

    def __len__(self) -> int:
        return self._first[-1]

    def line_of(self, row: int) -> int:
        return bisect_right(self._first, row, hi=len(self._first) - 1) - 1

    def rows_of(self, line: int) -> range:
        """Return the rows of a line; for a line that does not exist, the row after the last."""
        if line + 1 >= len(self._first):
            return range(len(self), len(self) + 1)
        return range(self._first[line], self._first[line + 1])

    def part(self, row: int) -> tuple[int, int | None]:
        """Return the cells of its line that a row shows: (start, stop); None is the end."""
        line = self.line_of(row)
        cuts = self._cuts.get(line, ())
        edges = [0, *cuts, None]
        index = row - self._first[line]
        start, stop = edges[index], edges[index + 1]
        return start or 0, stop

    def is_first(self, row: int) -> bool:
        return row == self._first[self.line_of(row)]


def hanging(text: str, room: int) -> int:
    """Return the indentation of the further rows of a wrapped line: a little more than the line's,
    but leaving room for text.
    """
    return min(_blanks(text) + HANGING_CELLS, max(room, LEAST_CELLS_A_ROW) // 2)


def _cuts(text: str, room: int) -> list[int]:
    """Return the cells at which a line continues in another row: after a blank or a comma if there
    is one in the last third, else where the row is full.
    """
    cells = cell_count(text)
    cuts: list[int] = []
    start, at, width = 0, 0, room
    while cells - start > width:
        row = cut_cells(
            text[at : at + width], 0, width
        )  # no more of the text is looked at: a line may be of megabytes
        if cell_len(row[-1:]) == 1 and cell_len(text[at + len(row) - 1]) == 2:
            row = row[:-1]  # half a wide character was made a blank
        gap = max(row.rfind(" "), row.rfind(",")) + 1
        taken = row[:gap] if gap > len(row) * 2 // 3 else row
        start, at = start + cell_len(taken), at + len(taken)
        cuts.append(start)
        width = room - hanging(text, room)
    return cuts


def wrapped(text: str, width: int, first_width: int | None = None) -> list[str]:
    """Wrap words into rows of at most ``width`` cells, the first of at most ``first_width`` where
    something stands beside it. A longer word is split. There is at least one row.
    """
    rows = [""]
    room = first_width or width
    for word in text.split(" "):
        if rows[-1] and cell_len(rows[-1]) + 1 + cell_len(word) > room:
            rows.append("")
            room = width
        rows[-1] = f"{rows[-1]} {word}" if rows[-1] else word
        while cell_len(rows[-1]) > room > 1:
            head = chop(rows[-1], room)
            rows[-1:] = [head, rows[-1][len(head) :]]
            room = width
    return rows


def chop(text: str, width: int) -> str:
    """Return the longest beginning of the text that fits into ``width`` cells."""
    if text.isascii():
        return text[:width]
    cells = accumulate(map(cell_len, text))
    return text[: sum(1 for used in cells if used <= width)]


def wrapped_text(text: str, width: int) -> str:
    """Wrap several paragraphs, each indented under its own beginning (past a bullet)."""
    rows: list[str] = []
    for line in text.split("\n"):
        body = line.lstrip(" •")
        indent = line[: len(line) - len(body)]
        first, *rest = wrapped(body, max(10, width - cell_len(indent)))
        rows += [indent + first, *(" " * cell_len(indent) + row for row in rest)]
    return "\n".join(rows)
