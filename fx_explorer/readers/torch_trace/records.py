"""A log as records: a line with JSON, and below it, indented by a tab, the text that belongs to it.

torch/_logging/_internal.py, ``TorchLogsFormatter`` and ``trace_structured``: the JSON names the kind of the
record, the compilation it is about, and the MD5 of its text, so that a text that was changed or cut off is
known. A line that is no record is counted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

MOST_OF_A_LINE = 200_000_000
"""Bytes of a line that are looked at; nothing that torch writes is as long."""

MOST_DIGITS = 18

_BEGINS = re.compile(
    rb"(?:\[rank(?P<rank>\d+)\]:\s?)?[VIWEC](?P<month>\d\d)(?P<day>\d\d) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d\.\d+) "
    rb"(?P<thread>\d+) (?P<where>[^\]]{1,1000})\] (?P<json>\{.*)",
    re.S,
)

_RANK = re.compile(rb"\[rank\d+\]:\s?(?=\t)")

ABOUT = (
    "frame_id",
    "frame_compile_id",
    "attempt",
    "compiled_autograd_id",
    "rank",
    "has_payload",
    "stack",
    "pathname",
    "lineno",
    "subgraph_name",
)
"""Keys of a record that say what it is about. The other one is its kind."""


_NAMED = ("artifact", "graph_dump")
"""Kinds whose content says what the record is."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the trace."""

    kind: str
    """torch's name: ``dynamo_output_graph``; of an artifact ``artifact``."""
    content: Any
    compilation: str
    """``0/1``, ``!0/0/1`` under compiled autograd; empty for what is of none."""
    attempt: int
    rank: int
    """-1 where the log does not say."""
    seconds: float
    """Since midnight, as the log has it."""
    payload: str
    line: int
    """From 1."""
    stack: Any = None
    """Where the program stood, for a record that is of no frame."""
    subgraph: str = ""
    """The part of the graph that the record is about, where torch compiles parts by themselves."""

    @property
    def name(self) -> str:
        """Return the name of an artifact and of a dumped graph, and the kind of any other record."""
        found = self.content.get("name") if self.kind in _NAMED and isinstance(self.content, dict) else None
        return str(found) if found else self.kind


@dataclass(slots=True)
class Damage:
    """What of a log could not be read."""

    skipped: int = 0
    """Lines outside any record, and records whose JSON is none."""
    wrong_hashes: int = 0
    """Records whose text is not the one torch wrote. They are read as they are."""
    is_cut_off: bool = False
    """Whether a packed log ends in the middle."""
    first_lines: list[int] = field(default_factory=list)
    """Where the first of them stand."""

    def note(self, line: int) -> None:
        if len(self.first_lines) < 10:
            self.first_lines.append(line)


def records(lines: Iterable[bytes], damage: Damage) -> Iterator[Record]:
    """Yield the records of a log, and count in ``damage`` what is none."""
    head: re.Match[bytes] | None = None
    head_line, below = 0, []
    for number, raw in enumerate(lines, 1):
        line = raw.rstrip(b"\n")[:MOST_OF_A_LINE]
        if line[:5] == b"[rank":
            line = _RANK.sub(b"", line, count=1)
        if line[:1] == b"\t":
            if head is not None:
                below.append(line[1:])
            else:
                damage.skipped += 1
                damage.note(number)
            continue
        begins = _BEGINS.match(line)
        if begins is None:
            if line.strip():
                damage.skipped += 1
                damage.note(number)
            continue
        if head is not None:
            yield from _record(head, head_line, below, damage)
        head, head_line, below = begins, number, []
    if head is not None:
        yield from _record(head, head_line, below, damage)


def _record(head: re.Match[bytes], line: int, below: list[bytes], damage: Damage) -> Iterator[Record]:
    try:
        fields = json.loads(head["json"], parse_int=_whole, parse_constant=_no_number)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        damage.skipped += 1
        damage.note(line)
        return
    text = b"\n".join(below)
    expected = fields.get("has_payload")
    if expected is not None and hashlib.md5(text, usedforsecurity=False).hexdigest() != expected:
        damage.wrong_hashes += 1
        damage.note(line)
    kind = next((key for key in fields if key not in ABOUT), "")
    seconds = int(head["hour"]) * 3600 + int(head["minute"]) * 60 + float(head["second"])
    rank = fields.get("rank", int(head["rank"]) if head["rank"] else -1)
    yield Record(
        kind,
        fields.get(kind),
        _compilation(fields),
        _number(fields.get("attempt"), 0),
        _number(rank, -1),
        seconds,
        text.decode("utf-8", "replace"),
        line,
        fields.get("stack"),
        str(fields.get("subgraph_name") or ""),
    )


def _whole(digits: str) -> int | str:
    """Return a number that a session can hold; what has more digits stays a text."""
    return int(digits) if len(digits) <= MOST_DIGITS else digits


def _no_number(_: str) -> None:
    """Leave out NaN and infinities, which JSON does not have."""


def _compilation(fields: dict[str, Any]) -> str:
    """Return the name as torch writes it (torch/_guards.py, ``CompileId.__str__``)."""
    frame, compile_id, outer = (fields.get(key) for key in ("frame_id", "frame_compile_id", "compiled_autograd_id"))
    inner = "" if frame is None or compile_id is None else f"{_number(frame, 0)}/{_number(compile_id, 0)}"
    if outer is None:
        return inner
    return f"!{_number(outer, 0)}" + (f"/{inner}" if inner else "")


def _number(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise
