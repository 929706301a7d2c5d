"""A bench as a table: what stands in each column, for the screen and for reports alike."""

from __future__ import annotations

from fx_explorer.analysis.measured_times import run_time, with_spread
from fx_explorer.analysis.words import counted, seconds, size
from fx_explorer.instruments.bench.cells import BenchFigures, CellFigures
from fx_explorer.instruments.bench.interval import factor
from fx_explorer.output.table import Column, Table

MS = 1e-3

CellRow = tuple[str, ...]

COLUMNS = (
    Column("size", narrowing="cut", least=12),
    Column("contender", narrowing="cut", least=16),
    Column("a call"),
    Column("speed-up", narrowing="wrapped", least=20),
    Column("first call", priority=2),
    Column("pays after", priority=1),
    Column("memory", priority=4),
    Column("graphs", narrowing="wrapped", least=9, priority=3),
    Column("results", narrowing="wrapped", least=12),
)

RESULTS = {
    "equal": "equal",
    "within_error": "within eager's error",
    "differs": "differs",
    "not_compared": "not compared",
    "": "",
}

STATES = {
    "failed": "failed",
    "out_of_memory": "out of memory",
    "timed_out": "timed out",
    "not_measured": "not measured",
}


def bench_table(figures: BenchFigures) -> Table:
    return Table(COLUMNS, [row_of(cell) for cell in figures.cells])


def row_of(one: CellFigures) -> CellRow:
    """Return the cells of the table for one cell of the bench, in the order of COLUMNS."""
    cell = one.cell
    if cell.state != "measured":
        return (cell.size, cell.contender, STATES[cell.state], *[""] * (len(COLUMNS) - 3))
    return (
        cell.size,
        cell.contender,
        _call(one),
        _speed_up(one),
        seconds(cell.first_call_s) if cell.first_call_s >= MS else run_time(cell.first_call_s),
        "" if one.pays_after is None else f"{one.pays_after:,}",
        "" if cell.peak_bytes < 0 else size(cell.peak_bytes),
        _graphs(one),
        RESULTS[cell.agreement] if cell.is_compiled else "",
    )


def _call(one: CellFigures) -> str:
    """Return the time of a call; with its spread where there were enough rounds to know it."""
    if one.call_s is None:
        return ""
    return with_spread(one.call_s, one.iqr_s) if one.interval else run_time(one.call_s)


def _speed_up(one: CellFigures) -> str:
    found = one.speed_up
    if one.is_wrong:
        return "results differ"
    if found is None and one.rough_speed_up is not None:
        rough = one.rough_speed_up
        seen = f"{factor(rough.low)} to {factor(rough.high)}"
        return f"about {factor(rough.middle)} ({seen}, {counted(one.rounds, 'round')})"
    if found is None and one.cell.is_compiled:
        return "one timing each" if one.rounds else ""
    if found is None:
        return "1" if one.rounds else ""
    shown = f"{factor(found.middle)} ({factor(found.low)} to {factor(found.high)})"
    return shown if one.is_faster or one.is_slower else f"{shown}, no measurable difference"


def _graphs(one: CellFigures) -> str:
    cell = one.cell
    if not cell.is_compiled:
        return ""
    parts = [f"{cell.graphs:,}"]
    parts += [counted(cell.graph_breaks, "break")] if cell.graph_breaks else []
    parts += [counted(cell.recompiles, "recompile")] if cell.recompiles else []
    return ", ".join(parts)
