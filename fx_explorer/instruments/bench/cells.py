"""The figures of a bench, cell by cell, read from a session."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import median
from typing import Any

from fx_explorer.analysis.measured_times import Interval, median_interval, ratios_by_round
from fx_explorer.instruments.bench.machine import Paces
from fx_explorer.model import BenchCell, BenchRound
from fx_explorer.session import SessionReader
from fx_explorer.spread import interquartile_range


@dataclass(frozen=True)
class CellFigures:
    """The measured figures of one cell of a bench."""

    cell: BenchCell
    call_s: float | None
    """Seconds per call, median over the rounds; None when there was no round."""
    iqr_s: float
    """Range of the middle half of the rounds."""
    rounds: int
    interval: Interval | None
    """The median with its interval; None if there are too few rounds."""
    speed_up: Interval | None
    """Speed relative to the program in eager mode; None for the program in eager mode itself, and
    for too few rounds.
    """
    rough_speed_up: Interval | None
    """The median, least and greatest speed-up of more than one round, but too few for an interval.
    The range contains the true value with probability ``rough_confidence``.
    """
    pays_after: int | None
    """The number of calls after which compiling has paid for itself; None if it never does, or if
    that is not known.
    """
    left_out: int = 0
    """Rounds that do not count: the threads took longer in them to share an operation."""
    disturbed: int = 0
    """Number of disturbed rounds that count all the same, because too few were undisturbed."""
    undisturbed_part: float = 1.0
    """Smallest share of the measured time that a call might take without the disturbance. Its
    intervals are widened by this.
    """

    @property
    def rough_confidence(self) -> float:
        """Return the probability that the range of all rounds contains the true median, which it
        misses only if all rounds lie on one side of the median.
        """
        return 1 - 2 * 0.5**self.rounds

    @property
    def is_wrong(self) -> bool:
        """Return whether the results differ from the baseline's. The speed of wrong results means
        nothing.
        """
        return self.cell.agreement == "differs"

    @property
    def is_faster(self) -> bool:
        """Return whether the whole interval lies above 1."""
        return self.speed_up is not None and self.speed_up.low > 1

    @property
    def is_slower(self) -> bool:
        return self.speed_up is not None and self.speed_up.high < 1


@dataclass(frozen=True)
class BenchFigures:
    """A bench: its cells in the order in which they were measured."""

    cells: Sequence[CellFigures]
    machine: dict[str, Any] = field(default_factory=dict)
    budget_s: float | None = None
    target: str = ""
    state: str = "finished"
    """``running``, ``stopped`` or ``finished``."""
    doing: str = ""
    """Describes the current activity, while the bench is running."""
    preparing_s: float = 0.0
    """Seconds that were spent once: on imports, compiling, comparing results; 0 where they are not
    known.
    """
    measuring_s: float = 0.0
    """Seconds that the rounds took."""

    @property
    def sizes(self) -> list[str]:
        """Return the sizes in words, each once."""
        return list(dict.fromkeys(cell.cell.size for cell in self.cells))

    @property
    def contenders(self) -> list[str]:
        return list(dict.fromkeys(cell.cell.contender for cell in self.cells))

    def of_contender(self, name: str) -> list[CellFigures]:
        return [cell for cell in self.cells if cell.cell.contender == name]

    def of_size(self, size: str) -> list[CellFigures]:
        return [cell for cell in self.cells if cell.cell.size == size]


def bench_figures(reader: SessionReader) -> BenchFigures | None:
    """Return the figures of the session's bench; None when it has none."""
    with reader.snapshot():
        cells, rounds = reader.rows(BenchCell), reader.rows(BenchRound)
        whole, target = reader.meta("bench") or {}, reader.meta("target") or {}
    if not cells:
        return None
    last = max(cell.bench for cell in cells)
    cells = [cell for cell in cells if cell.bench == last]
    ids = {cell.id for cell in cells}
    by_cell = defaultdict[int, list[BenchRound]](list)
    for row in rounds:
        if row.call_s > 0 and row.cell in ids:  # no other time is one: the session is damaged
            by_cell[row.cell].append(row)
    every_round = list(chain.from_iterable(by_cell.values()))
    paces = Paces(every_round, _seconds(whole, "least_sharing_s"))
    uncompiled = {cell.size: cell for cell in cells if not cell.is_compiled}
    figures = []
    for cell in cells:
        reference = uncompiled.get(cell.size, cell)
        of_cell = _Rounds(by_cell[cell.id], paces)
        of_reference = _Rounds(by_cell[reference.id], paces)
        figures.append(_figures(cell, of_cell, reference, of_reference))
    return BenchFigures(
        figures,
        whole.get("machine", {}),
        whole.get("budget_s"),
        target.get("name", ""),
        whole.get("state", "finished"),
        whole.get("doing", ""),
        _seconds(whole, "preparing_s"),
        _seconds(whole, "measuring_s"),
    )


