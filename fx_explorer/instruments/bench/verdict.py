"""This module states the results of a bench in sentences: whether compiling pays, from which size
on, with which contender, and what limits that statement. Where intervals overlap there is no
winner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from math import ceil, inf

from fx_explorer.analysis.measured_times import (
    BETWEEN_PROCESSES,
    LEAST_ROUNDS,
    MOST_BETWEEN_PROCESSES,
    Interval,
    factor,
    run_time,
)
from fx_explorer.analysis.words import counted, listed, seconds, share
from fx_explorer.instruments.bench.cells import BenchFigures, CellFigures

MUCH_AROUND = 0.3
"""A sentence mentions the overhead outside the kernels from this fraction of a call on."""

ENOUGH_ROUNDS, MOST_ROUNDS = 8, 30
"""Minimum (if the budget allows) and maximum number of rounds that a bench makes for each size."""

BUSY = 0.3
"""A machine counts as busy if other programs use at least this fraction of all processors' time."""


def verdict(figures: BenchFigures) -> list[str]:
    """Return the sentences: wrong results first, then the answer to "is it worth it?"."""
    compiled = [name for name in figures.contenders if _is_compiled(figures, name)]
    sentences = (_wrong_results(name, figures.of_contender(name)) for name in compiled)
    wrong = [sentence for sentence in sentences if sentence]
    beside = _other_sentences(figures, compiled)
    rough = list(_rough(figures))
    budget = list(_spent(figures))
    if not any(cell.speed_up for cell in figures.cells):
        nothing = () if rough else _nothing_timed(figures)
        return [*wrong, *rough, *budget, *_unfinished(figures), *nothing, *beside]
    answer: Iterator[str]
    if len(figures.sizes) == 1:
        answer = _at_one_size(figures.of_size(figures.sizes[0]))
    else:
        answer = chain.from_iterable(_over_sizes(name, figures) for name in compiled)
    return [*wrong, *answer, *rough, *budget, *_unfinished(figures), *beside]


def _is_compiled(figures: BenchFigures, name: str) -> bool:
    return any(cell.cell.is_compiled for cell in figures.of_contender(name))


FAILED = ("failed", "out_of_memory", "timed_out")
"""States of a cell that could not be measured because of a failure."""


def problems(figures: BenchFigures) -> list[str]:
    """Return the sentences of the verdict about problems: wrong results, and cells that could not
    be measured.
    """
    wrong = (_wrong_results(name, figures.of_contender(name)) for name in figures.contenders)
    failed = _not_measured([cell for cell in figures.cells if cell.cell.state in FAILED])
    return [*filter(None, wrong), *failed]


def without_figures(figures: BenchFigures) -> list[str]:
    """Return the contenders that a finished bench could not measure at any size. The verdict says
    why.
    """
    if figures.state != "finished":
        return []
    return [name for name in figures.contenders if not _was_measured(figures, name)]


def _was_measured(figures: BenchFigures, name: str) -> bool:
    return any(cell.rounds for cell in figures.of_contender(name))


def times(interval: Interval) -> str:
    """Return ``1.83 × (1.80 to 1.86)``."""
    return f"{factor(interval.middle)} × ({factor(interval.low)} to {factor(interval.high)})"


def _unfinished(figures: BenchFigures) -> Iterator[str]:
    """Return a sentence when the bench is not finished, or was stopped."""
    if figures.state == "running":
        doing = f": {figures.doing}" if figures.doing else ""
        yield f"Still measuring{doing}."
    elif figures.state == "stopped":
        yield "The bench was stopped: these are the figures so far."


def _nothing_timed(figures: BenchFigures) -> Iterator[str]:
    """Explain why there is no statement about speed."""
    uncompiled = [cell for cell in figures.cells if not cell.cell.is_compiled]
    others = [cell for cell in figures.cells if cell.cell.is_compiled]
    if all(cell.cell.state in FAILED for cell in uncompiled):
        yield "Nothing can be compared: the program in eager mode itself could not be measured."
    elif others and all(cell.cell.state in FAILED for cell in others):
        yield "The speeds are not known: no contender could be measured."
    elif figures.state == "finished":
        yield (
            "The speeds are not known: no contender was measured often enough together with eager "
            "mode."
        )


