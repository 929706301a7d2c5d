"""These helpers read torch's own reports without fx-explorer's code: the second source of the tests
on graph breaks.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

Line = tuple[str, int]
"""File and line from 1."""

BREAK = "dynamo_graph_break_reason"

_PLACE = re.compile(r"^Graph break in user code at (.+):(\d+)$", re.M)
_BACKEND = re.compile(r"^WON'T CONVERT \S+ (.+) line (\d+)$", re.M)
_FRAME = re.compile(r'^ *File "(.+)", line (\d+), in', re.M)


@contextlib.contextmanager
def heard_breaks() -> Iterator[list[str]]:
    """Payloads of the graph break records that torch writes in the block."""
    payloads: list[str] = []

    class Hears(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.metadata.get("artifact", {}).get("name") == BREAK:  # type: ignore[attr-defined]
                payloads.append(record.payload)  # type: ignore[attr-defined]

    handler = Hears()
    logging.getLogger("torch.__trace").addHandler(handler)
    try:
        yield payloads
    finally:
        logging.getLogger("torch.__trace").removeHandler(handler)


def read_breaks(folder: Path) -> list[str]:
    """The same out of the logs that TORCH_TRACE=folder made: a line of JSON after glog's prefix,
    and the payload indented.
    """
    payloads: list[str] = []
    for log in sorted(folder.glob("*.log")):
        for record in re.split(r"^(?=V\d{4} )", log.read_text(), flags=re.M):
            first, _, payload = record.partition("\n")
            if (
                f'"{BREAK}"' in first
                and json.loads(first[first.index("{") :])["artifact"]["name"] == BREAK
            ):
                payloads.append(
                    "".join(line.removeprefix("\t") for line in payload.splitlines(keepends=True))
                )
    return payloads


def line_of(payload: str) -> Line:
    """Return the place of the break in a record; a record without that sentence ends its user stack
    there.
    """
    place = _PLACE.search(payload) or _BACKEND.match(payload)
    if place:
        return place[1], int(place[2])
    file, line = _FRAME.findall(payload.partition("\nTraceback (most recent call last)")[0])[-1]
    return file, int(line)
