"""Graph breaks: how many there are, and what was being compiled at them."""

from __future__ import annotations

from fx_explorer.session.queries.sql import column, number
from fx_explorer.session.reader import SessionReader

_DISTINCT_BREAK = "file, line, coalesce(nullif(registry_id, ''), reason)"
"""What makes two reported breaks the same: one line and one cause."""


def break_count(reader: SessionReader) -> int:
    """Return how many distinct breaks there are: by the user's line and the cause, however often
    each was hit.
    """
    return number(
        reader, f"SELECT count(*) FROM (SELECT DISTINCT {_DISTINCT_BREAK} FROM graph_break)"
    )


def chains_of_breaks(reader: SessionReader) -> list[int]:
    """Return the ids of the distinct Stacks of what was being compiled at a break."""
    return column(reader, "SELECT DISTINCT chain FROM graph_break WHERE chain")
