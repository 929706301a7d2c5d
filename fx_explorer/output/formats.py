"""This module writes a table as markdown and CSV, and JSON for other programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence

from fx_explorer.highlight import printable
from fx_explorer.output.table import Cells, Column, Table


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
