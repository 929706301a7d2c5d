"""Rows of words as columns of text, in the room that there is: names are cut in the middle, sentences go on under themselves,
and where that is not enough the columns that matter least are left out and named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from rich.cells import cell_len

from fx_explorer.cut_text import cut_in_middle
from fx_explorer.highlight import printable

GAP = "  "

LEAST_PROSE = 24
"""Cells in which a sentence can still be read."""

IN_JSON = "--format json"

IN_A_FILE = "output to a file"


@dataclass(frozen=True, slots=True)
class ColumnRules:
    """What may become of the columns of a table, by their headings."""

    right: frozenset[str] = frozenset()
    """Those of numbers, which stand to the right."""
    names: Mapping[str, int] = field(default_factory=dict)
    """Those that may be cut in the middle → the cells below which another column is left out instead."""
    prose: Mapping[str, int] = field(default_factory=dict)
    """Those that may go on under themselves → the cells below which another column is left out instead."""
    first_to_go: tuple[str, ...] = ()
    """Those that are left out where there is no room for all, the first of them first."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table that was laid out."""

    rows: tuple[tuple[str, ...], ...]
    """The lines of each row, the heading first."""
    left_out: tuple[str, ...]
    """Headings of the columns that there was no room for."""

    @property
    def lines(self) -> list[str]:
        return [line for row in self.rows for line in row]

    def left_out_in_words(self, elsewhere: str = IN_JSON) -> list[str]:
        """Return the sentence that names what was left out, and where all is; none where all is here."""
        if not self.left_out:
            return []
        *first, last = (f"“{heading}”" for heading in self.left_out)
        named = f"{', '.join(first)} and {last}" if first else last
        return [f"Left out for want of room: {named}. A wider terminal and {elsewhere} have all."]


def text_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    columns: ColumnRules,
    room: int | None,
    indent: int = 0,
) -> TextTable:
    """Lay out a table in ``room`` cells; None is for all there is, a line for each row. A column that is empty in every row
    is not shown.
    """
    every = [tuple(map(printable, row)) for row in (header, *rows)]
    known = [at for at in range(len(header)) if any(row[at] for row in every[1:])]
    natural = {at: max(cell_len(row[at]) for row in every) for at in known}
    widths = _fitting(natural, header, columns, None if room is None else room - indent)
    left_out = tuple(header[at] for at in known if at not in widths)
    before = " " * indent
    laid_out = (
        tuple((before + line).rstrip() for line in _lines(row, widths, header, columns))
        for row in every
    )
    return TextTable(tuple(laid_out), left_out)


def _fitting(
    natural: Mapping[int, int], header: Sequence[str], columns: ColumnRules, room: int | None
) -> dict[int, int]:
    """Return the columns that there is room for, with their widths."""
    shown = dict(natural)
    if room is None:
        return shown
    of_text = {**columns.names, **columns.prose}
    least = {at: min(wide, of_text.get(header[at], wide)) for at, wide in natural.items()}
    for at in (header.index(heading) for heading in columns.first_to_go if heading in header):
        if _total(least[at] for at in shown) <= room:
            break
        shown.pop(at, None)
    texts = [at for at in shown if header[at] in of_text]
    while _total(shown.values()) > room and any(shown[at] > 1 for at in texts):
        shown[max(texts, key=lambda at: shown[at] - least[at])] -= 1
    return shown


def _total(widths: Iterable[int]) -> int:
    """Return the cells that columns take with the gaps between them."""
    wide = [*widths]
    return sum(wide) + len(GAP) * (len(wide) - 1)


def _lines(
    row: Sequence[str], widths: Mapping[int, int], header: Sequence[str], columns: ColumnRules
) -> Iterable[str]:
    cells = [_parts(row[at], width, header[at] in columns.prose) for at, width in widths.items()]
    rights = [header[at] in columns.right for at in widths]
    for parts in zip_longest(*cells, fillvalue=""):
        filled = zip(parts, widths.values(), rights, strict=True)
        yield GAP.join(_padded(part, width, is_right) for part, width, is_right in filled)


def _padded(text: str, width: int, is_right: bool) -> str:
    gap = " " * (width - cell_len(text))
    return gap + text if is_right else text + gap


def _parts(cell: str, width: int, is_prose: bool) -> list[str]:
    """Return a cell as the lines that it takes in this width."""
    if cell_len(cell) <= width or not is_prose:
        return [cut_in_middle(cell, width)]
    lines = [""]
    for word in (cut_in_middle(word, width) for word in cell.split()):
        longer = f"{lines[-1]} {word}".lstrip()
        if cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
