"""Rows as CSV, whose cells are safe to print: names may come from a program or from a file of somebody's."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from fx_explorer.highlight import printable


def csv_text(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return the lines, the header first. A text is one line, whatever is in it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(
        [printable(cell) if isinstance(cell, str) else cell for cell in row] for row in rows
    )
    return out.getvalue()