def _rough(figures: BenchFigures) -> Iterator[str]:
    """Describe what a few rounds show of contenders without an interval."""
    for cell in figures.cells:
        if not cell.cell.is_compiled or cell.is_wrong or cell.speed_up or not cell.rounds:
            continue
        where = f"{cell.cell.contender}{_at(cell)}"
        seen = cell.rough_speed_up
        if seen is None:
            yield f"{where}: {_took(cell)} in one round, which is too few to compare speeds."
            continue
        rounds = (
            f"in {counted(cell.rounds, 'round')}, whose range contains it with "
            f"{share(cell.rough_confidence, 1)}; {LEAST_ROUNDS} are needed for 95 %"
        )
        ends = factor(seen.low), factor(seen.high)
        if seen.low > 1 or seen.high < 1:
            middle = factor(seen.middle)
            yield (
                f"{where}: about {middle} × as fast as in eager mode ({' to '.join(ends)}) "
                f"{rounds}."
            )
        else:
            range_seen = f"between {' and '.join(ends)} × as fast as in eager mode"
            yield f"{where}: no measurable difference, {range_seen} {rounds}."


def _spent(figures: BenchFigures) -> Iterator[str]:
    """Describe how a budget was spent, and what a larger one would settle."""
    open_cells = [cell for cell in figures.cells if _is_open(cell)]
    if figures.budget_s is None or figures.state != "finished" or not figures.measuring_s:
        return
    if not open_cells:
        return
    yield (
        f"Of {seconds(figures.preparing_s + figures.measuring_s)} (--budget "
        f"{figures.budget_s:g}), imports and compiling, which are needed once, took "
        f"{seconds(figures.preparing_s)}, and rounds of calls {seconds(figures.measuring_s)}; "
        f"{_larger_budget(figures, open_cells)}."
    )


def _is_open(cell: CellFigures) -> bool:
    """Return whether more rounds could say more of a cell."""
    if cell.is_wrong or not cell.cell.is_compiled:
        return False
    if cell.speed_up is None:
        return cell.rounds > 0
    return not cell.is_faster and not cell.is_slower


def _larger_budget(figures: BenchFigures, open_cells: Sequence[CellFigures]) -> str:
    """Return, as a clause, what budget would be enough for the open cells."""
    times_as_long = max(map(_times_as_long, open_cells))
    if times_as_long == inf:
        return (
            "more rounds would not make it certain: two processes with the same code differ as much"
        )
    if any(cell.rounds * _times_as_long(cell) > MOST_ROUNDS for cell in open_cells):
        return f"even {MOST_ROUNDS} rounds, the maximum of a bench, would not make it certain"
    needed_s = figures.preparing_s + figures.measuring_s * times_as_long
    names = listed(list(dict.fromkeys(cell.cell.contender for cell in open_cells)), 3)
    return f"about --budget {ceil(needed_s / 10) * 10} would be enough for {names}"


def _times_as_long(cell: CellFigures) -> float:
    """Return the factor of rounds that would settle whether a cell is faster: intervals shrink with
    the square root of the number of rounds, but not below the spread between two processes.
    """
    if cell.speed_up is None:
        return ENOUGH_ROUNDS / max(cell.rounds, 1)
    between = 2 * BETWEEN_PROCESSES.get(cell.cell.clock, MOST_BETWEEN_PROCESSES)
    away = abs(cell.speed_up.middle - 1) / cell.speed_up.middle
    if away <= between:
        return inf
    return max(1.0, (max(cell.speed_up.spread - between, 0.0) / (away - between)) ** 2)


def _at_one_size(cells: Sequence[CellFigures]) -> Iterator[str]:
    uncompiled = next(cell for cell in cells if not cell.cell.is_compiled)
    right = [cell for cell in cells if cell.speed_up and not cell.is_wrong]
    faster = sorted((cell for cell in right if cell.is_faster), key=_speed, reverse=True)
    what = "a training step" if uncompiled.cell.trains else "a call"
    if faster:
        best = faster[0]
        yield (
            f"Compiling pays: with {best.cell.contender}, {what} is {_times(best)} as fast as in "
            f"eager mode: {_took(best)} instead of {_took(uncompiled)}. {_paid(best)}"
        ).strip()
        alike = [cell.cell.contender for cell in faster[1:] if _overlap(cell, best)]
        if alike:
            yield f"{listed(alike)} cannot be distinguished from it: the intervals overlap."
    elif right and all(cell.is_slower for cell in right):
        yield (
            f"Compiling does not pay here: in eager mode, {what} takes {_took(uncompiled)}, and "
            "all contenders are slower."
        )
    elif right:
        yield (
            f"Whether compiling pays is unclear: in eager mode, {what} takes {_took(uncompiled)}; "
            "no contender is clearly faster."
        )
    for cell in right:
        if cell not in faster[:1]:
            yield f"{cell.cell.contender}: {_compared(cell)}."


