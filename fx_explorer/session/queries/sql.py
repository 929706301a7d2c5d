"""This module has pieces of SQL that several queries share; ``rows_up_to`` counts rows before
reading them takes long.
"""

from __future__ import annotations

from collections.abc import Collection

from fx_explorer.session import schema
from fx_explorer.session.packed_rows import PACKED
from fx_explorer.session.reader import SessionReader

IS_CALL = "node.op IN ('call_function', 'call_method', 'call_module')"

IS_COUNTED = "compilation NOT IN (SELECT id FROM compilation WHERE status = 'restarted')"
"""Condition for counting: an attempt that Dynamo restarted is shown, but not counted, as in torch's
own counts.
"""


def computed_nodes(*, with_calls: bool = False, condition: str = "") -> str:
    """Return a subquery of the pairs of ``kernel`` and ``computed`` node, each once; with the
    ``call`` that computes it, 0 for every call. ``condition`` is on the table ``kernel``, and its
    parameters are needed twice.
    """
    call = "line_node.call AS call, " if with_calls else ""
    pairs = (
        f"SELECT kernel.id AS kernel, {call}line_node.node AS computed FROM kernel JOIN "
        "line_node ON line_node.artifact = "
    )
    only = f" AND {condition}" if condition else ""
    # A library call has no code of its own: its nodes are those of the line that calls it.
    return (
        f"({pairs}kernel.artifact WHERE kernel.artifact{only} UNION {pairs}kernel.output_code AND "
        f"line_node.line = kernel.first_line WHERE NOT kernel.artifact AND kernel.first_line{only})"
    )


def among(ids: Collection[int] | None, column: str) -> str:
    """Return the condition that ``column`` is one of ``ids``. It is always true for None."""
    # In the text, since SQLite takes a limited number of parameters; they are whole numbers.
    if ids is None:
        return "1"
    return f"{column} IN ({', '.join(map(str, sorted(ids)))})"


def rows_up_to(reader: SessionReader, row_type: type, most: int) -> int:
    """Return the number of rows of a kind, but ``most`` at most: it stops counting there."""
    if row_type in PACKED:
        return min(reader.count(row_type), most)
    return reader.number(
        f"SELECT count(*) FROM (SELECT 1 FROM {schema.TABLES[row_type]} LIMIT {most:d})"
    )
