"""This module follows a capture while it runs: it has the present activity of the worker, in a few
words for the header and pipeline bar.

The data itself is in the session file; notices only say that it changed.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from fx_explorer.analysis.worker_steps import describe_step
from fx_explorer.model import GATE_WORDS, Command, Direction, Gate, Mark, Notice, Outcome, Stage


class CaptureLike(Protocol):
    """The interface of ``client.Capture`` that the app uses; tests inject their own."""

    session_path: Path
    outcome: Outcome | None
    left_behind: str
    """Sentence on processes of the program that are still running after the capture."""
    history_problem: str
    """Sentence on why the capture could not be kept in the history; empty for none."""

    @property
    def kept_name(self) -> str:
        """Return ``history:17``, once the capture is kept there; empty before, and elsewhere."""

    @property
    def is_temporary(self) -> bool: ...

    def keep(self) -> None: ...

    async def start(self) -> None: ...

    def notices(self) -> AsyncIterator[Notice]: ...

    async def wait(self) -> Outcome: ...

    async def cancel(self, grace_s: float = ...) -> Outcome: ...

    def discard(self) -> None: ...

    def send(self, command: Command) -> None: ...


@runtime_checkable
class LogReadingLike(Protocol):
    """The additional interface for reading a log."""

    def look_at(self, compilation: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """The gate at which the worker is paused."""

    gate: Gate | None = None
    """The gate; None when the program has ended, and every stage can be compiled again."""
    compilation: str = ""
    direction: Direction = ""
    published: str = ""
    """The stage that a backend has published, at its gate: ``segments of small_backend``."""

    @property
    def after(self) -> str:
        """Complete “paused after …”; empty when all stages are recorded."""
        if self.published or not self.gate:
            return self.published
        return GATE_WORDS[self.gate]


OpenT = TypeVar("OpenT", Waiting, Command)


class LiveCapture:
    """One capture and its latest news. ``follow`` runs until the capture is over."""

    def __init__(self, capture: CaptureLike) -> None:
        self.capture = capture
        self.doing = "starting Python"
        self.reading: tuple[str, int] | None = None
        """The file and line that Dynamo is reading; None while it reads none."""
        self.is_over = False
        self.is_through = False
        """Whether Dynamo has seen the whole program. Compiling may still lie ahead."""
        self._began = time.monotonic()
        self._notices = capture.notices()
        self._open: list[Waiting | Command] = []
        """Gates not left and commands not answered, innermost last."""
        self._stopped_at = 0.0
        self._open_stages: Counter[Stage] = Counter()
        self.notes: list[str] = []
        """Notes of the worker for the user that no view shows, oldest first."""
        self.answers: deque[Notice] = deque()
        """Answers ``done`` and ``refused`` that have not been shown yet."""
        self.marks: list[Mark] = []
        """Regions the user marked at gates; a session has them only once something was compiled
        with them.
        """

    @property
    def session_path(self) -> Path:
        return self.capture.session_path

    @property
    def elapsed_s(self) -> float:
        """Return the seconds of work, without the time of waiting for the user."""
        return time.monotonic() - self._began

    @property
    def running_stages(self) -> frozenset[Stage]:
        """Return the stages that began and have not ended."""
        # The plus leaves out what is not above 0: stages that have ended, and ends without a
        # beginning.
        if self.is_over:
            return frozenset()
        return frozenset(+self._open_stages)

    async def start(self) -> None:
        """Create the session and start the worker. Raises FxExplorerError when that fails."""
        await self.capture.start()

    async def follow(self) -> None:
        """Follow the capture until it is over, or its program has ended and the worker stays for
        commands; then call it again.
        """
        async for notice in self._notices:
            self.take(notice)
            if notice.kind == "gate" and notice.state == "begin" and notice.gate is None:
                return
        await self.capture.wait()
        self.is_over = True

    @property
    def waiting(self) -> Waiting | None:
        """Return the pause at which the worker waits; None while it works."""
        top = self._open[-1] if self._open and not self.is_over else None
        return top if isinstance(top, Waiting) else None

    @property
    def has_ended(self) -> bool:
        """Return whether the program has ended. The worker may still exist, and compile another
        variant.
        """
        return self.is_over or Waiting() in self._open

    @property
    def is_at_rest(self) -> bool:
        """Return whether the worker is idle until a command comes."""
        return self.is_over or self.waiting == Waiting()

    @property
    def _is_obeying(self) -> bool:
        """Return whether a command is being carried out: an abort interrupts it, and has no answer
        but that command's.
        """
        return bool(self._open) and isinstance(self._open[-1], Command)

    def send(self, command: Command, doing: str) -> None:
        """Send the worker a command, and show ``doing``, what it does with it, at once."""
        # The program has ended: what is told now is how long the command takes.
        if self.waiting == Waiting():
            self._began = time.monotonic()
        if command.kind != "abort" or not self._is_obeying:
            self._open.append(command)
        self.doing = doing
        self.capture.send(command)

    def look_at(self, compilation: int) -> None:
        """Make the reader of a log decode this compilation next."""
        if isinstance(self.capture, LogReadingLike):
            self.capture.look_at(compilation)

    def take(self, notice: Notice) -> None:
        """Update the state from one notice of the worker."""
        if notice.kind == "worker":
            self.doing = notice.text
        elif (
            notice.kind == "note" and notice.stage is None
        ):  # a note on a stage (a graph break) is in the session too
            self.notes.append(notice.text)
        elif notice.kind == "phase" and notice.stage:
            self._open_stages[notice.stage] += 1 if notice.state == "begin" else -1
            self.doing = describe_step(notice) or self.doing
            self.reading = None
        elif notice.kind == "count":
            self.doing = describe_step(notice)
        elif notice.kind == "line":
            self.reading = notice.text, notice.line
            self.doing = describe_step(notice)
        elif notice.kind == "gate":
            self._take_gate(notice)
        elif notice.kind in ("done", "refused"):
            command = self._close(Command)
            if notice.kind == "done" and command and command.kind == "mark":
                self.marks += command.changes.marks
            self.answers.append(notice)

    def _take_gate(self, notice: Notice) -> None:
        if notice.state == "end":
            self._close(Waiting)
            # As if it had begun so much later: waiting for the user is no work.
            self._began += time.monotonic() - self._stopped_at
        elif notice.gate or not self.has_ended:
            self._stopped_at = time.monotonic()
            self.is_through |= notice.gate is None or (
                notice.gate == "dynamo" and not notice.compilation
            )
            self._open.append(
                Waiting(notice.gate, notice.compilation, notice.direction, notice.published)
            )

    def _close(self, kind: type[OpenT]) -> OpenT | None:
        """Close the innermost of this kind: at a gate a command is given, which may itself lead to
        a gate.
        """
        for i in reversed(range(len(self._open))):
            opened = self._open[i]
            if isinstance(opened, kind):
                del self._open[i]
                return opened
        return None

    async def stop(self, grace_s: float | None = None) -> None:
        """End the worker; if it has ended, do nothing."""
        if self.is_over:
            return
        if grace_s is None:
            await self.capture.cancel()
        else:
            await self.capture.cancel(grace_s)
        self.is_over = True
