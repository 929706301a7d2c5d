"""A trial that marks a size or number as dynamic and counts the compilations again.

No source is changed for it: torch takes the marks from an environment variable
(``torch.compiler.config.dynamic_sources``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fx_explorer.analysis.whole_session import totals
from fx_explorer.analysis.words import counted
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionReader
from fx_explorer.trials import HERE, TrialWorker, recapture, straight_through

VARIABLE = "TORCH_COMPILE_DYNAMIC_SOURCES"


@dataclass(frozen=True, slots=True)
class DynamicMarkTrial:
    before: int
    """Compilations."""
    after: int | None
    """How many compilations there were with the marks; None when the program could not be captured
    to its end.
    """
    problem: str
    """Why it could not."""
    took_s: float

    is_timed_out: bool = False

    @property
    def is_good(self) -> bool:
        return self.after is not None and self.after < self.before

    @property
    def in_words(self) -> str:
        """Say the result: ``tried, 3 compilations → 1``."""
        if self.is_timed_out:
            return f"timed out: {self.problem}, not verified"
        if self.after is None:
            return f"tried, and the program failed: {self.problem}"
        return f"tried, {counted(self.before, 'compilation')} → {self.after}"


async def try_marks(
    request: CaptureRequest, sources: Sequence[str], before: int, worker: TrialWorker = HERE
) -> DynamicMarkTrial:
    """Capture the program with these sizes marked. ``sources`` are as the variable takes them:
    ``L['x']:0``. ``request`` is what the session was captured with, ``before`` the compilations in
    it. Raises nothing for what the user's program does.
    """
    marked = {VARIABLE: ",".join(sources)}
    again = await recapture(straight_through(request), worker, _compilations, environment=marked)
    problem = "" if again.is_whole else again.outcome.message or again.outcome.kind
    return DynamicMarkTrial(
        before,
        again.found if again.is_whole else None,
        problem,
        again.took_s,
        again.outcome.kind == "timed_out",
    )


def _compilations(reader: SessionReader) -> int:
    return totals(reader).compilations
