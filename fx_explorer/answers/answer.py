"""An answer is a sentence, rows, and how they are known. As JSON it has at most so many characters:
it says what was cut, and how to ask for the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from fx_explorer.analysis.graph_files import DTYPES
from fx_explorer.analysis.words import counted
from fx_explorer.errors import UsageError

SCHEMA = "fx-explorer/answer/1"

Json = dict[str, Any]

MOST_CHARACTERS = 12_000
"""Length of an answer if no other is asked for: about 4,000 tokens."""

LEAST_CHARACTERS = 1_000

ROWS = 20
"""Number of rows if no other limit is given."""


class Pages(Sequence[Json]):
    """Rows that are read when they are asked for: a graph may have 100,000 nodes."""

    PAGE = 500

    def __init__(self, count: int, read: Callable[[int, int], list[Json]]) -> None:
        self._count = count
        self._read = read

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Json: ...
    @overload
    def __getitem__(self, index: slice) -> list[Json]: ...
    def __getitem__(self, index: int | slice) -> Json | list[Json]:
        if isinstance(index, slice):
            start, stop, _ = index.indices(self._count)
            return self._read(start, stop) if start < stop else []
        return self._read(index, index + 1)[0]

    def __iter__(self) -> Iterator[Json]:
        for start in range(0, self._count, self.PAGE):
            yield from self[start : start + self.PAGE]


@dataclass(frozen=True)
class Answer:
    """The answer to one question about a session."""

    text: str
    """The answer in a sentence or two."""
    rows: Sequence[Json] = ()
    matched: Sequence[Json] = ()
    """The rows that ``--match`` chooses from, where they are more; those with the words in their
    name come first.
    """
    known_from: str = ""
    """What recorded or computed the rows."""
    places: Sequence[str] = ()
    """The fields with files and lines, in which ``--match`` looks only for words with ``.py``: a
    file's name says nothing of a node.
    """
    fields: Sequence[str] = ()
    """The fields of a row that are given if no others are asked for; empty for all of them."""
    figures: Json = field(default_factory=dict)
    """Figures of the whole, beside the rows."""
    next: Sequence[str] = ()
    """Further questions about the same session, as words after ``ask SESSION``."""


@dataclass(frozen=True)
class RowSelection:
    """Which rows and fields of an answer are given, and in how many characters."""

    limit: int = ROWS
    skip: int = 0
    match: str = ""
    """Words that a row must have, in any of its fields, upper and lower case alike."""
    fields: Sequence[str] = ()
    """Names of fields; ``all`` for every one."""
    characters: int = MOST_CHARACTERS


ALL_FIELDS = "all"


def answer_text(
    question: str, answer: Answer, about: Mapping[str, Any], selection: RowSelection
) -> str:
    """Return the answer as JSON, a row a line. ``about`` says which session it is of. Raises
    UsageError for a field that no row has.
    """
    rows, count = _selected(answer, selection)
    every_field = _fields_of(rows)
    _check_fields(answer, rows, selection.fields)
    fields = _chosen_fields(answer, selection, every_field)
    rows = _said_once([_with_fields(row, fields) for row in rows])
    content: Json = {
        "schema": SCHEMA,
        "question": question,
        **about,
        "answer": answer.text,
        "known_from": answer.known_from,
        "figures": answer.figures,
        "count": count,
        "rows": rows,
        "more_fields": [name for name in every_field if name not in fields],
        "next": list(answer.next),
    }
    return _fitted(content, selection)


def _selected(answer: Answer, selection: RowSelection) -> tuple[list[Json], int]:
    """Return the rows that are asked for, and how many there are to choose from."""
    first, end = selection.skip, selection.skip + selection.limit
    if not selection.match:
        return list(answer.rows[first:end]), len(answer.rows)
    words = selection.match.casefold().split()
    rows = answer.matched or answer.rows
    matching = [row for row in rows if _has_words(row, words, answer.places)]
    if answer.matched:
        matching.sort(key=lambda row: not _has_words({"name": row["name"]}, words))
    return matching[first:end], len(matching)


def _has_words(row: Json, words: Sequence[str], places: Sequence[str] = ()) -> bool:
    whole = json.dumps(row, ensure_ascii=False, default=str).casefold()
    if not places:
        return all(_has_word(whole, word) for word in words)
    others = {name: value for name, value in row.items() if name not in places}
    text = json.dumps(others, ensure_ascii=False, default=str).casefold()
    return all(_has_word(whole if ".py" in word else text, word) for word in words)


_SHORT_DTYPES = {name: short for short, name in DTYPES.items()}


def _has_word(text: str, word: str) -> bool:
    """Return whether a row has a word; of a dtype, such as ``bool``, also as it is printed: ``b8``,
    ``b8[4, 20]``.
    """
    if word in text:
        return True
    short = _SHORT_DTYPES.get(word.removeprefix("torch."))
    return short is not None and (f'"{short}"' in text or f"{short}[" in text)


def _fields_of(rows: Iterable[Json]) -> list[str]:
    """Return the names of all fields that have a value in one of the rows, in their order."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(name for name, value in row.items() if _has_value(value)))
    return list(names)


def _has_value(value: object) -> bool:
    """Return whether a field says something: a number does, also 0, and false."""
    return value is not None and value not in ("", [], {}, ())


