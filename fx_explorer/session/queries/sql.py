"""Several queries share these pieces of SQL; ``rows_up_to`` is for whoever must know how many rows
there are before reading them takes long.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any

from fx_explorer.session import schema
from fx_explorer.session.reader import SessionReader

IS_CALL = "node.op IN ('call_function', 'call_method', 'call_module')"

IS_COUNTED = "compilation NOT IN (SELECT id FROM compilation WHERE status = 'restarted')"
"""An attempt that Dynamo gave up for another is shown, but not counted: torch does not count it
either.
"""


def computed_nodes(*, with_calls: bool = False, condition: str = "") -> str:
    """Return a subquery: which ``kernel`` has ``computed`` which node, each pair once; with the
    ``call`` that does, 0 for every call. ``condition`` is one on the table ``kernel``, and its
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


def json_list(values: Iterable[int] | Iterable[str]) -> str:
    """Return the values as SQLite's ``json_each`` takes them: any number of them in one
    parameter.
    """
    return json.dumps(list(values))


def among(ids: Collection[int] | None, column: str) -> str:
    """Return a condition: ``column`` is one of ``ids``. It is always true for None."""
    # In the text, since SQLite takes a limited number of parameters; they are whole numbers.
    if ids is None:
        return "1"
    return f"{column} IN ({', '.join(map(str, sorted(ids)))})"


def column(reader: SessionReader, sql: str, *values: object) -> list[Any]:
    """Return the values of the one column that a question is answered with."""
    return [row[0] for row in reader.query(sql, values)]


def number(reader: SessionReader, sql: str, *values: object) -> int:
    """Return the result of a query that gives one number."""
    return int(reader.query(sql, values)[0][0])


def rows_up_to(reader: SessionReader, row_type: type, most: int) -> int:
    """Return how many rows of a kind there are, ``most`` at most: no more of them are looked at."""
    return number(
        reader, f"SELECT count(*) FROM (SELECT 1 FROM {schema.TABLES[row_type]} LIMIT {most:d})"
    )
