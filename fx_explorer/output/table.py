"""This module has tables, whose columns are declared once for all formats: text, markdown and CSV
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
"""What may happen to a cell that is too long: nothing; it is shortened in the middle, as names are,
whose ends distinguish them; or it is wrapped under itself, as sentences are.
"""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    is_number: bool = False
    """Whether its cells are aligned to the right."""
    narrowing: Narrowing = "never"
    least: int = 0
    """Cells below which it is not narrowed while another column may be left out instead."""
    priority: int = 0
    """If not all columns fit, those with the highest number are left out first; those with 0 stay.
    """
    is_always_shown: bool = False
    """Whether text shows it even if it is empty in every row, because that is an answer, too."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts under the titles of their columns. In text, a column that is empty in every row
    is left out, unless it says otherwise.
    """

    columns: Sequence[Column]
    rows: Sequence[Cells]
    indent: int = 0
    """Cells before each line of the text."""
    note: str = ""
    """A line directly below the rows, such as the number of further ones."""
    elsewhere: str = IN_JSON
    """Where the columns are for which a terminal has no room."""
    has_titles: bool = True
    """Whether the text begins with the titles."""

    @property
    def titles(self) -> list[str]:
        return [column.title for column in self.columns]