def _over_sizes(name: str, figures: BenchFigures) -> Iterator[str]:
    """Return a sentence with the smallest size from which a contender pays. Sizes are in the order
    in which they were asked for.
    """
    cells = [cell for cell in figures.of_contender(name) if cell.speed_up and not cell.is_wrong]
    if not cells:
        return
    faster = [cell for cell in cells if cell.is_faster]
    others = [cell for cell in cells if not cell.is_faster]
    if not others:
        yield f"{name} pays at every measured size: {_span(faster)}."
    elif all(cell.is_slower for cell in cells):
        yield f"{name} does not pay at any measured size: {_listed(cells)}."
    elif not faster:
        yield f"No measured size shows that {name} pays: {_listed(cells)}."
    elif _is_from(cells):
        yield (
            f"{name} pays from {faster[0].cell.size} on: {_span(faster)}. Below: {_listed(others)}."
        )
    else:
        yield (
            f"{name} pays at {listed(cell.cell.size for cell in faster)}: {_span(faster)}. "
            f"Otherwise: {_listed(others)}."
        )


def _span(cells: Sequence[CellFigures]) -> str:
    """Say how much faster the cells are, from the least to the most."""
    if len(cells) == 1:
        return _compared(cells[0])
    speeds = sorted(map(_speed, cells))
    return f"{factor(speeds[0])} to {factor(speeds[-1])} × as fast as in eager mode"


def _is_from(cells: Sequence[CellFigures]) -> bool:
    """Return whether the sizes are one row of growing numbers, and the contender is faster from one
    of them on and not before.
    """
    values = [list(cell.cell.sizes.values()) for cell in cells]
    numbers = [value[0] for value in values if len(value) == 1 and isinstance(value[0], int)]
    first = next(i for i, cell in enumerate(cells) if cell.is_faster)
    return (
        len(numbers) == len(cells)
        and numbers == sorted(numbers)
        and all(cell.is_faster for cell in cells[first:])
    )


def _listed(cells: Sequence[CellFigures]) -> str:
    return "; ".join(f"{cell.cell.size}, {_compared(cell)}" for cell in cells)


def _compared(cell: CellFigures) -> str:
    assert cell.speed_up is not None
    if cell.is_faster or cell.is_slower:
        return f"{_times(cell)} as fast as in eager mode"
    low, high = (factor(end) for end in (cell.speed_up.low, cell.speed_up.high))
    return f"no measurable difference, between {low} and {high} × as fast as in eager mode"


def _times(cell: CellFigures) -> str:
    return times(cell.speed_up) if cell.speed_up else ""


def _speed(cell: CellFigures) -> float:
    return cell.speed_up.middle if cell.speed_up else 0.0


def _took(cell: CellFigures) -> str:
    if cell.call_s is not None:
        return run_time(cell.call_s)
    return "an unknown time"


def _paid(cell: CellFigures) -> str:
    if cell.pays_after is None:
        return ""
    calls = "steps" if cell.cell.trains else "calls"
    return (
        f"The first call takes {seconds(cell.cell.first_call_s)}; this pays off after about "
        f"{cell.pays_after:,} {calls}."
    )


def _overlap(cell: CellFigures, other: CellFigures) -> bool:
    assert cell.speed_up is not None
    assert other.speed_up is not None
    return cell.speed_up.low <= other.speed_up.high and other.speed_up.low <= cell.speed_up.high


# what is to be known beside the speed


def _other_sentences(figures: BenchFigures, compiled: Sequence[str]) -> Iterator[str]:
    for name in compiled:
        yield from _results(name, figures.of_contender(name))
        yield from _cuts(name, figures.of_contender(name))
        yield from _around(name, figures.of_contender(name))
    yield from _not_measured(figures.cells)
    yield from _machine(figures)


def _results(name: str, cells: Sequence[CellFigures]) -> Iterator[str]:
    """Describe the limits of results that are not wrong."""
    for kind in ("not_compared", "within_error"):
        first = next((cell for cell in cells if cell.cell.agreement == kind), None)
        if first and kind == "within_error" and not first.cell.reference_error:
            yield (
                f"The results of {name} have the size and direction of eager mode's{_at(first)}, "
                f"but the exactness of either could not be measured: {difference(first)}."
            )
        elif first and kind == "within_error":
            more = ", and more exact than eager mode" if _is_more_exact(first) else ""
            yield (
                f"The results of {name} are equal{_at(first)} within the uncertainty of eager "
                f"mode itself{more}: {difference(first)}."
            )
        elif first:
            yield f"The results of {name} are {first.cell.agreement_words}."


def _is_more_exact(cell: CellFigures) -> bool:
    return cell.cell.error < cell.cell.reference_error


def _wrong_results(name: str, cells: Sequence[CellFigures]) -> str:
    """Say where the results are first wrong; empty where they are not."""
    first = next((cell for cell in cells if cell.is_wrong), None)
    if first:
        return f"{name} gives other results{_at(first)}: {difference(first)}."
    return ""


