"""This module packs rows of which a session has hundreds of thousands: thousands of them are one
text, with a column for each field.

Neighbours are alike: the steps of a layer are those of the layer before. So a column has each of
its texts once and then their positions, a column of numbers has their differences, and what has one
value in all rows is there once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from fx_explorer import model

PACKED: dict[type, str] = {model.TraceStep: "trace"}
"""Class of rows that are packed → the field by which they are found, which is the same in all rows
of a pack. They have no ids.
"""

MOST_IN_PACK = 8_000
"""Maximum number of rows of a pack. A reader unpacks whole packs."""

MOST_UNPACKED = 2_000_000
"""Maximum number of rows that are unpacked at once: a manipulated file may name a pack many
times.
"""

Columns = list[Sequence[Any]]
"""The values of rows as SQL has them: texts, numbers and None, a sequence for each field."""


def pack(columns: Sequence[Sequence[Any]]) -> str:
    """Return columns as one text."""
    return json.dumps([_packed(column) for column in columns], separators=(",", ":"))


def _packed(column: Sequence[Any]) -> object:
    first = column[0]
    if column.count(first) == len(column):
        return {"all": int(first) if isinstance(first, bool) else first}
    if isinstance(first, int):
        numbers = [int(value) for value in column]
        return {"steps": [numbers[0], *(after - before for before, after in pairwise(numbers))]}
    places: dict[Any, int] = {}
    at = [places.setdefault(value, len(places)) for value in column]
    return {"values": list(places), "at": at}


def unpack(text: str, count: int, fields: int) -> Columns:
    """Return the columns of a text. Raises ValueError for one that does not have ``count`` rows of
    so many fields.
    """
    if not 0 < count <= MOST_IN_PACK:
        raise ValueError(f"a pack of {count} rows")
    packed = json.loads(text)
    if not isinstance(packed, list) or len(packed) != fields:
        raise ValueError("a pack with other columns")
    columns = [_unpacked(column, count) for column in packed]
    if any(len(column) != count for column in columns):
        raise ValueError("a pack with columns of other lengths")
    return columns


def _unpacked(column: object, count: int) -> Sequence[Any]:
    if not isinstance(column, dict):
        raise ValueError("a pack without columns")
    if "all" in column:
        return [_plain(column["all"])] * count
    if "steps" in column:
        return list(accumulate(_numbers(column["steps"])))
    values = [_plain(value) for value in _list(column.get("values"))]
    at = _numbers(column.get("at"))
    if at and not 0 <= min(at) <= max(at) < len(values):
        raise ValueError("a pack with a position that it does not have")
    return [values[place] for place in at]


def _plain(value: object) -> object:
    if value is not None and type(value) not in (str, int):
        raise ValueError("a pack with what is no text or number")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError("a pack with a column that is no list")
    return value


def _numbers(value: object) -> list[int]:
    numbers = _list(value)
    if any(type(number) is not int for number in numbers):
        raise ValueError("a pack with a number that is none")
    return numbers  # type: ignore[return-value]