def _chosen_fields(
    answer: Answer, selection: RowSelection, every_field: Sequence[str]
) -> Sequence[str]:
    if not selection.fields:
        wanted = answer.fields or every_field
        return [name for name in wanted if name in every_field]
    if list(selection.fields) == [ALL_FIELDS]:
        return every_field
    return selection.fields


def _check_fields(answer: Answer, rows: Sequence[Json], wanted: Sequence[str]) -> None:
    """Raise UsageError for a field that the rows do not have, with or without a value."""
    known = dict.fromkeys(answer.fields)
    for row in rows:
        known.update(dict.fromkeys(row))
    for name in wanted:
        if known and name not in known and name != ALL_FIELDS:
            raise UsageError(f"no row has a field {name!r}; there are: {', '.join(known)}")


def _with_fields(row: Json, fields: Sequence[str]) -> Json:
    kept = {name: row[name] for name in fields if name in row and _has_value(row[name])}
    if kept.get("line") == 0:
        del kept["line"]  # lines count from 1: 0 is none
    return kept


AS_BEFORE = "as in the row before"

LONG_TEXT = 80
"""Characters from which a text is not repeated."""


def _said_once(rows: Sequence[Json]) -> list[Json]:
    """Return the rows without the long reasons that the row before has, too: many lines of a
    function run in eager mode for one reason.
    """
    shown = []
    for at, row in enumerate(rows):
        before = rows[at - 1] if at else {}
        why = row.get("why")
        is_repeated = isinstance(why, str) and len(why) >= LONG_TEXT and why == before.get("why")
        shown.append({**row, "why": AS_BEFORE} if is_repeated else row)
    return shown


# Cutting an answer to its length.

TEXT_LENGTHS = (1_000_000, 100_000, 30_000, 10_000, 6_000, 2_000, 800, 400, 200, 100)
"""Lengths to which long texts are shortened, one after the other, until the answer fits."""

LIST_LENGTHS = (10_000, 2_000, 500, 200, 200, 60, 25, 12, 6, 3)
"""Lengths to which long lists are shortened in the same steps."""


def _fitted(content: Json, selection: RowSelection) -> str:
    """Return the content as JSON of at most so many characters: long texts and lists are shortened
    first, then rows left out from the end.
    """
    rows: list[Json] = content["rows"]
    for text_length, list_length in zip(TEXT_LENGTHS, LIST_LENGTHS, strict=True):
        cutter = _Cutter(text_length, list_length)
        cut = {name: cutter.cut(value) for name, value in content.items() if name != "rows"}
        cut_rows = [cutter.cut(row) for row in rows]
        text = _written(cut, cut_rows, cutter, selection)
        if len(text) <= selection.characters:
            return text
    while cut_rows:
        cut_rows = cut_rows[: -max(1, len(cut_rows) // 10)]
        text = _written(cut, cut_rows, cutter, selection)
        if len(text) <= selection.characters:
            return text
    return text


class _Cutter:
    """Shortens texts and lists, and remembers whether it did."""

    def __init__(self, text_length: int, list_length: int) -> None:
        self.text_length = text_length
        self.list_length = list_length
        self.has_cut = False

    def cut(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._cut_text(value)
        if isinstance(value, dict):
            entries = [(name, item) for name, item in value.items() if _has_value(item)]
            self.has_cut |= len(entries) > self.list_length
            return {str(name): self.cut(item) for name, item in entries[: self.list_length]}
        if isinstance(value, list | tuple):
            self.has_cut |= len(value) > self.list_length
            return [self.cut(item) for item in value[: self.list_length]]
        return value

    def _cut_text(self, text: str) -> str:
        if len(text) <= self.text_length:
            return text
        self.has_cut = True
        left_out = len(text) - self.text_length
        return f"{text[: self.text_length]}… ({counted(left_out, 'more character')})"


def _written(cut: Json, rows: Sequence[Json], cutter: _Cutter, selection: RowSelection) -> str:
    """Return the JSON: each entry on a line of its own, and each row."""
    content = {name: value for name, value in cut.items() if _has_value(value)}
    notes = _notes(content.get("count", 0), len(rows), cutter, selection)
    if notes:
        content["left_out"] = notes
    lines = [f" {_json(name)}: {_json(value)}" for name, value in content.items()]
    if rows:
        of_rows = ",\n".join(f"  {_json(row)}" for row in rows)
        lines.append(f' "rows": [\n{of_rows}\n ]')
    else:
        lines.append(' "rows": []')
    return "{\n" + ",\n".join(lines) + "\n}\n"


_CONTROL = re.compile("[\x7f-\x9f]")
"""Characters that JSON leaves as they are, and that some terminals obey."""


def _json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _notes(count: int, shown: int, cutter: _Cutter, selection: RowSelection) -> list[str]:
    """Return what is not in the answer, and how to ask for it."""
    notes = []
    end = selection.skip + shown
    if end < count:
        first = selection.skip + 1
        rows = f"rows {first:,} to {end:,}" if shown else "no rows"
        notes.append(f"{rows} of {count:,}; --skip {end} shows the next ones")
    if cutter.has_cut:
        notes.append(
            f"texts are cut off in the output after {cutter.text_length:,} characters and lists "
            f"after {cutter.list_length:,} items; for more: --characters 100000, or one row with "
            "--limit 1 --skip N, or --fields NAME"
        )
    return notes