def difference(cell_figures: CellFigures) -> str:
    """Say how far the results are from those of the program in eager mode, and which is nearer the
    truth.
    """
    cell = cell_figures.cell
    if not cell.largest_difference:
        return cell.agreement_words
    comma = "," if ", " in cell.where else ""
    at = f" at {cell.place}" if cell.place else ""
    clauses = [f"{cell.where}{comma} differs by up to {cell.largest_difference:.2g}{at}"]
    if cell.error or cell.reference_error:
        clauses.append(
            f"its error against a more exact run is {cell.error:.1e}; eager mode's is "
            f"{cell.reference_error:.1e} (RMS)"
        )
    return "; ".join(filter(None, [*clauses, cell.agreement_words]))


def _cuts(name: str, cells: Sequence[CellFigures]) -> Iterator[str]:
    """Say where little was compiled, or often."""
    measured = [cell for cell in cells if cell.cell.state == "measured"]
    nothing = [cell for cell in measured if not cell.cell.graphs]
    if nothing:
        yield (
            f"{name} compiled nothing{_at(nothing[0])}: the figures are for the program in eager "
            "mode."
        )
    unstable = next((cell for cell in measured if cell.cell.is_unstable), None)
    if unstable:
        yield (
            f"{name} was still compiling at each call{_at(unstable)} when measuring began: its "
            "times include compiling."
        )
    broken = max(measured, key=lambda cell: cell.cell.graph_breaks, default=None)
    if broken and broken.cell.graph_breaks:
        yield (
            f"{name}: {counted(broken.cell.graph_breaks, 'graph break')}{_at(broken)}; the "
            "app shows where."
        )
    again = max(measured, key=lambda cell: cell.cell.recompiles, default=None)
    if again and again.cell.recompiles:
        times_compiled = counted(again.cell.recompiles, "recompile")
        yield (
            f"{name}: {times_compiled}{_at(again)} before measuring; after too many recompiles, "
            "torch runs a function in eager mode."
        )


def _around(name: str, cells: Sequence[CellFigures]) -> Iterator[str]:
    """Return sentences on the cost of a call outside its kernels, where that keeps it from being
    faster.
    """
    known = [cell for cell in cells if cell.speed_up and cell.cell.work_s >= 0]
    slow = [cell for cell in known if not cell.is_wrong and not cell.is_faster]
    most = max(slow, key=lambda cell: _around_s(cell), default=None)
    if most is not None and most.call_s and _around_s(most) > MUCH_AROUND * most.call_s:
        yield (
            f"{name}{_at(most)}: a call costs {run_time(_around_s(most))} of guards, wrappers and "
            f"launches for {run_time(most.cell.work_s)} of work; fx-explorer ledger shows the "
            "details."
        )


def _around_s(cell: CellFigures) -> float:
    return (cell.call_s or 0.0) - cell.cell.work_s


def _not_measured(cells: Sequence[CellFigures]) -> Iterator[str]:
    """Return sentences on the cells that were not measured, grouped by reason."""
    by_reason: dict[tuple[bool, str], list[CellFigures]] = {}
    for cell in cells:
        if cell.cell.message:
            by_reason.setdefault((cell.cell.state in FAILED, cell.cell.message), []).append(cell)
    for (has_failed, reason), of_reason in by_reason.items():
        places = listed((f"{cell.cell.contender}{_at(cell)}" for cell in of_reason), 4)
        state = "failed" if has_failed else "not measured"
        yield f"{places} {state}: {reason.rstrip('.')}."


def _machine(figures: BenchFigures) -> Iterator[str]:
    busy = figures.machine.get("busy")
    if isinstance(busy, int | float) and busy > BUSY:
        yield (
            f"The machine was busy at the start: other programs took {busy:.0%} of the "
            "processors' time."
        )
    yield from _disturbed_rounds(figures)


def _disturbed_rounds(figures: BenchFigures) -> Iterator[str]:
    """Say which rounds do not count, and which do although they were disturbed."""
    left_out = sum(cell.left_out for cell in figures.cells)
    if left_out:
        rounds = left_out + sum(cell.rounds for cell in figures.cells)
        yield (
            f"{left_out:,} of {rounds:,} rounds are ignored: sharing an operation between threads "
            "took longer in them, for example because other programs ran or the host moved a "
            "virtual machine's processors."
        )
    disturbed = [f"{cell.cell.contender}{_at(cell)}" for cell in figures.cells if cell.disturbed]
    if disturbed:
        least = min(cell.undisturbed_part for cell in figures.cells)
        yield (
            f"Nearly all rounds of {listed(disturbed, 4)} were disturbed: sharing an operation "
            "between threads took longer than it should. Undisturbed, a call may take only "
            f"{least:.0%} of this time; the intervals include this. Measure again for longer "
            "(--budget)."
        )


def _at(cell: CellFigures) -> str:
    return f" at {cell.cell.size}" if cell.cell.size else ""
