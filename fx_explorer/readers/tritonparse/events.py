"""This module reads a log of tritonparse as events, and collects what the launches of a kernel were
given: for each field, which values, and in which of the launches.

An event is a line with a JSON object, which says what kind it is (``event_type``).
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
    """Line of the event in the log, from 1."""
    seconds: float
    """Seconds since midnight, as the log has them; 0 where it has none."""

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
    if not isinstance(value, dict):
        return {}
    return value


def launching_frame(places: Places, stack: Any) -> Frame | None:
    """Return the line that launched a kernel, or had it compiled: the innermost one outside torch
    and Triton.
    """
    frames = places.frames(stack)
    for frame in reversed(frames):
        if not is_torch(frame.file) and not _OF_TRITON.search(frame.file):
            return frame
    return places.user_frame(frames)


def is_tuning(stack: Any) -> bool:
    """Return whether a kernel was launched to be timed beside others, by Triton's autotuner or
    Inductor's.
    """
    if not isinstance(stack, list):
        return False
    frames = [frame for frame in stack if isinstance(frame, dict)]
    return any((_base(frame), frame.get("name")) in _TUNING for frame in frames)


_TUNING = {
    ("autotuner.py", "_bench"),
    ("triton_heuristics.py", "bench"),
    ("triton_heuristics.py", "benchmark_all_configs"),
}


def _base(frame: dict[str, Any]) -> str:
    return str(frame.get("filename")).rpartition("/")[2]


_OF_TRITON = re.compile(
    r"(?:site-packages|dist-packages|python)/triton/"
    r"|/triton/(?:runtime|compiler|backends|testing)\b|"
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


# What the launches of a kernel were given.


MOST_VALUES = 40
"""Values of one field that are kept apart."""

MOST_RANGES = 200

SHOWN_VALUES = 12

OTHERS = "other values"

USUAL = (("is_contiguous", True), ("storage_offset", 0), ("type", "tensor"), ("type", "NoneType"))
"""Parts of an argument that are not worth a line."""

VOLATILE = (
    "data_ptr",
    "dtype",
    "device",
    "timestamp",
    "function",
    "blob_path",
    "memory_usage",
    "numel",
    "element_size",
)
"""Parts of an argument that are shown otherwise, or of no interest: where it lay, and what follows
from shape and type.
"""


class Given:
    """Collects the fields of launches, which are numbered from 1 in the order of the log."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, list[list[int]]]] = {}
        """Field → value → first and last of each run of launches with it."""
        self.launches = 0

    def add(self, launch: dict[str, Any]) -> None:
        self.launches += 1
        for name, value in fields_of(launch):
            known = self._values.setdefault(name, {})
            key = value if value in known or len(known) < MOST_VALUES else OTHERS
            runs = known.setdefault(key, [])
            if runs and (runs[-1][1] == self.launches - 1 or len(runs) >= MOST_RANGES):
                runs[-1][1] = self.launches
                runs[-1][2] += 1
            else:
                runs.append([self.launches, self.launches, 1])

    def same(self) -> Iterator[tuple[str, str]]:
        """Yield (field, value) of what was the same in every launch."""
        for name, values in self._values.items():
            if not self._differs(values):
                yield name, next(iter(values))

    def different(self) -> Iterator[tuple[str, list[str]]]:
        """Yield (field, values in words, the most frequent first) of what was not."""
        for name, values in self._values.items():
            if self._differs(values):
                ordered = sorted(values.items(), key=lambda item: -_count(item[1]))
                parts = [f"{value}  {_times(runs)}" for value, runs in ordered[:SHOWN_VALUES]]
                rest = len(ordered) - SHOWN_VALUES
                yield name, parts + [f"… and {rest} more values"] * (rest > 0)

    def _differs(self, values: dict[str, list[list[int]]]) -> bool:
        return len(values) > 1 or sum(map(_count, values.values())) < self.launches


def fields_of(launch: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what was given: grid, stream, and each argument's value or what kind of tensor it
    is.
    """
    for name in ("grid", "stream", "pid"):
        if name in launch:
            yield name, _plain(launch[name])
    for source in ("extracted_args", "extracted_inductor_args"):
        for name, argument in table(launch.get(source)).items():
            described = table(argument)
            if not described:
                yield name, _plain(argument)
                continue
            if "value" in described:
                yield name, _plain(described["value"])
                continue
            if described.get("type") == "tensor":
                yield (
                    name,
                    (
                        f"tensor of {str(described.get('dtype')).removeprefix('torch.')} on "
                        f"{described.get('device')}"
                    ),
                )
            for part, value in described.items():
                if part not in VOLATILE and (part, value) not in USUAL:
                    yield f"{name}.{part}", _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        items = [_plain(item) for item in value[:12]]
        more = ", …" if len(value) > 12 else ""
        return f"[{', '.join(items)}{more}]"
    return str(value)[:200].replace("\n", " ")


def _count(runs: Iterable[list[int]]) -> int:
    return sum(run[2] for run in runs)


def _times(runs: list[list[int]]) -> str:
    """Return ``× 248 (launches 1-66, 260-441)``."""
    parts = []
    for first, last, _ in runs[:3]:
        if first == last:
            parts.append(str(first))
        else:
            parts.append(f"{first}-{last}")
    more = ", …" if len(runs) > 3 else ""
    if len(runs) == 1 and runs[0][0] == runs[0][1]:
        noun = "launch"
    else:
        noun = "launches"
    return f"× {_count(runs):,} ({noun} {', '.join(parts)}{more})"
