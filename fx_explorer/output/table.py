"""A table declares its columns once, for whoever writes it: as text (``text.py``), markdown or CSV
(``formats.py``).

The declaration needs the standard library only: what declares one also runs in the user's
interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

IN_JSON = "--format json"

IN_A_FILE = "output to a file"

Cells = Sequence[str]
"""The texts of a row, one for each column."""

Narrowing = Literal["never", "cut", "wrapped"]
"""What may become of a cell for want of room: nothing; it is cut in the middle, as names are, whose
ends tell them apart; or it continues under itself, as sentences do.
"""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    is_number: bool = False
    """Whether its cells stand to the right."""
    narrowing: Narrowing = "never"
    least: int = 0
    """Cells below which it is not narrowed while another column may be left out instead."""
    priority: int = 0
    """Where there is no room for all, columns with the highest number are left out first; those
    with 0 stay.
    """
    is_always_shown: bool = False
    """Whether text has it also where it is empty in every row: that there is nothing is an answer,
    too.
    """


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts under the titles of their columns. In text, a column that is empty in every row
    is not shown, unless it says otherwise.
    """

    columns: Sequence[Column]
    rows: Sequence[Cells]
    indent: int = 0
    """Cells before each line of the text."""
    note: str = ""
    """A line right below the rows, such as how many more there are."""
    elsewhere: str = IN_JSON
    """Where the columns are for which a terminal has no room."""
    has_titles: bool = True
    """Whether the text begins with the titles."""

    @property
    def titles(self) -> list[str]:
        return [column.title for column in self.columns]
