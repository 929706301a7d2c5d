"""View H: whether compiling pays, cell by cell, while a bench measures and afterwards."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.whole_session import NO_PROGRAM, is_log
from fx_explorer.analysis.words import counted, seconds
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.errors import UsageError
from fx_explorer.instruments.bench.cells import BenchFigures, CellFigures, bench_figures
from fx_explorer.instruments.bench.report import RESULTS, CellRow, row_of
from fx_explorer.instruments.bench.verdict import difference, times, verdict
from fx_explorer.session import SessionReader

COLUMNS = (
    TableColumn("size", "annotation", min_width=9),
    TableColumn("contender", "strong", min_width=10),
    TableColumn("a call", is_number=True, min_width=18, priority=1),
    TableColumn("speed-up", "good", is_number=True, min_width=19),
    TableColumn("first call", is_number=True, min_width=10, priority=3),
    TableColumn("pays after", is_number=True, min_width=10, priority=4),
    TableColumn("memory", is_number=True, priority=5),
    TableColumn("graphs", "muted", priority=6),
    TableColumn("results", "muted", min_width=16, priority=2),
)

NONE_YET = (
    "Nothing was measured yet. Press x p to measure whether compiling pays: the program "
    "uncompiled, and by each backend."
)

PLOT_WIDTH, PLOT_HEIGHT = 72, 14


def bench_table(reader: SessionReader) -> ViewTable:
    empty = f"Nothing was measured. {NO_PROGRAM}" if is_log(reader) else NONE_YET
    table = ViewTable(
        shows="Whether compiling pays: each contender beside the uncompiled program.",
        notice="",
        origin="calls in processes of their own, which take turns; the range in brackets holds "
        "the speed-up with 95 %",
        columns=COLUMNS,
        rows=(),
        empty=empty,
    )
    figures = bench_figures(reader)
    if not figures:
        return table
    return replace(
        table,
        notice=_notice(figures),
        rows=[_row(figures, cell) for cell in figures.cells],
        svg=partial(_svg, figures),
    )


def _svg(figures: BenchFigures) -> str:
    from fx_explorer.instruments.bench.picture import bench_svg

    return bench_svg(figures)


def _notice(figures: BenchFigures) -> str:
    """Return the most important line: the current activity while the bench runs, else a problem, or
    the answer.
    """
    if figures.state == "running":
        return f"Measuring … {figures.doing} (esc stops it and keeps what there is)"
    return verdict(figures)[0]


def _row(figures: BenchFigures, cell: CellFigures) -> TableRow:
    row: CellRow = row_of(cell)
    kind = "problem" if cell.is_wrong else ""
    return TableRow(row, None, lambda: Detail(_detail(figures, cell)), kind)


def _detail(figures: BenchFigures, cell: CellFigures) -> str:
    """Describe one cell completely, with the picture and the whole verdict."""
    if len(figures.sizes) > 1:
        picture = ["", *_picture(figures).splitlines()]
    else:
        picture = []
    return "\n".join([*_about(cell), *picture, "", *verdict(figures)])


def _about(cell_figures: CellFigures) -> list[str]:
    cell = cell_figures.cell
    if cell.state != "measured":
        return [f"{cell.contender}: {cell.message or 'not measured yet'}."]
    parts = [
        (
            f"{cell.contender} with {cell.inputs}: called {counted(cell.warm_up_calls, 'time')} in "
            f"{seconds(cell.warm_up_s)} first."
        )
    ]
    if cell_figures.interval:
        ends = f"{run_time(cell_figures.interval.low)} to {run_time(cell_figures.interval.high)}"
        parts.append(
            f"A call takes {run_time(cell_figures.interval.middle)} ({ends} with 95 %), in "
            f"{counted(cell_figures.rounds, 'round')}."
        )
    if cell_figures.speed_up:
        parts.append(f"It is {times(cell_figures.speed_up)} as fast as uncompiled.")
    if cell.is_compiled and cell.agreement:
        parts.append(
            ": ".join(
                filter(None, (f"Results: {RESULTS[cell.agreement]}", difference(cell_figures)))
            )
            + "."
        )
    return parts


def _picture(figures: BenchFigures) -> str:
    from fx_explorer.instruments.bench.picture import bench_plot

    try:
        return bench_plot(figures, PLOT_WIDTH, PLOT_HEIGHT, colours=False)
    except UsageError as error:
        return str(error)
