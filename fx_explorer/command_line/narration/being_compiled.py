"""What is being compiled right now, in one line: which function, why (again), in which phase, since when.

Notices of the worker tell the phases; the names and the reasons are in the session, which is read while it grows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.naming.functions import function_of
from fx_explorer.analysis.recompiles.causes import cause_of
from fx_explorer.analysis.words import counted, in_file
from fx_explorer.errors import SessionError
from fx_explorer.model import STAGES, Notice, Stage
from fx_explorer.session import SessionReader

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


@dataclass(slots=True)
class _Phase:
    compilation: str
    stage: Stage
    began_s: float
    open: int = 0
    """Events of the phase that have begun and not ended. They nest, and kernels are built side by side."""


class BeingCompiled:
    """Hears the notices of one capture and says what is compiled at the moment."""

    def __init__(self, session: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._clock = clock
        self._phase: _Phase | None = None
        self._compilations: dict[str, tuple[str, str] | None] = {}
        """Name of each that anything was heard of → what is compiled, and why again; None while the session does not
        say.
        """
        self._program = ""

    def hear(self, notice: Notice) -> None:
        if notice.kind == "worker":
            self._program, self._phase = notice.text, None
        elif notice.kind == "phase" and notice.stage in STAGE_WORDS:
            self._hear_phase(notice.stage, notice)

    def _hear_phase(self, stage: Stage, notice: Notice) -> None:
        # Kernels are built by threads, which know no compilation.
        name = notice.compilation or (self._phase.compilation if self._phase else "")
        phase = self._phase
        if notice.state == "begin":
            if phase is None or (phase.compilation, phase.stage) != (name, stage):
                phase = self._phase = _Phase(name, stage, self._clock())
            phase.open += 1
            self._compilations.setdefault(name, None)
        elif phase is not None and phase.stage == stage:
            phase.open -= 1

    def words(self) -> str:
        """Return the line; what the program does where nothing is compiled."""
        phase, number = self._phase, len(self._compilations)
        if phase is None:
            return self._program
        so_far = f" · {counted(number, 'compilation')} so far" if number > 1 else ""
        if phase.open <= 0 and phase.stage == STAGES[-1]:
            return f"{self._program}{so_far}"
        function, why = self._what(phase.compilation)
        took = f"{self._clock() - phase.began_s:.1f} s"
        # What may be cut off at the edge of the terminal comes last.
        return f"{bar(phase.stage)} {function} · {STAGE_WORDS[phase.stage]} for {took}{so_far}{why}"

    def _what(self, name: str) -> tuple[str, str]:
        """Return which function it is, and why it is compiled again; torch's name where the session does not say."""
        known = self._compilations.get(name) or self._looked_up(name)
        if known:
            self._compilations[name] = known
        return known or (f"[{name}]", "")

    def _looked_up(self, name: str) -> tuple[str, str] | None:
        try:
            with SessionReader(self._session) as reader:
                rows = reader.rows(model.Compilation, name=name)
                if not rows or not rows[-1].function:
                    return None
                function, cause = function_of(rows[-1]), cause_of(reader, rows[-1])
        except SessionError:
            return None  # it grows, and is read again at the next tick
        where = "" if " at " in function else f" {in_file(rows[-1].file, rows[-1].line)}"
        return f"{function}{where}", f" · again: {cause.in_words}" if cause else ""
