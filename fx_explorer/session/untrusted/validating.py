"""This module turns values of a session file into values of the model. All of them are checked
here, whoever wrote them.

A value of a wrong type, an impossible number, an unknown word of a closed set, JSON of a wrong
shape and text that inflates without end each raise a ValueError that names the problem; the reader
turns it into a NotASessionError.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import types
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from operator import itemgetter
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fx_explorer.model import Frame
from fx_explorer.session.bounds import FREELY, MAX_LINES, MOST_INFLATED

LARGEST = 2**53
"""The largest number that JSON and a float hold exactly; ids, bytes and operations are below."""

LARGEST_OF = {
    **dict.fromkeys(
        (
            "depth",
            "attempts",
            "attempt",
            "column",
            "end_column",
            "lines_before",
            "frame",
            "recompile",
        ),
        1_000_000,
    ),
    **dict.fromkeys(
        (
            "line",
            "first_line",
            "end_line",
            "source_line",
            "lines",
            "line_count",
            "node_count",
            "call_count",
        ),
        50_000_000,
    ),
    **dict.fromkeys(("position", "offset", "steps", "nodes", "threads", "registers"), 50_000_000),
}
"""Field → the largest number that it may have, where something is counted to it, or indented by
it.
"""

MAY_BE_INFINITE = frozenset({"largest_difference"})

MOST_JSON = 16 << 20
"""Largest JSON text that is parsed, in characters."""

DEEPEST = 64

MOST_TEXT = 256 << 20
"""Maximum size of a text, in bytes."""

MOST_SHAPES = 1_000
"""Maximum number of kinds of rows in one table, by the types of their values: optional fields have
two each.
"""

RowT = TypeVar("RowT")

Check = Callable[[Any], Any]
"""A function that returns the value of the model, or raises ValueError."""


@cache
def _hints(row_type: Callable[..., object]) -> dict[str, Any]:
    """Return the types of the fields. To find them takes 0.3 ms for each type of row, which the
    start has 23 of.
    """
    return get_type_hints(row_type)


def row_maker(row_type: Callable[..., RowT]) -> Callable[[tuple[Any, ...]], RowT]:
    """Return a function that makes a row of SQL values. Raises ValueError, which names the field.

    A page of nodes is decoded at every key. So one field at a time, with its name, is checked only
    what fails the checks of many at once: the types of all values together, and the largest of the
    numbers that have one bound.
    """
    fields = dataclasses.fields(row_type)  # type: ignore[arg-type]
    hints = _hints(row_type)
    checks = tuple(_named(field.name, check_of(hints[field.name], field.name)) for field in fields)
    numbers = _bounds(tuple((field.name, hints[field.name]) for field in fields))
    changed: list[tuple[int, Check]] = []
    for i, field in enumerate(fields):
        hint = hints[field.name]
        if hint not in (int, str):
            changed.append((i, _of_a_value(hint, field.name)))
    known_types: set[tuple[type, ...]] = set()

    def make(values: tuple[Any, ...]) -> RowT:
        types_here = tuple(map(type, values))
        if types_here not in known_types:
            row = one_by_one(values)
            if len(known_types) < MOST_SHAPES:
                known_types.add(types_here)
            return row
        for choose, largest in numbers:
            chosen = choose(values)
            if max(chosen) > largest or min(chosen) < -largest:
                return one_by_one(values)
        changed_values = list(values)
        try:
            for i, check in changed:
                # Where it may not be None, these are not known types.
                if changed_values[i] is not None:
                    changed_values[i] = check(changed_values[i])
        except ValueError:
            return one_by_one(values)
        return row_type(*changed_values)

    def one_by_one(values: tuple[Any, ...]) -> RowT:
        return row_type(*[check(value) for check, value in zip(checks, values, strict=True)])

    return make


FEW_ROWS = 8
"""Minimum number of rows that are checked column by column. Fewer are checked one by one, which
takes as long.
"""


def rows_maker(row_type: Callable[..., RowT]) -> Callable[[list[tuple[Any, ...]]], list[RowT]]:
    """Return a function that makes many rows at once, like ``row_maker``. Rows that fail the checks
    of whole columns are checked one by one, to name the invalid one.
    """
    make = row_maker(row_type)
    fields = dataclasses.fields(row_type)  # type: ignore[arg-type]
    hints = _hints(row_type)
    checks = tuple(_of_column(hints[field.name], field.name) for field in fields)

    def make_all(rows: list[tuple[Any, ...]]) -> list[RowT]:
        if len(rows) > FEW_ROWS:
            try:
                checked = [
                    check(column)
                    for check, column in zip(checks, zip(*rows, strict=True), strict=True)
                ]
                return list(itertools.starmap(row_type, zip(*checked, strict=True)))
            except ValueError:
                pass  # reported below, with its field
        return [make(row) for row in rows]

    return make_all


def columns_checker(
    row_type: Callable[..., object],
) -> Callable[[Sequence[Sequence[Any]]], None]:
    """Return a function that checks columns of rows as they are written. It raises ValueError
    where a reader would refuse one of them, without naming it. Equal values of a column are checked
    once: in a graph most shapes and dtypes are.
    """
    fields = dataclasses.fields(row_type)  # type: ignore[arg-type]
    hints = _hints(row_type)
    checks: list[tuple[int, Callable[[tuple[Any, ...]], object]]] = []
    for i, field in enumerate(fields):
        declared = hints[field.name]
        if field.name == "id":
            continue  # a new row gets one of SQLite's
        if declared is str:
            checks.append((i, _only(frozenset([str]))))
        elif declared is int or get_origin(declared) is Literal:
            checks.append((i, _of_column(declared, field.name)))
        else:
            checks.append((i, _of_distinct_values(check_of(declared, field.name))))

    def check_all(columns: Sequence[Sequence[Any]]) -> None:
        for i, check in checks:
            check(tuple(columns[i]))

    return check_all


def _of_distinct_values(check: Check) -> Callable[[tuple[Any, ...]], object]:
    def check_all(column: tuple[Any, ...]) -> None:
        for value in set(column):
            check(int(value) if isinstance(value, bool) else value)

    return check_all


def _of_column(declared: Any, name: str) -> Callable[[tuple[Any, ...]], Iterable[Any]]:
    """Return a function from the values of a column to values of the model; it raises
    ValueError.
    """
    check = check_of(declared, name)
    if declared is int and name not in MAY_BE_INFINITE:
        return _numbers(LARGEST_OF.get(name, LARGEST))
    if declared is str:
        return _texts_of_column
    if get_origin(declared) is Literal:
        return _choices(frozenset(get_args(declared)))
    if _is_tuple_of_texts(declared):
        return _of_repeated_values(check)
    return lambda column: [check(value) for value in column]


MANY_ROWS = 1_000
"""Number of rows from which on equal texts of a column are one object: half of a node's bytes would
be those of its operator, dtype, device and module.
"""

SAMPLE = 64


def _texts_of_column(column: tuple[Any, ...]) -> Iterable[Any]:
    texts = _only(frozenset([str]))(column)
    if len(column) < MANY_ROWS or len(set(column[:SAMPLE])) > SAMPLE // 2:
        return texts
    known: dict[str, str] = {}
    return [known.setdefault(text, text) for text in texts]


def _is_tuple_of_texts(declared: Any) -> bool:
    """Return whether a column has tuples of texts or None: such values may be shared by rows."""
    choices = [choice for choice in get_args(declared) if choice is not type(None)]
    choices = choices if len(choices) == 1 else [declared]
    return choices == [tuple[str, ...]]


def _of_repeated_values(check: Check) -> Callable[[tuple[Any, ...]], Iterable[Any]]:
    """Check equal values once, and give each row the same object: a graph has few shapes."""

    def checked(column: tuple[Any, ...]) -> Iterable[Any]:
        known: dict[Any, Any] = {}
        for value in column:
            if value not in known:
                known[value] = check(value)
        return [known[value] for value in column]

    return checked


def _numbers(largest: int) -> Callable[[tuple[Any, ...]], Iterable[Any]]:
    are_numbers = _only(frozenset([int]))

    def checked(column: tuple[Any, ...]) -> Iterable[Any]:
        if max(are_numbers(column)) > largest or min(column) < -largest:
            raise ValueError
        return column

    return checked


def _only(allowed: frozenset[type]) -> Callable[[tuple[Any, ...]], Iterable[Any]]:
    def checked(column: tuple[Any, ...]) -> Iterable[Any]:
        if not allowed.issuperset(map(type, column)):
            raise ValueError
        return column

    return checked


def _choices(words: frozenset[str]) -> Callable[[tuple[Any, ...]], Iterable[Any]]:
    shared = {word: word for word in words}

    def checked(column: tuple[Any, ...]) -> Iterable[Any]:
        if not words.issuperset(column):
            raise ValueError
        return [shared[word] for word in column]

    return checked


def _of_a_value(declared: Any, name: str) -> Check:
    """Return the check for an optional type: that of its type other than None."""
    inner = [argument for argument in get_args(declared) if argument is not type(None)]
    if get_origin(declared) in (Union, types.UnionType):
        return check_of(inner[0], name)
    return check_of(declared, name)


def _bounds(
    fields: tuple[tuple[str, Any], ...],
) -> list[tuple[Callable[[tuple[Any, ...]], tuple[int, ...]], int]]:
    """Return (getter of the fields with one bound, the bound) for each bound on integer fields."""
    of_bound: dict[int, list[int]] = {}
    for i, (name, declared) in enumerate(fields):
        if declared is int:
            of_bound.setdefault(LARGEST_OF.get(name, LARGEST), []).append(i)
    # One place twice: a getter of a single one returns no tuple.
    return [(itemgetter(*places, places[0]), largest) for largest, places in of_bound.items()]


def _named(name: str, check: Check) -> Check:
    def checked(value: Any) -> Any:
        try:
            return check(value)
        except ValueError as error:
            raise ValueError(f"{name} {error}") from error

    return checked


def check_of(declared: Any, name: str = "") -> Check:
    """Return the check for a column whose field is ``declared`` so."""
    if name in MAY_BE_INFINITE:
        return _infinite
    if declared is int:
        return _number(LARGEST_OF.get(name, LARGEST))
    if declared in _SIMPLE:
        return _SIMPLE[declared]
    origin, arguments = get_origin(declared), get_args(declared)
    if origin is Literal:
        return _one_of(frozenset(arguments))
    if origin in (Union, types.UnionType):
        (inner,) = [argument for argument in arguments if argument is not type(None)]
        return _or_none(check_of(inner, name))
    if origin is tuple and arguments[0] is str:
        return _texts
    if origin is tuple:
        return _list_of(_element(arguments[0]))
    if origin is dict:
        return _dict_of(arguments[1])
    raise TypeError(f"no column is declared as {declared}")


def _number(largest: int) -> Check:
    def check(value: Any) -> int:
        # For isinstance, JSON's ``true`` would be a number.
        if type(value) is not int:
            raise ValueError(f"is {_shown(value)}, not a whole number")
        if not -largest <= value <= largest:
            raise ValueError(f"cannot be {value}")
        return value

    return check


def _boolean(value: Any) -> bool:
    if type(value) is not int or value not in (0, 1):
        raise ValueError(f"is {_shown(value)}, not 0 or 1")
    return value == 1


def _float(value: Any) -> float:
    if type(value) not in (float, int) or not math.isfinite(value):
        raise ValueError(f"is {_shown(value)}, not a number")
    return float(value)


def _infinite(value: Any) -> float:
    if value == math.inf:
        return math.inf
    return _float(value)


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"is {_shown(value)}, not text")
    return value


def _anything(value: Any) -> Any:
    return value


_SIMPLE: dict[Any, Check] = {int: _number(LARGEST), bool: _boolean, float: _float, str: _text}


def _one_of(words: frozenset[str]) -> Check:
    def check(value: Any) -> str:
        if type(value) is not str or value not in words:
            raise ValueError(f"cannot be {_shown(value)}")
        return value

    return check


def _or_none(inner: Check) -> Check:
    def check(value: object) -> object:
        if value is None:
            return None
        return inner(value)

    return check


def _element(declared: Any) -> Check:
    """Return the check for one element of a list in JSON."""
    if declared is Frame:
        return _frame
    if get_origin(declared) is dict:
        return _is_dict
    return _SIMPLE.get(declared, _anything)


def _frame(value: Any) -> Frame:
    if not isinstance(value, list) or not 3 <= len(value) <= 4:
        raise ValueError(f"has {_shown(value)} instead of a frame")
    file, line, function, *code = value
    return Frame(_text(file), _number(LARGEST_OF["line"])(line), _text(function), *map(_text, code))


def _is_dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"has {_shown(value)} instead of an object")
    return value


def _list_of(element: Check) -> Check:
    def check(value: Any) -> tuple[Any, ...]:
        items = from_json(value)
        if not isinstance(items, list):
            raise ValueError(f"is {_shown(items)}, not a list")
        return tuple(map(element, items))

    return check


def _dict_of(declared: Any) -> Check:
    element = _SIMPLE.get(declared, _anything)

    def check(value: Any) -> dict[str, Any]:
        items = _is_dict(from_json(value))
        return {key: element(item) for key, item in items.items()}

    return check


def _texts(value: Any) -> tuple[str, ...]:
    if type(value) is str and len(value) < 2_000:
        return _short_texts(value)
    return _parsed_texts(value)


@lru_cache(maxsize=4096)
def _short_texts(value: str) -> tuple[str, ...]:
    """Check short texts and remember them, for shapes and strides are the same all over a graph: a
    page of its nodes is read in half the time.
    """
    return _parsed_texts(value)


def _parsed_texts(value: Any) -> tuple[str, ...]:
    texts = from_json(value)
    if not isinstance(texts, list) or not all(type(text) is str for text in texts):
        raise ValueError(f"is {_shown(texts)}, not a list of texts")
    return tuple(texts)


def from_json(text: Any) -> Any:
    """Parse JSON. Raises ValueError for invalid JSON, or if it is larger or deeper than in a
    session.
    """
    if type(text) is not str:
        raise ValueError(f"is {_shown(text)}, not JSON")
    if len(text) > MOST_JSON:
        raise ValueError(f"has {len(text):,} characters of JSON; at most {MOST_JSON:,} are read")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON ({type(error).__name__}): {_shown(text)}") from error
    # Counted in the text first: most JSON has too few brackets to be deep, and need not be walked
    # through.
    if text.count("[") + text.count("{") > DEEPEST and _depth(value) > DEEPEST:
        raise ValueError("is JSON that is nested too deeply")
    return value


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while True:
        containers = [item for item in level if isinstance(item, dict | list)]
        if not containers:
            return depth
        depth += 1
        if depth > DEEPEST:
            return depth
        level = []
        for container in containers:
            level += container.values() if isinstance(container, dict) else container


def inflated(body: Any, base: bytes = b"") -> str:
    """Return the text of a row of ``text``, which was packed with ``base``. Raises ValueError, long
    before it takes the memory that a few bytes can inflate to.
    """
    if type(body) is not bytes:
        raise ValueError(f"is {_shown(body)}, not packed text")
    most = min(MOST_TEXT, max(FREELY, MOST_INFLATED * len(body)))
    if base:
        packed = zlib.decompressobj(zdict=base)
    else:
        packed = zlib.decompressobj()
    try:
        # One byte more than allowed tells a text that is too long from one that just fits.
        raw = packed.decompress(body, most + 1)
        if len(raw) > most:
            raise ValueError(f"is {len(body):,} bytes that inflate to more than {most:,}")
        if raw.count(b"\n") > MAX_LINES:
            raise ValueError(f"has more than {MAX_LINES:,} lines")
        if not packed.eof:
            raise ValueError("is compressed text that is cut off")
        return raw.decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"cannot be unpacked: {error}") from error


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return repr("{…}")
    if isinstance(value, str | bytes | list):
        value = value[:60]
    return repr(value)[:80]
