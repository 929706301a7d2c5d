"""How long a program spends at its graph breaks: a worker of its own builds it, and calls it again
and again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fx_explorer.errors import UsageError
from fx_explorer.model import BreakTime, CallTime, CaptureRequest, GraphBreak
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.trials.recapture import (
    HERE,
    Told,
    TrialWorker,
    recapture,
    say_nothing,
    straight_through,
    to_its_end,
)

TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class BreakTimes:
    """The times that were measured, apart from any session."""

    call: CallTime
    at_breaks: tuple[tuple[tuple[str, int, str], BreakTime], ...]
    """The times at breaks, by ``GraphBreak.cause``."""


def why_not_measured(request: CaptureRequest | None) -> str:
    """Say why breaks cannot be measured; empty when nothing is known to be in the way."""
    if request is None:
        return "The session does not say how it was captured. Open its target: fx-explorer TARGET."
    if request.as_script:
        return (
            "A script cannot be called again and again: give the function or module it "
            "compiles as a target, FILE:OBJECT."
        )
    return "Nothing can be run on a GPU that is not there." if request.gpu else ""


async def measure_breaks(
    request: CaptureRequest, tell: Told = say_nothing, worker: TrialWorker = HERE
) -> BreakTimes:
    """Measure how long the program spends at its breaks. ``request`` is what the session of the
    breaks was captured with. Raises UsageError when there is nothing to measure, or the program
    does not come through.
    """
    problem = why_not_measured(request)
    if problem:
        raise UsageError(problem)
    measured = straight_through(request, verify=False, build=True, measure_breaks=True)
    again = await recapture(
        measured, worker, _found, attend=partial(to_its_end, tell=tell), limit_s=TIMEOUT_S
    )
    if again.found is None or not again.is_whole:
        raise UsageError(
            f"Its breaks could not be measured: {again.outcome.message or 'nothing was compiled'}"
        )
    return again.found


def _found(reader: SessionReader) -> BreakTimes | None:
    calls = reader.rows(CallTime)
    causes = {hit.id: hit.cause for hit in reader.rows(GraphBreak)}
    if calls:
        return BreakTimes(
            calls[-1], tuple((causes[row.graph_break], row) for row in reader.rows(BreakTime))
        )
    return None


def add_break_times(session: Path, times: BreakTimes) -> int:
    """Add the times to the session that they were measured for. Returns how many breaks of it were
    measured. Raises SessionWriteError.
    """
    with SessionReader(session) as reader:
        first = {hit.cause: hit.id for hit in reversed(reader.rows(GraphBreak))}
    known = [(first[cause], row) for cause, row in times.at_breaks if cause in first]
    with SessionWriter(session) as writer, writer.transaction():
        call = writer.add(replace(times.call, id=0))
        writer.add_all(replace(row, id=0, call=call, graph_break=hit) for hit, row in known)
    return len(known)
