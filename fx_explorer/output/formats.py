"""This module writes a table as text in a limited width, as markdown and CSV, and JSON for other
programs.

In text long names are cut in the middle, sentences are wrapped, and if that is not enough, the
least important columns are left out and named.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len

from fx_explorer.cut_text import cut_in_middle
from fx_explorer.highlight import printable
from fx_explorer.output.table import Cells, Column, Narrowing, Table
from fx_explorer.output.terminal import INDENT, LEAST_PROSE, Hanging, Line, wrapped

GAP = "  "


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table that was laid out as text."""

    titles: Sequence[str]
    """The lines of the titles; empty for a table without titles."""
    rows: Sequence[Sequence[str]]
    """The lines of each row."""
    below: Sequence[str]
    """The lines below the table: the note, and which columns were left out."""

    @property
    def lines(self) -> list[str]:
        """Return the titles and the rows, without the lines below them."""
        lines = [*self.titles]
        for row in self.rows:
            lines += row
        return lines


def text_table(table: Table, room: int | None) -> TextTable:
    """Lay out a table in ``room`` cells; for None, as wide as it needs, with one line for each
    row.
    """
    titles = [printable(title) for title in table.titles]
    rows = [list(map(printable, row)) for row in table.rows]
    measured = [titles, *rows] if table.has_titles else rows
    natural = {}
    for at, column in enumerate(table.columns):
        if column.is_always_shown or any(row[at] for row in rows):
            natural[at] = max(cell_len(row[at]) for row in measured)
    if room is not None:
        room -= table.indent
    widths = _fitting(natural, table.columns, room)
    below_row = _without_room(widths, natural, table.columns)
    if below_row is not None:
        del natural[below_row]
        widths = _fitting(natural, table.columns, room)
    left_out = [titles[at] for at in natural if at not in widths]
    before = " " * table.indent
    below = [table.note] if table.note else []
    if left_out:
        below.append(_describe_left_out(left_out, table.elsewhere))

    def lines_of(row: Cells) -> list[str]:
        lines = [*_lines(row, widths, table.columns)]
        if below_row is not None and room is not None and row[below_row]:
            sentence = _parts(row[below_row], max(LEAST_PROSE, room - INDENT), "wrapped")
            lines += [" " * INDENT + part for part in sentence]
        return [(before + line).rstrip() for line in lines]

    title_lines = lines_of(titles) if table.has_titles else []
    return TextTable(
        titles=title_lines,
        rows=[lines_of(row) for row in rows],
        below=[before + printable(line) for line in below],
    )


def _without_room(
    widths: Mapping[int, int], natural: Mapping[int, int], columns: Sequence[Column]
) -> int | None:
    """Return the last column of sentences that is too narrow beside the others, and goes below
    them; else None.
    """
    last = max(widths, default=None)
    if last is None or columns[last].narrowing != "wrapped" or len(widths) == 1:
        return None
    if widths[last] >= min(columns[last].least, natural[last]):
        return None
    return last


def _describe_left_out(titles: Sequence[str], elsewhere: str) -> str:
    """Name the columns that were left out, and say where all are."""
    *first, last = (f"“{title}”" for title in titles)
    named = f"{', '.join(first)} and {last}" if first else last
    return f"Not enough room for: {named}. A wider terminal and {elsewhere} show all columns."


def _fitting(
    natural: Mapping[int, int], columns: Sequence[Column], room: int | None
) -> dict[int, int]:
    """Return the columns that fit the width, with the width of each."""
    shown = dict(natural)
    if room is None:
        return shown
    narrowed = [at for at in natural if columns[at].narrowing != "never"]
    least = dict(natural)
    for at in narrowed:
        least[at] = min(natural[at], columns[at].least)
    may_go = [at for at in natural if columns[at].priority]
    for at in sorted(may_go, key=lambda at: -columns[at].priority):
        if _total(least[at] for at in shown) <= room:
            break
        shown.pop(at)
    texts = [at for at in narrowed if at in shown]
    while _total(shown.values()) > room and any(shown[at] > 1 for at in texts):
        shown[max(texts, key=lambda at: shown[at] - least[at])] -= 1
    return shown


