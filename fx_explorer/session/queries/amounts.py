"""How many rows there are, for whoever must know before reading them whether that takes long."""

from __future__ import annotations

from fx_explorer.session import schema
from fx_explorer.session.queries.sql import number
from fx_explorer.session.reader import SessionReader


def rows_up_to(reader: SessionReader, row_type: type, most: int) -> int:
    """Return how many rows of a kind there are, ``most`` at most: no more of them are looked at."""
    return number(
        reader, f"SELECT count(*) FROM (SELECT 1 FROM {schema.TABLES[row_type]} LIMIT {most:d})"
    )
