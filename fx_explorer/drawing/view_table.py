"""A view is data: a line saying what it shows, a line saying what is worth noticing, and rows that
lead somewhere. A chart may stand above its rows; where the libraries that draw plots (the extra
``plots``) are not installed, the view says so.
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
    """Its background, a colour of the theme as Textual writes it; empty for none."""
    is_marked: bool = False


class Chart(Protocol):
    """A picture above the rows. Everything is in cells; ``row`` is the row under the cursor."""

    def room(self, screen: int) -> int:
        """Return how many of the rows of the screen it has at most."""

    def height(self, width: int) -> int:
        """Return how many rows all of it takes."""

    def rows(self, width: int, height: int, row: int) -> list[list[ChartPiece]]:
        """Return it in so many rows, each ``width`` wide at most."""

    def row_at(self, width: int, height: int, row: int, x: int, y: int) -> int | None:
        """Return the row of the table that a cell stands for; None where it stands for none."""


NO_LIBRARY = (
    "{library} is not installed, which draws this picture. Install it with: pip install "
    "'fx-explorer[plots]'"
)

SVG_SALT = "fx-explorer"
"""Makes the ids in an SVG the same each time, so that equal pictures are equal files."""


Keeps = Literal["start", "end", "name"]
"""What of a long cell is shown: its start; its end; or of a name the end, if it is a path with
dots, else both ends with ``…`` in the middle.
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
    """Least width in cells. Below it, a less important column is left out."""
    max_width: int = 44
    priority: int = 0
    """Where there is no room for all, columns with the highest number go first; those with 0
    stay.
    """
    keeps: Keeps = "start"
    """Which part of a long cell is shown."""
    total: Callable[[float], str] | None = None
    """Writes the sum of the column's ``values``; None where a sum has no meaning."""


@dataclass(frozen=True, slots=True)
class Detail:
    """The text below the list, about the row under the cursor."""

    text: str
    language: str = "text"


@dataclass(frozen=True, slots=True)
class TableRow:
    cells: tuple[str, ...]
    place: Place | None = None
    """Where enter goes; None when the row stands for no one place."""
    detail: Callable[[], Detail] | None = None
    """Makes the detail when the cursor comes to the row; None when nothing more is known."""
    kind: str = ""
    """Kind of the first cell, where it differs from the column's."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Title of a column → the exact number behind the cell, for order and sums. What is a number in
    another row already (the sum of a group, a storage that two values share) has none.
    """
    part: int = 0
    """Rows of different kinds in one table stay apart when they are sorted: part 0 before part 1.
    """
    is_heading: bool = False
    """Whether the row introduces those below it. It is left out while they stand in another order.
    """
    find_place: Callable[[], Place | None] | None = None
    """Looks up ``place``, where a table has too many rows to look up all of them."""
    version: str = ""
    """Name of the compilation that the row belongs to, such as ``0/1``; empty for none or
    several.
    """
    narrows_to: RegionKey | None = None
    """What enter narrows every view to, instead of going anywhere; None for most rows."""


@runtime_checkable
class ReadWhenShown(Protocol):
    """Rows of a table that are read from the session only when they are shown."""

    def read_by(self, reader: SessionReader) -> Sequence[TableRow]:
        """Return the same rows, read with this reader: another thread needs its own."""


@dataclass(frozen=True, slots=True)
class ViewTable:
    shows: str
    """What the view shows, in one line."""
    notice: str
    """What is worth noticing; empty when nothing is."""
    origin: str
    """Where the data came from."""
    columns: tuple[TableColumn, ...]
    rows: Sequence[TableRow]
    empty: str
    """Why there are no rows, shown when there are none."""
    chart: Chart | None = None
    """A picture of the rows, shown above them."""
    svg: Callable[[], str] | None = None
    """Draws the picture of the view as SVG, which a key saves; None where the view has no picture.
    Raises UsageError where what draws it is not installed, or nothing is to be drawn.
    """
    opens: Callable[[int], ViewTable | None] | None = None
    """Makes the table of what lies within a row, which enter opens and escape leaves again; None
    for a row with nothing in it.
    """
    searched: Callable[[str], ViewTable] | None = None
    """Makes the table of the rows with some words, where more of a row is searched than is shown;
    None where its cells are all.
    """
    versions: Mapping[str, str] = field(default_factory=dict)
    """Name of a compilation → the function, for functions that were compiled more than once."""
    tree: Tree | None = None
    """How the rows lie in each other; None where they do not."""
    within: Callable[[SessionReader, RegionKey], Sequence[int] | None] | None = None
    """Finds the rows that belong to a region, ascending; None where rows belong to none."""
    only: Sequence[int] | None = None
    """The rows that it is narrowed to; None for all."""
