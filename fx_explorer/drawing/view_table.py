"""This module describes a view as data: its answer in one line, a remark, and rows that lead
somewhere. It may have a chart above the rows; if the libraries for plots (the extra ``plots``) are
not installed, the view says so.

Rows may be a tree: a folded one hides its descendants. A tree may have 10,000 rows, all of which
are gone through at each key that folds: that takes 2 ms. Nothing here draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

from fx_explorer.analysis.annotated_regions import RegionKey
from fx_explorer.analysis.documents import Place
from fx_explorer.cut_text import cut_in_middle
from fx_explorer.session import SessionReader

if TYPE_CHECKING:
    from fx_explorer.session import SessionReader


INDENT = "  "
FOLDED, UNFOLDED, LEAF = "▸ ", "▾ ", "  "


@dataclass(frozen=True, slots=True)
class Tree:
    """The nesting of a table's rows. Each row comes before the rows inside it."""

    depths: Sequence[int]
    keys: Sequence[str]
    """Identity of each row, also when the table is made again."""
    names: Sequence[str]
    """Name of each row inside its parent; its first cell has the whole name."""
    folded: frozenset[int]
    """The rows that are folded until the user changes that."""
    totals: Callable[[Sequence[int]], str]
    """Returns the text of the sums over some rows of the same depth."""

    def has_parts(self, at: int) -> bool:
        """Return whether this row contains others."""
        return at + 1 < len(self.depths) and self.depths[at + 1] > self.depths[at]

    def end(self, at: int) -> int:
        """Return the row after the last row inside this one."""
        depth = self.depths[at]
        for following in range(at + 1, len(self.depths)):
            if self.depths[following] <= depth:
                return following
        return len(self.depths)

    def outermost(self, shown: Sequence[int]) -> list[int]:
        """Return the rows of ``shown`` with the least depth."""
        least = min((self.depths[at] for at in shown), default=0)
        return [at for at in shown if self.depths[at] == least]


def in_tree(tree: Tree, order: Sequence[int]) -> list[int]:
    """Return the rows in tree order: each before the rows in it, and siblings in the given
    order.
    """
    around = _rows_around(tree)
    wanted = set(order)
    parts: dict[int, list[int]] = {}
    for at in order:
        outer = around[at] if around[at] in wanted else -1
        parts.setdefault(outer, []).append(at)
    rows: list[int] = []
    pending = list(reversed(parts.get(-1, [])))
    while pending:
        at = pending.pop()
        rows.append(at)
        pending += reversed(parts.get(at, []))
    return rows


def _rows_around(tree: Tree) -> list[int]:
    """Return for each row its parent; -1 for none."""
    around: list[int] = []
    open_rows: list[int] = []
    for at, depth in enumerate(tree.depths):
        while open_rows and tree.depths[open_rows[-1]] >= depth:
            open_rows.pop()
        outer_row = open_rows[-1] if open_rows else -1
        around.append(outer_row)
        open_rows.append(at)
    return around


class Folding:
    """The rows that the user folded and unfolded. It outlives the table, which is made again when
    the session grows.
    """

    def __init__(self) -> None:
        self._wishes: dict[str, bool] = {}

    def is_folded(self, tree: Tree, at: int) -> bool:
        return tree.has_parts(at) and self._wishes.get(tree.keys[at], at in tree.folded)

    def fold(self, tree: Tree, at: int, is_folded: bool) -> None:
        self._wishes[tree.keys[at]] = is_folded

    def reveal(self, tree: Tree, at: int) -> None:
        """Unfold all rows around a row."""
        around = _rows_around(tree)
        outer = around[at]
        while outer >= 0:
            self.fold(tree, outer, is_folded=False)
            outer = around[outer]

    def visible(self, tree: Tree, order: Sequence[int]) -> list[int]:
        """Return the rows that are not inside a folded row, in this order."""
        shown: list[int] = []
        hidden_below: int | None = None
        for at in order:
            depth = tree.depths[at]
            if hidden_below is not None and depth > hidden_below:
                continue
            hidden_below = depth if self.is_folded(tree, at) else None
            shown.append(at)
        return shown

    def name(self, tree: Tree, at: int, least_depth: int) -> str:
        """Return a row's name in the tree: indented, with an arrow where it can be folded."""
        if not tree.has_parts(at):
            arrow = LEAF
        else:
            arrow = FOLDED if self.is_folded(tree, at) else UNFOLDED
        return INDENT * (tree.depths[at] - least_depth) + arrow + tree.names[at]


