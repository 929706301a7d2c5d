"""This module describes a view as data: a line on what it shows, a notice, and rows that lead
somewhere. It may have a chart above the rows; if the libraries for plots (the extra ``plots``) are
not installed, the view says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.regions.region_nodes import RegionKey
from fx_explorer.drawing.trees import Tree
from fx_explorer.session import SessionReader

if TYPE_CHECKING:
    from fx_explorer.session import SessionReader


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
    "{library} is not installed, which draws this picture. Install it with: pip install "
    "'fx-explorer[plots]'"
)

SVG_SALT = "fx-explorer"
"""Makes the ids in an SVG the same each time, so that equal pictures are equal files."""


Keeps = Literal["start", "end", "name"]
"""The part of a long cell that is shown: its start; its end; or for a name the end, if it is a path
with dots, else both ends with ``…`` in the middle.
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


@runtime_checkable
class ReadWhenShown(Protocol):
    """Rows of a table that are read from the session only when they are shown."""

    def read_by(self, reader: SessionReader) -> Sequence[TableRow]:
        """Return the same rows, read with this reader: another thread needs its own."""


@dataclass(frozen=True, slots=True)
class ViewTable:
    shows: str
    """One line on what the view shows."""
    notice: str
    """An important remark; empty without one."""
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
    only: Sequence[int] | None = None
    """The rows to which it is narrowed; None for all."""
