"""A capture starts in phases, and this module keeps how long each of them takes on this machine:
the next start says how long it usually takes.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.folders import state_folder
from fx_explorer.outside_file import read_outside

PHASES = ("Python", "torch", "your program", "Dynamo")
"""Phases of a start, in their order."""

_OF_TORCH = ("importing torch", "importing the compiler", "ready")
_OF_DYNAMO = "Dynamo "

STARTS_KEPT = 5
"""Number of starts that are remembered: the machine may be another one tomorrow."""

MOST_BYTES = 10_000
"""Maximum number of bytes of the file that is kept."""


def phase_of(doing: str) -> int:
    """Return the index of the phase that the worker is in while it does this, in its own words."""
    if doing.startswith("starting Python"):
        return 0
    if doing.startswith(_OF_TORCH):
        return 1
    return 3 if doing.startswith(_OF_DYNAMO) else 2


@dataclass(frozen=True, slots=True)
class UsualTimes:
    """The seconds that the phases of earlier starts took."""

    seconds: Mapping[str, tuple[float, ...]]

    def describe(self, phase: int) -> str:
        """Return ``usually 10 to 15 s here``; empty where no start is remembered."""
        seconds = self.seconds.get(PHASES[phase], ())
        if not seconds:
            return ""
        least, most = round(min(seconds)), round(max(seconds))
        if most < 1:
            return "usually under 1 s here"
        if least == most:
            return f"usually {most} s here"
        return f"usually {least} to {most} s here"

    def middle_s(self, phase: int) -> float:
        """Return the usual seconds of a phase; 0 where they are not known."""
        seconds = sorted(self.seconds.get(PHASES[phase], ()))
        return seconds[len(seconds) // 2] if seconds else 0.0


def read_usual_times(path: Path | None = None) -> UsualTimes:
    """Return what earlier starts took; nothing where no file can be read, or it is damaged."""
    try:
        stored = json.loads(read_outside(path or _file(), MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return UsualTimes({})
    times = {}
    for phase in PHASES:
        row = stored.get(phase) if isinstance(stored, dict) else None
        if isinstance(row, list):
            times[phase] = tuple(float(value) for value in row if _is_time(value))[-STARTS_KEPT:]
    return UsualTimes(times)


def keep_times(took: Mapping[str, float], path: Path | None = None) -> None:
    """Remember what the phases of a start took. Where that cannot be written, the next start does
    without it.
    """
    file = path or _file()
    usual = read_usual_times(file)
    stored = {}
    for phase in PHASES:
        seconds = list(usual.seconds.get(phase, ()))
        if phase in took:
            seconds.append(round(took[phase], 2))
        stored[phase] = seconds[-STARTS_KEPT:]
    written = file.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(json.dumps(stored) + "\n", encoding="utf-8")
        os.replace(written, file)


def _file() -> Path:
    return state_folder() / "starts.json"


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 86_400


class StartClock:
    """Knows in which phase a start is, and for how long. Phases are left once: a script that runs
    on between two graphs is still with Dynamo.
    """

    def __init__(self) -> None:
        self.usual = read_usual_times()
        self.phase = 0
        self.doing = ""
        self._began_s = 0.0
        self.took: dict[str, float] = {}
        """Seconds of the phases that are over."""
        self._is_over = False

    def look(self, doing: str, elapsed_s: float) -> None:
        """Take in what the worker does ``elapsed_s`` seconds after the start."""
        self.doing = doing
        phase = phase_of(doing)
        if phase > self.phase:
            self.took[PHASES[self.phase]] = elapsed_s - self._began_s
            self.phase, self._began_s = phase, elapsed_s

    def end(self, elapsed_s: float) -> None:
        """Remember what the phases took, because the program is captured."""
        if not self._is_over:
            self._is_over = True
            self.took[PHASES[self.phase]] = elapsed_s - self._began_s
            keep_times(self.took)

    def sentence(self, elapsed_s: float) -> str:
        """Return ``importing torch · 6 s · usually 10 to 15 s here``."""
        parts = [self.doing, f"{elapsed_s - self._began_s:.0f} s", self.usual.describe(self.phase)]
        return " · ".join(part for part in parts if part)

    def share(self, elapsed_s: float) -> float:
        """Return how much of the start is over, from 0 to 1: by usual times, else by phases."""
        usual = [self.usual.middle_s(phase) for phase in range(len(PHASES))]
        now_s = elapsed_s - self._began_s
        if all(usual):
            over = sum(usual[: self.phase]) + min(now_s, usual[self.phase])
            return over / sum(usual)
        return self.phase / len(PHASES)
