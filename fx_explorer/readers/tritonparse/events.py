"""A log of tritonparse as events: one JSON object a line, which says what kind of event it is
(``event_type``).

tritonparse/structured_logging.py writes ``compilation``, ``launch`` and ``autotune``; what its
``parse`` makes of a log has these, too, with what it found added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fx_explorer.model import Frame
from fx_explorer.readers.torch_trace.places import Places, is_torch
from fx_explorer.readers.torch_trace.records import JSON_OF_LOGS, Damage, compilation_name


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the log."""

    kind: str
    fields: dict[str, Any]
    line: int
    """From 1."""
    seconds: float
    """Since midnight, as the log has it; 0 where it does not say."""

    @property
    def payload(self) -> dict[str, Any]:
        return table(self.fields.get("payload"))

    @property
    def compilation(self) -> str:
        """Return the name of torch's compilation that a kernel was compiled in; empty for one of
        the user's own.
        """
        return compilation_name(table(self.payload.get("pt_info")))


def events(lines: Iterable[bytes], damage: Damage) -> Iterator[Event]:
    """Yield the events, and count in ``damage`` the lines that are none."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = JSON_OF_LOGS.decode(line.decode())
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict) or not isinstance(fields.get("event_type"), str):
            damage.skipped += 1
            damage.note(number)
            continue
        yield Event(fields["event_type"], fields, number, _seconds(fields.get("timestamp")))


def table(value: Any) -> dict[str, Any]:
    """Return a JSON object; an empty one in the place of anything else."""
    return value if isinstance(value, dict) else {}


def launching_frame(places: Places, stack: Any) -> Frame | None:
    """Return the line that launched a kernel, or had it compiled: the innermost one outside torch
    and Triton.
    """
    frames = places.frames(stack)
    own = (
        frame
        for frame in reversed(frames)
        if not is_torch(frame.file) and not _OF_TRITON.search(frame.file)
    )
    return next(own, places.user_frame(frames))


def is_tuning(stack: Any) -> bool:
    """Return whether a kernel was launched to be timed beside others, by Triton's autotuner or
    Inductor's.
    """
    frames = stack if isinstance(stack, list) else []
    return any(
        (_base(frame), frame.get("name")) in _TUNING for frame in frames if isinstance(frame, dict)
    )


_TUNING = {
    ("autotuner.py", "_bench"),
    ("triton_heuristics.py", "bench"),
    ("triton_heuristics.py", "benchmark_all_configs"),
}


def _base(frame: dict[str, Any]) -> str:
    return str(frame.get("filename")).rpartition("/")[2]


_OF_TRITON = re.compile(
    r"(?:site-packages|dist-packages|python)/triton/|/triton/(?:runtime|compiler|backends|testing)\b|"
    r"/tritonparse/structured_logging\.py$|(?:^|/)torchinductor_[^/]*/"
)
"""Triton's and tritonparse's own files, and what Inductor generated."""


def _seconds(timestamp: Any) -> float:
    """Return the time of ``2025-07-07T19:58:27.%fZ``: tritonparse writes no fractions."""
    hour, _, rest = str(timestamp).partition("T")[2].partition(":")
    minute, _, second = rest.partition(":")
    digits = (hour, minute, second[:2])
    if not all(part.isdecimal() and len(part) == 2 for part in digits):
        return 0.0
    return float(int(hour) * 3600 + int(minute) * 60 + int(second[:2]))


def as_text(value: Any) -> str:
    """Return what an event has as text to be read."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
