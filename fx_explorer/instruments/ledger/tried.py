"""What each remedy that was measured saves of a call, in sentences: against the program as it is,
round by round, so that what slows the machine down hits both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median

from fx_explorer.analysis.measured_times import run_time
from fx_explorer.instruments.bench.interval import BETWEEN_PROCESSES, Interval, median_interval
from fx_explorer.instruments.ledger.remedies import Remedy
from fx_explorer.model import BenchCell, BenchClock, BenchRound
from fx_explorer.session import SessionReader


def tried(reader: SessionReader, remedies: Mapping[str, Remedy], plain: str) -> list[str]:
    """Return a sentence for each remedy that was measured. ``remedies`` are by the name of their
    contender, ``plain`` is the contender without one.
    """
    cells = {row.contender: row for row in reader.rows(BenchCell)}
    rounds = {name: _rounds(reader, cell) for name, cell in cells.items()}
    before = rounds.get(plain, {})
    known = [(one, cells[name], rounds[name]) for name, one in remedies.items() if rounds.get(name)]
    return [
        f"{one.name}: {'; '.join(_told(one, cell, before, after))}." for one, cell, after in known
    ]


def _told(
    one: Remedy, cell: BenchCell, before: Mapping[int, float], after: Mapping[int, float]
) -> Iterator[str]:
    if cell.agreement == "differs":
        yield "gives other results"
    else:
        yield saved_in_words(before, after, cell.clock)
    yield one.why
    if one.risk:
        yield f"what it risks: {one.risk}"


def saved_in_words(
    before: Mapping[int, float], after: Mapping[int, float], clock: BenchClock
) -> str:
    """Return ``saves 3.1 µs of 20.1 µs (2.9 µs to 3.4 µs)``, given seconds of a call by round. Both
    were measured in processes of their own, which differ too.
    """
    both = sorted(before.keys() & after.keys())
    saved = median_interval([before[i] - after[i] for i in both])
    if saved is None:
        return "was not measured often enough to say what it saves"
    between_s = 2 * BETWEEN_PROCESSES[clock] * median(before[i] for i in both)
    saved = Interval(saved.middle, saved.low - between_s, saved.high + between_s)
    if saved.low <= 0 <= saved.high:
        return f"no measurable difference ({_span(saved)})"
    verb = "saves" if saved.low > 0 else "costs"
    ends = _apart(saved)
    return (
        f"{verb} {run_time(abs(saved.middle))} of {run_time(median(before[i] for i in both))} "
        f"({ends})"
    )


def _apart(saved: Interval) -> str:
    low, high = sorted((abs(saved.low), abs(saved.high)))
    return f"{run_time(low)} to {run_time(high)}"


def _span(saved: Interval) -> str:
    """Return ``between 1.2 µs more and 0.8 µs less``."""
    return f"between {run_time(-saved.low)} more and {run_time(saved.high)} less"


def _rounds(reader: SessionReader, cell: BenchCell) -> dict[int, float]:
    return {
        row.number: row.call_s for row in reader.rows(BenchRound, cell=cell.id) if row.call_s > 0
    }
