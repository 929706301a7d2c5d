"""What a bench says, in sentences: whether compiling pays, from which size on, with whom, and what is to
be known beside it. Where intervals overlap there is no winner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fx_explorer.analysis.bench.cells import BenchFigures, CellFigures
from fx_explorer.analysis.bench.interval import Interval
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import counted, listed, seconds

BUSY = 0.5
"""Load per processor from which a machine counts as busy: something else takes its time."""


def verdict(figures: BenchFigures) -> list[str]:
    """Return the sentences, the one that answers "is it worth it?" first."""
    compiled = [name for name in figures.contenders if any(one.cell.is_compiled for one in figures.of_contender(name))]
    timed = [one for one in figures.cells if one.speed_up]
    if not timed:
        return [_nothing_timed(figures), *_beside(figures, compiled)]
    if len(figures.sizes) == 1:
        return [*_at_one_size(figures.of_size(figures.sizes[0])), *_beside(figures, compiled)]
    return [*(sentence for name in compiled for sentence in _over_sizes(name, figures)), *_beside(figures, compiled)]


FAILED = ("failed", "out_of_memory", "timed_out")
"""States of a cell that something went wrong in."""


def problems(figures: BenchFigures) -> list[str]:
    """Return the sentences of the verdict about what went wrong: other results, and cells that could
    not be measured.
    """
    wrong = (_wrong_results(name, figures.of_contender(name)) for name in figures.contenders)
    return [*filter(None, wrong), *_not_measured([one for one in figures.cells if one.cell.state in FAILED])]


def times(interval: Interval) -> str:
    """Return ``1.83 × (1.80 to 1.86)``."""
    return f"{interval.middle:.2f} × ({interval.low:.2f} to {interval.high:.2f})"


def _nothing_timed(figures: BenchFigures) -> str:
    if figures.budget_s is not None and any(one.cell.state in ("measured", "not_measured") for one in figures.cells):
        what = "give it more with --budget, or fewer sizes and contenders"
        return f"A budget of {figures.budget_s:g} s is too small to say anything: {what}."
    if all(one.cell.state == "not_measured" and not one.cell.message for one in figures.cells):
        return "Nothing was measured: the bench was stopped."
    return "Nothing can be said about speed: no contender was measured often enough beside the uncompiled program."


def _at_one_size(cells: Sequence[CellFigures]) -> Iterator[str]:
    uncompiled = next(one for one in cells if not one.cell.is_compiled)
    faster = sorted((one for one in cells if one.is_faster), key=_speed, reverse=True)
    what = "a training step" if uncompiled.cell.trains else "a call"
    if not faster:
        yield f"Compiling does not pay here: uncompiled, {what} takes {_took(uncompiled)}, and nothing is faster."
    else:
        best = faster[0]
        yield (
            f"Compiling pays: with {best.cell.contender}, {what} is {_times(best)} as fast as uncompiled, "
            f"{_took(best)} and not {_took(uncompiled)}. {_paid(best)}"
        )
        alike = [one.cell.contender for one in faster[1:] if _overlap(one, best)]
        if alike:
            yield f"{listed(alike)} cannot be told apart from it: the intervals overlap."
    for one in cells:
        if one.speed_up and one not in faster[:1]:
            yield f"{one.cell.contender}: {_compared(one)}."


def _over_sizes(name: str, figures: BenchFigures) -> Iterator[str]:
    """Say from which size on a contender pays. Sizes are in the order in which they were asked for."""
    cells = [one for one in figures.of_contender(name) if one.speed_up]
    if not cells:
        return
    faster = [one for one in cells if one.is_faster]
    speeds = sorted(map(_speed, faster))
    span = (
        f"{speeds[0]:.2f} to {speeds[-1]:.2f} × as fast as uncompiled" if len(speeds) > 1 else "".join(map(_compared, faster))
    )
    if len(faster) == len(cells):
        yield f"{name} pays at every size that was measured: {span}."
    elif not faster:
        yield f"{name} does not pay at any size that was measured: {_listed(cells)}."
    elif _is_from(cells):
        others = [one for one in cells if not one.is_faster]
        yield f"{name} pays from {faster[0].cell.size} on: {span}. Below: {_listed(others)}."
    else:
        others = [one for one in cells if not one.is_faster]
        yield f"{name} pays at {listed(one.cell.size for one in faster)}: {span}. Otherwise: {_listed(others)}."


def _is_from(cells: Sequence[CellFigures]) -> bool:
    """Return whether the sizes are one row of growing numbers, and the contender is faster from one
    of them on and not before.
    """
    values = [list(one.cell.sizes.values()) for one in cells]
    numbers = [value[0] for value in values if len(value) == 1 and isinstance(value[0], int)]
    first = next(i for i, one in enumerate(cells) if one.is_faster)
    return len(numbers) == len(cells) and numbers == sorted(numbers) and all(one.is_faster for one in cells[first:])


def _listed(cells: Sequence[CellFigures]) -> str:
    return "; ".join(f"{one.cell.size}, {_compared(one)}" for one in cells)


def _compared(one: CellFigures) -> str:
    assert one.speed_up is not None
    if one.is_faster or one.is_slower:
        return f"{_times(one)} as fast as uncompiled"
    return f"no difference from uncompiled ({_times(one)} as fast)"


def _times(one: CellFigures) -> str:
    return times(one.speed_up) if one.speed_up else ""


def _speed(one: CellFigures) -> float:
    return one.speed_up.middle if one.speed_up else 0.0


def _took(one: CellFigures) -> str:
    return run_time(one.call_s) if one.call_s is not None else "an unknown time"


def _paid(one: CellFigures) -> str:
    if one.pays_after is None:
        return ""
    calls = "steps" if one.cell.trains else "calls"
    return f"The first one takes {seconds(one.cell.first_call_s)}, and that has paid after about {one.pays_after:,} {calls}."


def _overlap(one: CellFigures, other: CellFigures) -> bool:
    assert one.speed_up is not None
    assert other.speed_up is not None
    return one.speed_up.low <= other.speed_up.high and other.speed_up.low <= one.speed_up.high


# what is to be known beside the speed


def _beside(figures: BenchFigures, compiled: Sequence[str]) -> Iterator[str]:
    for name in compiled:
        yield from _results(name, figures.of_contender(name))
        yield from _cuts(name, figures.of_contender(name))
    yield from _not_measured(figures.cells)
    yield from _machine(figures)


def _results(name: str, cells: Sequence[CellFigures]) -> Iterator[str]:
    if wrong := _wrong_results(name, cells):
        yield wrong
        return
    for one in cells:
        if one.cell.agreement == "as_exact":
            yield f"{name} rounds otherwise{_at(one)}: {difference(one)}."
            return
    for one in cells:
        if one.cell.agreement == "not_compared":
            yield f"The results of {name} are {one.cell.agreement_words}."
            return


def _wrong_results(name: str, cells: Sequence[CellFigures]) -> str:
    """Say where the results are first wrong; empty where they are not."""
    first = next((one for one in cells if one.cell.agreement == "wrong"), None)
    return f"{name} gives other results{_at(first)}: {difference(first)}." if first else ""


def difference(one: CellFigures) -> str:
    """Say how far the results are from those of the uncompiled program, and which is nearer the
    truth.
    """
    cell = one.cell
    if not cell.largest_difference:
        return cell.agreement_words
    told = f"{cell.where} differs by up to {cell.largest_difference:.2g}"
    if cell.error or cell.reference_error:
        return f"{told}; from a run in float64 it is {cell.error:.1e} away, and uncompiled {cell.reference_error:.1e}"
    return f"{told}; {cell.agreement_words}".removesuffix("; ")


def _cuts(name: str, cells: Sequence[CellFigures]) -> Iterator[str]:
    worst = max(cells, key=lambda one: (one.cell.graph_breaks, one.cell.recompiles), default=None)
    if worst is None:
        return
    if worst.cell.is_unstable:
        yield f"{name} was still compiling at each call{_at(worst)} when measuring began: its times hold compiling."
    if worst.cell.graph_breaks:
        cut, graphs = counted(worst.cell.graph_breaks, "graph break"), counted(worst.cell.graphs, "graph")
        yield f"{name}: {cut} cut it into {graphs}{_at(worst)}."


def _not_measured(cells: Sequence[CellFigures]) -> Iterator[str]:
    """Name what was not measured, once for each reason."""
    by_reason: dict[tuple[bool, str], list[CellFigures]] = {}
    for one in cells:
        if one.cell.message:
            by_reason.setdefault((one.cell.state in FAILED, one.cell.message), []).append(one)
    for (has_failed, reason), of_reason in by_reason.items():
        places = listed((f"{one.cell.contender}{_at(one)}" for one in of_reason), 4)
        yield f"{places} {'failed' if has_failed else 'not measured'}: {reason}."


def _machine(figures: BenchFigures) -> Iterator[str]:
    load, processors = figures.machine.get("load"), figures.machine.get("processors")
    if isinstance(load, int | float) and isinstance(processors, int) and load > BUSY * processors:
        busy = f"load {load:g} on {counted(processors, 'processor')}"
        yield f"The machine was busy when it began ({busy}): intervals are wider than they need be."


def _at(one: CellFigures) -> str:
    return f" at {one.cell.size}" if one.cell.size else ""