def _total(widths: Iterable[int]) -> int:
    """Return the cells that columns take with the gaps between them."""
    cells = [*widths]
    return sum(cells) + len(GAP) * (len(cells) - 1)


def _lines(row: Cells, widths: Mapping[int, int], columns: Sequence[Column]) -> Iterable[str]:
    cells = [_parts(row[at], width, columns[at].narrowing) for at, width in widths.items()]
    rights = [columns[at].is_number for at in widths]
    for parts in zip_longest(*cells, fillvalue=""):
        filled = zip(parts, widths.values(), rights, strict=True)
        yield GAP.join(_padded(part, width, is_right) for part, width, is_right in filled)


def _padded(text: str, width: int, is_right: bool) -> str:
    gap = " " * (width - cell_len(text))
    if is_right:
        return gap + text
    return text + gap


def _parts(cell: str, width: int, narrowing: Narrowing) -> list[str]:
    """Return a cell as the lines that it takes in this width."""
    if cell_len(cell) <= width or narrowing != "wrapped":
        return [cut_in_middle(cell, width)]
    lines = [""]
    for word in (cut_in_middle(word, width) for word in cell.split()):
        longer = f"{lines[-1]} {word}".lstrip()
        if cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


Block = Line | Table


def text_lines(blocks: Iterable[Block], width: int | None) -> list[str]:
    """Return sentences and tables as lines of at most ``width`` cells (None: any width, for
    programs that read them). Terminal escapes are made visible.
    """
    lines: list[str] = []
    for block in blocks:
        if isinstance(block, Table):
            laid_out = text_table(block, width)
            lines += laid_out.lines
            for line in laid_out.below:
                lines += wrapped(line, width)
        elif isinstance(block, Hanging):
            lines += wrapped(Hanging(printable(block.head), printable(block.sentence)), width)
        else:
            lines += wrapped(printable(block), width)
    return lines


def text_of(blocks: Iterable[Block], width: int | None = None) -> str:
    """Return sentences and tables as a text that ends with one newline."""
    return "\n".join(text_lines(blocks, width)).rstrip() + "\n"


def in_markdown(text: str) -> str:
    """Return a text escaped so that markdown shows it unchanged in a table cell and in a list."""
    return printable(text).replace("|", "\\|").replace("<", "&lt;")


def markdown_list(sentences: Iterable[str]) -> list[str]:
    """Return the lines of a list, a sentence each."""
    return [f"- {in_markdown(sentence)}" for sentence in sentences]


def markdown_table(table: Table) -> list[str]:
    """Return the lines of a table, with all of its columns."""
    marks = [_markdown_mark(column) for column in table.columns]
    return [_markdown_row(row) for row in (table.titles, marks, *table.rows)]


def _markdown_mark(column: Column) -> str:
    """Return the line below a column's title, which aligns numbers to the right."""
    return "---:" if column.is_number else "---"


def _markdown_row(row: Cells) -> str:
    return f"| {' | '.join(map(in_markdown, row))} |"


def csv_text(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return the lines, the header first. Each text is put on one line and made safe to print:
    names may come from a program or from another user's file.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow(map(_safe_cell, row))
    return out.getvalue()


def _safe_cell(cell: object) -> object:
    if isinstance(cell, str):
        return printable(cell)
    return cell


def csv_of_objects(rows: Sequence[Mapping[str, object]]) -> str:
    """Return a line for each object, with the names of the first as the header; an empty line
    without objects.
    """
    header = list(rows[0]) if rows else []

    def cells(row: Mapping[str, object]) -> list[object]:
        return [row.get(name, "") for name in header]

    return csv_text(header, map(cells, rows))


def json_text(whole: object) -> str:
    """Return the text of an answer that a program reads."""
    return json.dumps(whole, indent=2) + "\n"