def row_around(tree: Tree, order: Sequence[int], at: int) -> int:
    """Return the parent of a shown row; the row itself if the parent is not shown."""
    around = _rows_around(tree)[at]
    if around not in order:
        return at
    return around


def folded_to_fit(depths: Sequence[int], always: frozenset[int], rows: int) -> frozenset[int]:
    """Return the rows that are folded at first: those that always are, and all below a depth at
    which about so many rows are shown.
    """
    deepest = max(depths, default=0)
    for depth in range(1, deepest + 1):
        if _count(depths, always | _from_depth(depths, depth)) > rows:
            return always | _from_depth(depths, max(1, depth - 1))
    return always


def _from_depth(depths: Sequence[int], least: int) -> frozenset[int]:
    """Return the rows at this depth and deeper."""
    return frozenset(at for at, depth in enumerate(depths) if depth >= least)


def _count(depths: Sequence[int], folded: frozenset[int]) -> int:
    """Return how many rows are shown."""
    shown, hidden_below = 0, None
    for at, depth in enumerate(depths):
        if hidden_below is not None and depth > hidden_below:
            continue
        hidden_below = depth if at in folded else None
        shown += 1
    return shown


class ChartPiece(NamedTuple):
    """Cells of a chart's row, side by side, that are drawn alike."""

    text: str
    tone: str = ""
    """Its background, a colour of the theme in Textual's notation; empty for none."""
    is_marked: bool = False


class Chart(Protocol):
    """A picture above the rows. Everything is in cells; ``row`` is the row under the cursor."""

    def room(self, screen: int) -> int:
        """Return how many of the rows of the screen it has at most."""

    def height(self, width: int) -> int:
        """Return the number of rows of the whole chart."""

    def rows(self, width: int, height: int, row: int) -> list[list[ChartPiece]]:
        """Return it in so many rows, each ``width`` wide at most."""

    def row_at(self, width: int, height: int, row: int, x: int, y: int) -> int | None:
        """Return the row of the table for a cell; None without one."""


NO_LIBRARY = (
    "This picture needs {library}, which is not installed. Install it with: pip install "
    "'fx-explorer[plots]'"
)

SVG_SALT = "fx-explorer"
"""Makes the ids in an SVG the same each time, so that equal pictures are equal files."""


Keeps = Literal["start", "end", "name", "both"]
"""The part of a long cell that is shown: its start; its end; for a name the end, if it is a path
with dots, else both ends with ``…`` in the middle; or both ends of any cell, more of the second.
"""


