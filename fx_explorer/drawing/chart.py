"""A view needs to know this of a chart to show it above its rows, and says so where the libraries
that draw plots (the extra ``plots``) are not installed.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class ChartPiece(NamedTuple):
    """A stretch of a row of a chart."""

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
