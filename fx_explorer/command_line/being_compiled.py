"""One line says what is being compiled right now: which function, why (again), in which phase,
since when.

Notices of the worker tell the phases; the names and the reasons are in the session, which is read
while it grows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.naming import function_of, resumed_at
from fx_explorer.analysis.words import counted
from fx_explorer.errors import SessionError
from fx_explorer.instruments.recompiles.causes import cause_of
from fx_explorer.model import STAGES, Notice, Stage
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import file_name, in_file

STAGE_WORDS: dict[Stage, str] = {
    "dynamo": "tracing with Dynamo",
    "pre_grad": "rewriting the traced graph",
    "joint": "AOTAutograd",
    "forward": "AOTAutograd, splitting forward and backward",
    "backward": "AOTAutograd, backward",
    "post_grad": "rewriting the graph for Inductor",
    "schedule": "fusing",
    "output_code": "generating code",
    "kernel": "building kernels",
}


def bar(stage: Stage) -> str:
    """Draw how far through the stages a compilation is; a recompile or the next graph starts it
    again.
    """
    done = STAGES.index(stage) + 1
    return "=" * done + "." * (len(STAGES) - done)


PHASES_FOLLOW_S = 0.3
"""Seconds after a phase within which the next one is awaited: a backward that is compiled when it
is first needed has an end of its own nowhere else.
"""


@dataclass(frozen=True, slots=True)
class _Phase:
    compilation: str
    stage: Stage
    began_s: float


class BeingCompiled:
    """Hears the notices of one capture and says what is compiled at the moment."""

    def __init__(self, session: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._clock = clock
        self._open: list[_Phase] = []
        """Phases that have begun and not ended, in that order. They nest, and kernels are built
        side by side.
        """
        self._latest: _Phase | None = None
        self._ended_s = 0.0
        """When the latest phase ended, where none is open."""
        self._running: dict[str, float] = {}
        """Compilations that have not ended → when they began."""
        self._compilations: dict[str, tuple[str, str] | None] = {}
        """Name of each that the worker has reported → what is compiled, and why again; None while
        the session does not say.
        """
        self._program = ""

    def hear(self, notice: Notice) -> None:
        if notice.kind == "worker":
            self._program = notice.text
            self._open, self._latest = [], None
            self._running.clear()
        elif notice.kind == "compilation":
            self._hear_compilation(notice.compilation)
        elif notice.kind == "phase" and notice.stage in STAGE_WORDS:
            self._hear_phase(notice.stage, notice)

    def _hear_compilation(self, name: str) -> None:
        row = self._row(name)
        if row is not None and row.status == "running":
            self._running.setdefault(name, self._clock())
            self._compilations.setdefault(name, None)
        else:
            self._running.pop(name, None)

    def _hear_phase(self, stage: Stage, notice: Notice) -> None:
        # Kernels are built by threads, which know no compilation.
        name = notice.compilation
        if not name and self._latest:
            name = self._latest.compilation
        if notice.state == "begin":
            latest = self._latest
            if latest is None or (latest.compilation, latest.stage) != (name, stage):
                latest = _Phase(name, stage, self._clock())
            self._latest = latest
            self._open.append(latest)
            if name:
                self._compilations.setdefault(name, None)
            return
        ended = next((phase for phase in reversed(self._open) if phase.stage == stage), None)
        if ended is not None:
            self._open.remove(ended)
            self._ended_s = self._clock()

    def words(self) -> str:
        """Return the line; what the program does where nothing is compiled."""
        number = len(self._compilations)
        so_far = f" · {counted(number, 'compilation')} so far" if number > 1 else ""
        phase = self._open[-1] if self._open else None
        if phase is None and self._latest and self._clock() - self._ended_s < PHASES_FOLLOW_S:
            phase = self._latest
        if phase is not None:
            name, began_s = phase.compilation, phase.began_s
            drawn, doing = bar(phase.stage), STAGE_WORDS[phase.stage]
        elif self._running:
            name, began_s = list(self._running.items())[-1]
            drawn = bar(self._latest.stage) if self._latest else "." * len(STAGES)
            doing = "compiling"
        else:
            return f"{self._program}{so_far}"
        function, why = self._what(name)
        # What may be cut off at the edge of the terminal comes last.
        return f"{drawn} {function} · {doing} for {self._clock() - began_s:.1f} s{so_far}{why}"

    def _what(self, name: str) -> tuple[str, str]:
        """Return which function it is, and why it is compiled again; torch's name where the session
        does not say.
        """
        known = self._compilations.get(name) or self._looked_up(name)
        if known:
            self._compilations[name] = known
        if known:
            return known
        return (f"[{name}]" if name else "kernels"), ""

    def _looked_up(self, name: str) -> tuple[str, str] | None:
        row = self._row(name)
        if row is None or not row.function:
            return None
        try:
            with SessionReader(self._session) as reader:
                function, cause = function_of(row), cause_of(reader, row)
        except SessionError:
            return None  # it grows, and is read again at the next tick
        if resumed_at(row.function):  # says its line
            where = f" of {file_name(row.file)}"
        else:
            where = "" if " at " in function else f" {in_file(row.file, row.line)}"
        again = f" · again: {cause.in_words}" if cause else ""
        return f"{function}{where}", again

    def _row(self, name: str) -> model.Compilation | None:
        """Return what the session says of a compilation; None where it says nothing yet."""
        try:
            with SessionReader(self._session) as reader:
                rows = reader.rows(model.Compilation, name=name)
        except SessionError:
            return None
        return rows[-1] if rows else None
