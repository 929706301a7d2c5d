"""The phases that run now, by thread: torch's own events that have begun and not ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from fx_explorer.capture.compile_time.line_clock import LineClock, UserLine


@dataclass(eq=False, slots=True)
class OpenPhase:
    """An event that has begun."""

    name: str
    start_s: float
    variant: int
    """The variant that it belongs to; 0 where that is not known yet."""
    lines: LineClock = field(default_factory=LineClock)


class Phases:
    """What runs within what. Times are those of ``now``, a clock in seconds."""

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
        """Return the phase of this name that began last on this thread; None where there is none."""
        running = self._open.get(threading.get_ident(), [])
        found = next((phase for phase in reversed(running) if phase.name == name), None)
        if found is None:
            return None
        found.lines.stand_still(time_s)
        running.remove(found)
        if running:
            running[-1].lines.go_on(time_s)
        return found

    def turn_to(self, line: UserLine | None) -> None:
        """Note that the innermost phase of this thread is at another line of the user's, or at none."""
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
    """Name this thread. One that Python did not start has no name: to ask Python for it would add it to the
    threads that the program sees.
    """
    own = threading.get_ident()
    if own == threading.main_thread().ident:
        return ""
    return next(
        (thread.name for thread in threading.enumerate() if thread.ident == own), f"thread {own}"
    )
