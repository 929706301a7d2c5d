"""The pieces of SQL that several queries share."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any

from fx_explorer.session.reader import SessionReader

IS_CALL = "node.op IN ('call_function', 'call_method', 'call_module')"

IS_COUNTED = "compilation NOT IN (SELECT id FROM compilation WHERE status = 'restarted')"
"""An attempt that Dynamo gave up for another is shown, but not counted: torch does not count it
either.
"""


def json_list(values: Iterable[int] | Iterable[str]) -> str:
    """Return the values as SQLite's ``json_each`` takes them: any number of them in one
    parameter.
    """
    return json.dumps(list(values))


def among(ids: Collection[int] | None, column: str) -> str:
    """Return a condition: ``column`` is one of ``ids``. It is always true for None."""
    # In the text, since SQLite takes a limited number of parameters; they are whole numbers.
    return "1" if ids is None else f"{column} IN ({', '.join(map(str, sorted(ids)))})"


def column(reader: SessionReader, sql: str, *values: object) -> list[Any]:
    """Return the values of the one column that a question is answered with."""
    return [row[0] for row in reader.query(sql, values)]


def number(reader: SessionReader, sql: str, *values: object) -> int:
    """Return the one number that a question is answered with."""
    return int(reader.query(sql, values)[0][0])