@dataclass(frozen=True, slots=True)
class TableColumn:
    title: str
    kind: str = "text"
    """Kind of its cells: a kind of highlight.py or a tone of theme.py."""
    is_number: bool = False
    """Whether its cells are aligned right."""
    is_bar: bool = False
    """Whether its cells are bars, which are sorted by the row's ``values``."""
    bar_of: str = ""
    """Title of the column whose numbers the bars draw. They stay on a narrow screen while the rows
    are sorted by that column.
    """
    min_width: int = 6
    """Smallest width in cells. Below it, a less important column is left out."""
    max_width: int = 44
    priority: int = 0
    """If not all columns fit, those with the highest number are left out first; those with 0 stay.
    """
    keeps: Keeps = "start"
    """Which part of a long cell is shown."""
    total: Callable[[float], str] | None = None
    """Returns the text of the sum of the column's ``values``; None if a sum has no meaning."""
    short: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Text of a cell, or of the title → shorter text, for a screen that is too narrow for all
    columns as they are.
    """


DIRECTION = TableColumn(
    "direction",
    "type",
    min_width=3,
    priority=1,
    short={"direction": "dir", "forward": "fwd", "backward": "bwd", "inference": "inf"},
)
"""The column of the directions of graphs and kernels, where there are several."""


@dataclass(frozen=True, slots=True)
class Detail:
    """The text below the list, about the row under the cursor."""

    text: str
    language: str = "text"


@dataclass(frozen=True, slots=True)
class TableRow:
    cells: tuple[str, ...]
    place: Place | None = None
    """Place that enter leads to; None if the row has no single place."""
    detail: Callable[[], Detail] | None = None
    """Makes the detail when the cursor is on the row; None without one."""
    kind: str = ""
    """Kind of the first cell, where it differs from the column's."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Title of a column → the exact number of the cell, for sorting and sums. A number that is in
    another row already (the sum of a group, a storage that two values share) is left out.
    """
    part: int = 0
    """Rows of different parts in one table stay separate when they are sorted: part 0 before part
    1.
    """
    is_heading: bool = False
    """Whether the row is a heading of those below it. It is left out in any other order."""
    find_place: Callable[[], Place | None] | None = None
    """Looks up ``place``, where a table has too many rows to look up all of them."""
    version: str = ""
    """Name of the row's compilation, such as ``0/1``; empty for none or several."""
    narrows_to: RegionKey | None = None
    """The region to which enter narrows every view, instead of leading to a place; None for most
    rows.
    """
    key: str = ""
    """Identity of the row, also when the table is made again, where something leads to it; empty
    for most rows. Rows of a tree have theirs in the tree.
    """


MOST_NAME_CELLS = 40


def shown_name(name: str) -> str:
    """Return a kernel's name for a sentence: a long one is cut in the middle."""
    return cut_in_middle(name, MOST_NAME_CELLS)


@runtime_checkable
class ReadWhenShown(Protocol):
    """Rows of a table that are read from the session only when they are shown."""

    def read_by(self, reader: SessionReader) -> Sequence[TableRow]:
        """Return the same rows, read with this reader: another thread needs its own."""


@dataclass(frozen=True, slots=True)
class ViewTable:
    shows: str
    """One line on what the view shows, which the help and the facts have."""
    notice: str
    """What is important for reading the rows; empty without anything. Without an ``answer`` its
    first words are the answer.
    """
    origin: str
    """Origin of the data."""
    columns: tuple[TableColumn, ...]
    rows: Sequence[TableRow]
    empty: str
    """Text in place of rows, which says why there are none."""
    chart: Chart | None = None
    """A picture of the rows, shown above them."""
    svg: Callable[[], str] | None = None
    """Draws the picture of the view as SVG, which a key saves; None if the view has no picture.
    Raises UsageError if the library for it is not installed, or if there is nothing to draw.
    """
    opens: Callable[[int], ViewTable | None] | None = None
    """Makes the table of the rows inside a row, which enter opens and escape leaves; returns None
    for a row without any.
    """
    searched: Callable[[str], ViewTable] | None = None
    """Makes the table of the rows with some words, if the search covers more than the cells; None
    otherwise.
    """
    versions: Mapping[str, str] = field(default_factory=dict)
    """Name of a compilation → the function, for functions that were compiled more than once."""
    tree: Tree | None = None
    """The tree of the rows; None if they are not a tree."""
    within: Callable[[SessionReader, RegionKey], Sequence[int] | None] | None = None
    """Returns the rows of a region, ascending; None if rows do not belong to regions."""
    answer: str = ""
    """The answer of the view in one line, such as which kernel is the slowest; empty where the
    ``notice`` begins with it, or where there are no rows.
    """
    only: Sequence[int] | None = None
    """The rows to which it is narrowed; None for all."""
    first: int = 0
    """The row that the cursor is on at first: the one that the ``answer`` names."""

    def row_at(self, place: Place) -> int | None:
        """Return the first row that stands for this place; None without any."""
        return next((at for at, row in enumerate(self.rows) if row.place == place), None)

    def row_with(self, keys: Sequence[str]) -> int | None:
        """Return the row with the first of these keys that the table has; None without any."""
        of_rows = self.tree.keys if self.tree else [row.key for row in self.rows]
        positions = {key: at for at, key in enumerate(of_rows)}
        for key in keys:
            if key in positions:
                return positions[key]
        return None
