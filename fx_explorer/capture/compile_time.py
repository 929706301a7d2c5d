"""A clock measures how long each phase of compiling spends on each line of the user's.

The phases are torch's own timed events. Hooks tell the clock the line (line_times.py): while
Dynamo traces, and while the nodes of a graph are gone through.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

# The clock of one phase, which stands still while another phase runs within it.


class TracedModuleLine(NamedTuple):
    """A line of the user's code, and the module for which it is traced."""

    path: str
    line: int
    module: str
    """The innermost module: ``layers.0.fc1``; empty for none."""


class LineClock:
    """The clock of one phase. It counts seconds by line of the user's."""

    __slots__ = ("_at", "_since_s", "sums")

    def __init__(self) -> None:
        self.sums: dict[TracedModuleLine, float] = {}
        """Seconds by line, in the order of the lines' first use in the phase."""
        self._at: TracedModuleLine | None = None
        self._since_s: float | None = None
        """Start of the current count; None while the clock is stopped."""

    def is_at(self, line: TracedModuleLine | None) -> bool:
        """Return whether the clock counts for this line already."""
        return line == self._at and self._since_s is not None

    def turn_to(self, line: TracedModuleLine | None, time_s: float) -> None:
        """Count for another line from now on; None for no line."""
        self.stand_still(time_s)
        self._at, self._since_s = line, time_s
        if line is not None:
            self.sums.setdefault(line, 0.0)

    def stand_still(self, time_s: float) -> None:
        """Add the elapsed time to the current line, and stop."""
        if self._at is not None and self._since_s is not None:
            self.sums[self._at] += max(0.0, time_s - self._since_s)
        self._since_s = None

    def go_on(self, time_s: float) -> None:
        """Count for the same line again."""
        self._since_s = time_s


# The phases that run now, by thread: events that have begun and not ended.


@dataclass(eq=False, slots=True)
class OpenPhase:
    """A timed phase of torch's that has begun and not ended."""

    name: str
    start_s: float
    variant: int
    """Row of the variant to which the phase belongs; 0 if that is not known yet."""
    lines: LineClock = field(default_factory=LineClock)


class Phases:
    """Keeps the nested phases that are running. Times are those of ``now``, a clock in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._open: dict[int, list[OpenPhase]] = {}
        self._threads: dict[int, str] = {}

    def begin(self, name: str, time_s: float, variant: int) -> None:
        running = self._open.setdefault(threading.get_ident(), [])
        if running:
            running[-1].lines.stand_still(time_s)
        else:
            self._threads[threading.get_ident()] = _name_of_thread()
        running.append(OpenPhase(name, time_s, variant))

    def end(self, name: str, time_s: float) -> OpenPhase | None:
        """End the phase of this name that began last on this thread, and return it, if any."""
        running = self._open.get(threading.get_ident(), [])
        open_phase = next((phase for phase in reversed(running) if phase.name == name), None)
        if open_phase is None:
            return None
        open_phase.lines.stand_still(time_s)
        running.remove(open_phase)
        if running:
            running[-1].lines.go_on(time_s)
        return open_phase

    def turn_to(self, line: TracedModuleLine | None) -> None:
        """Record that the innermost phase of this thread has reached another line of the user's, or
        none.
        """
        running = self._open.get(threading.get_ident())
        if running and not running[-1].lines.is_at(line):
            running[-1].lines.turn_to(line, self._now())

    @property
    def depth(self) -> int:
        """Return how many phases run on this thread, within each other."""
        return len(self._open.get(threading.get_ident(), ()))

    @property
    def thread(self) -> str:
        """Return the name of this thread; empty for the program's main thread."""
        return self._threads.get(threading.get_ident(), "")


def _name_of_thread() -> str:
    """Return the name of this thread. A thread that Python did not start has none: asking Python
    for it would add it to the threads that the program sees.
    """
    this_thread = threading.get_ident()
    if this_thread == threading.main_thread().ident:
        return ""
    for thread in threading.enumerate():
        if thread.ident == this_thread:
            return thread.name
    return f"thread {this_thread}"
