"""A text with lines of ``TORCH_LOGS`` is read as messages: what torch wrote at once, without what
stands before each line.

``TorchLogsFormatter`` (torch/_logging/_internal.py) puts level, time, thread, place, compilation
and the name of the artifact before every line of a message. What lies between may be anybody's: the
program's own output, or what a terminal or a forum put there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.readers.torch_trace.opened import lines_of, opened
from fx_explorer.readers.torch_trace.records import Damage

_LINE = re.compile(
    r"(?:\[rank(?P<rank>\d+)\]:\s?)?[VIWEC]\d{4} "
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d\.\d+) \d+ (?P<where>[^\]]+)\] "
    r"(?:\[(?P<compilation>!?[\d/]+)(?:_(?P<attempt>\d+))?\] ?)?(?:\[__(?P<artifact>\w+)\] ?)?"
    r"(?P<text>.*)"
)

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


_RANK = re.compile(rb"^[ >]*(?:\x1b\[[0-9;]*m)*\[rank(?P<rank>\d{1,7})\]:")


def rank_printed(line: bytes) -> int | None:
    """Return the rank that torch put in front of a line; None for a line without one."""
    match = _RANK.match(line)
    return int(match["rank"]) if match else None


def printed_ranks(text: Path) -> tuple[tuple[int, int], ...]:
    """Return (rank, lines that say so) of a text, in the order of their numbers.

    Raises SessionError where it cannot be read.
    """
    counts = Counter[int]()
    with opened(text, Damage()) as log:
        for line in lines_of(log.blocks):
            rank = rank_printed(line)
            if rank is not None:
                counts[rank] += 1
    return tuple(sorted(counts.items()))


@dataclass(frozen=True, slots=True)
class Message:
    """What torch wrote at once."""

    artifact: str
    """``graph_breaks``, ``output_code``; empty for a warning and the like."""
    compilation: str
    attempt: int
    rank: int
    seconds: float
    text: str
    line: int
    """The first, from 1."""


@dataclass(slots=True)
class Others:
    """Lines that torch's logging did not write."""

    lines: list[str]


def messages(lines: Iterable[str], others: Others) -> Iterator[Message]:
    """Yield the messages, and put every other line into ``others``."""
    key: tuple[str, ...] | None = None
    begun: tuple[int, re.Match[str]] | None = None
    below: list[str] = []
    for number, raw in enumerate(lines, 1):
        line = _COLOURS.sub("", raw.rstrip("\r\n"))
        if line[:1] in (" ", ">"):
            match = _LINE.match(line.lstrip(" >"))
        else:
            match = _LINE.match(line)
        if not match:
            if line.strip():
                others.lines.append(line)
            continue
        head = match.group(
            "rank", "hour", "minute", "second", "where", "compilation", "attempt", "artifact"
        )
        texts = tuple(text or "" for text in head)
        if begun is not None and texts != key:
            yield _message(*begun, below)
            begun = None
        if begun is None:
            begun, key, below = (number, match), texts, []
        below.append(match["text"])
    if begun is not None:
        yield _message(*begun, below)


def _message(line: int, first: re.Match[str], below: list[str]) -> Message:
    seconds = int(first["hour"]) * 3600 + int(first["minute"]) * 60 + float(first["second"])
    compilation = first["compilation"] or ""
    return Message(
        first["artifact"] or "",
        compilation if "/" in compilation else "",
        int((first["attempt"] or "0")[:9]),
        int((first["rank"] or "-1")[:9]),
        seconds,
        "\n".join(below),
        line,
    )