def _seconds(whole: Mapping[str, Any], name: str) -> float:
    """Return a figure of the bench as a whole; 0 where it was stopped before that was known."""
    known = whole.get(name, 0.0)
    if isinstance(known, int | float):
        return float(known)
    return 0.0


class _Rounds:
    """The rounds of one cell: the seconds of a call by the number of the round."""

    def __init__(self, rounds: Sequence[BenchRound], paces: Paces) -> None:
        self.every_s = {row.number: row.call_s for row in rounds}
        self.undisturbed_part = paces.undisturbed_part(rounds)
        self.quiet_s = {row.number: row.call_s for row in rounds if not paces.is_disturbed(row)}
        self.is_quiet = len(self.quiet_s) == len(self.every_s)
        self.has_enough_quiet = median_interval(list(self.quiet_s.values())) is not None
        counting = self.quiet_s if self.has_enough_quiet else self.every_s
        self.counting_s = list(counting.values())
        """Seconds per call of the rounds that count: the undisturbed ones, or all if too few were
        undisturbed.
        """


def _figures(
    cell: BenchCell, of_cell: _Rounds, reference: BenchCell, uncompiled: _Rounds
) -> CellFigures:
    times, uncompiled_s = of_cell.counting_s, uncompiled.counting_s
    if of_cell.has_enough_quiet or of_cell.is_quiet:
        part = 1.0
    else:
        part = of_cell.undisturbed_part
    interval = median_interval(times)
    speed_up = _speed_up(of_cell, uncompiled) if cell.is_compiled else None
    speed_up = speed_up and speed_up.measured_again(cell.clock, processes=2)
    rough_speed_up = None if speed_up else _rough_speed_up(cell, of_cell, uncompiled)
    pays = speed_up is not None and speed_up.low > 1 and cell.agreement != "differs"
    pays_after = _pays_after(cell, times, reference, uncompiled_s) if pays else None
    call_s = median(times) if times else None
    disturbed = 0
    if not of_cell.has_enough_quiet:
        disturbed = len(of_cell.every_s) - len(of_cell.quiet_s)
    return CellFigures(
        cell=cell,
        call_s=call_s,
        iqr_s=interquartile_range(times),
        rounds=len(times),
        interval=interval and interval.reaching_down(part).measured_again(cell.clock),
        speed_up=speed_up,
        rough_speed_up=rough_speed_up,
        pays_after=pays_after,
        left_out=len(of_cell.every_s) - len(times),
        disturbed=disturbed,
        undisturbed_part=part,
    )


def _speed_up(of_cell: _Rounds, uncompiled: _Rounds) -> Interval | None:
    """Return the speed relative to the program in eager mode, from the rounds in which neither was
    disturbed; from all rounds if those are too few.
    """
    quiet = median_interval(ratios_by_round(uncompiled.quiet_s, of_cell.quiet_s))
    if quiet is not None:
        return quiet
    every = median_interval(ratios_by_round(uncompiled.every_s, of_cell.every_s))
    return every and every.reaching(_undisturbed_part(of_cell, uncompiled))


def _undisturbed_part(of_cell: _Rounds, uncompiled: _Rounds) -> float:
    """Return the smallest share of its measured value that either time might have without the
    disturbance.
    """
    disturbed = [rounds for rounds in (of_cell, uncompiled) if not rounds.is_quiet]
    return min((rounds.undisturbed_part for rounds in disturbed), default=1.0)


def _rough_speed_up(cell: BenchCell, of_cell: _Rounds, uncompiled: _Rounds) -> Interval | None:
    """Return the speed-up of a few rounds: their range, widened by the spread between processes and
    by the disturbance. None for fewer than two.
    """
    ratios = ratios_by_round(uncompiled.every_s, of_cell.every_s)
    if len(ratios) < 2 or not cell.is_compiled:
        return None
    seen = Interval(median(ratios), min(ratios), max(ratios))
    seen = seen.measured_again(cell.clock, processes=2)
    return seen.reaching(_undisturbed_part(of_cell, uncompiled))


def _pays_after(
    cell: BenchCell, times: list[float], reference: BenchCell, uncompiled: list[float]
) -> int | None:
    """Return the number of calls after which the compiled program has saved time, with the warm-up
    calls counted.
    """
    gain_s = median(uncompiled) - median(times)
    if gain_s <= 0:
        return None
    spent_s = cell.warm_up_s - cell.warm_up_calls * median(times)
    lost_s = spent_s - (reference.warm_up_s - reference.warm_up_calls * median(uncompiled))
    return max(1, int(lost_s / gain_s) + 1)
