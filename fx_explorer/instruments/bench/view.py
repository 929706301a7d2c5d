"""This module shows a bench in the app and draws it. View H says whether compiling pays, cell by
cell, while a bench measures and afterwards. The picture has the speed-up of each contender over the
size, with its interval, and the line at which compiling is neither faster nor slower.

It is SVG by matplotlib, or text for the terminal by plotext. Both are in the extra ``plots``.
"""

from __future__ import annotations

import io
import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.whole_session import NO_PROGRAM, is_log
from fx_explorer.analysis.words import counted, seconds
from fx_explorer.drawing.view_table import (
    NO_LIBRARY,
    SVG_SALT,
    Detail,
    TableColumn,
    TableRow,
    ViewTable,
)
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable
from fx_explorer.instruments.bench.cells import BenchFigures, CellFigures, bench_figures
from fx_explorer.instruments.bench.report import RESULTS, CellRow, row_of
from fx_explorer.instruments.bench.verdict import difference, times, verdict
from fx_explorer.session import SessionReader

if TYPE_CHECKING:
    from plotext._figure import _figure_class


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
    "Nothing was measured yet. Press x p to measure whether compiling pays: eager mode and each "
    "backend."
)

PLOT_WIDTH, PLOT_HEIGHT = 72, 14


def bench_table(reader: SessionReader) -> ViewTable:
    empty = f"Nothing was measured. {NO_PROGRAM}" if is_log(reader) else NONE_YET
    table = ViewTable(
        shows="Whether compiling pays: each contender compared with eager mode.",
        notice="",
        origin="calls in separate processes that take turns; the range in brackets is the 95 % "
        "confidence interval of the speed-up",
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

    return bench_svg(figures)


def _notice(figures: BenchFigures) -> str:
    """Return the most important line: the current activity while the bench runs, else a problem, or
    the answer.
    """
    if figures.state == "running":
        return f"Measuring … {figures.doing} (esc stops and keeps the figures so far)"
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
        f"{cell.contender} with {cell.inputs}: warmed up with "
        f"{counted(cell.warm_up_calls, 'call')} in {seconds(cell.warm_up_s)}."
    ]
    if cell_figures.interval:
        ends = f"{run_time(cell_figures.interval.low)} to {run_time(cell_figures.interval.high)}"
        parts.append(
            f"A call takes {run_time(cell_figures.interval.middle)} ({ends} with 95 %), in "
            f"{counted(cell_figures.rounds, 'round')}."
        )
    if cell_figures.speed_up:
        parts.append(f"It is {times(cell_figures.speed_up)} as fast as in eager mode.")
    if cell.is_compiled and cell.agreement:
        parts.append(
            ": ".join(
                filter(None, (f"Results: {RESULTS[cell.agreement]}", difference(cell_figures)))
            )
            + "."
        )
    return parts


def _picture(figures: BenchFigures) -> str:

    try:
        return bench_plot(figures, PLOT_WIDTH, PLOT_HEIGHT, colours=False)
    except UsageError as error:
        return str(error)


NOTHING = (
    "There is nothing to draw: no contender was measured often enough together with eager mode."
)

BREAK_EVEN = "as fast as in eager mode"

MARGIN = 0.1
"""Share of the shown range that stays free above and below."""

COLOURS = ("blue+", "orange+", "green+", "magenta+", "cyan+", "red+")
"""Colours of the contenders in the terminal."""

MARKS = ("●", "▲", "■", "◆", "○", "△")
"""Marks of the contenders' points, for use without colours."""


def check_libraries(*, svg: bool, plot: bool) -> None:
    """Raise UsageError if a picture is requested and the library for it is not installed, before
    anything is measured.
    """
    for library, is_wanted in (("matplotlib", svg), ("plotext", plot)):
        if is_wanted and find_spec(library) is None:
            raise UsageError(NO_LIBRARY.format(library=library))


@dataclass(frozen=True)
class Curve:
    """The speed-up of one contender, with a point for each size."""

    contender: str
    points: Sequence[CellFigures]

    @property
    def speeds(self) -> list[float]:
        return [cell.speed_up.middle for cell in self.points if cell.speed_up]

    @property
    def lows(self) -> list[float]:
        return [cell.speed_up.low for cell in self.points if cell.speed_up]

    @property
    def highs(self) -> list[float]:
        return [cell.speed_up.high for cell in self.points if cell.speed_up]

    def positions(self, sizes: Sequence[str]) -> list[int]:
        """Return the place of each point among the sizes."""
        return [sizes.index(cell.cell.size) for cell in self.points]


def curves(figures: BenchFigures) -> list[Curve]:
    """Return a curve for each measured contender, without the sizes at which its results are wrong.
    Raises UsageError when there is none.
    """
    drawn = []
    for name in figures.contenders:
        measured = [cell for cell in figures.of_contender(name) if cell.speed_up]
        points = [cell for cell in measured if not cell.is_wrong]
        if points:
            drawn.append(Curve(name, points))
    if not drawn:
        raise UsageError(NOTHING)
    return drawn


def bench_svg(figures: BenchFigures) -> str:
    """Return the picture as SVG. Raises UsageError when there is nothing to draw, or no
    matplotlib.
    """
    drawn = curves(figures)
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(NO_LIBRARY.format(library="matplotlib")) from error
    with (
        matplotlib.rc_context({"svg.hashsalt": SVG_SALT, "svg.fonttype": "none"}),
        warnings.catch_warnings(),
    ):
        # Text stays text in the SVG, and whoever shows it has the letters.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.add_subplot()
        axes.axhline(1.0, color="gray", linestyle="--", linewidth=1, label=BREAK_EVEN)
        for curve in drawn:
            places = curve.positions(figures.sizes)
            errors = [
                [middle - low for middle, low in zip(curve.speeds, curve.lows, strict=True)],
                [high - middle for middle, high in zip(curve.speeds, curve.highs, strict=True)],
            ]
            axes.errorbar(
                places,
                curve.speeds,
                yerr=errors,
                marker="o",
                capsize=4,
                label=_plain(curve.contender),
            )
        axes.set_xticks(
            range(len(figures.sizes)), [_plain(size or "example") for size in figures.sizes]
        )
        axes.set_ylim(*shown_range(drawn))
        axes.set_ylabel("times as fast as in eager mode")
        axes.set_title(_plain(f"{figures.target}: speed-up, with intervals of 95 %"))
        axes.legend()
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "fx-explorer"})
    return out.getvalue()


def bench_plot(figures: BenchFigures, width: int, height: int, *, colours: bool) -> str:
    """Return the picture as lines of text. Raises UsageError when there is nothing to draw, or no
    plotext.
    """
    try:
        import plotext
    except ImportError as error:
        raise UsageError(NO_LIBRARY.format(library="plotext")) from error
    drawn = curves(figures)
    plotext.clear_figure()
    draw(plotext, figures, drawn)
    plotext.plot_size(width, height)
    picture = str(plotext.build())
    if colours:
        return picture
    return str(plotext.uncolorize(picture))


def shown_range(drawn: Sequence[Curve]) -> tuple[float, float]:
    """Return the least and the greatest speed-up that the picture shows: all intervals, and 1."""
    low = min(1.0, *itertools.chain.from_iterable(curve.lows for curve in drawn))
    high = max(1.0, *itertools.chain.from_iterable(curve.highs for curve in drawn))
    return max(0.0, low - (high - low) * MARGIN), high + (high - low) * MARGIN


def draw(plot: _figure_class, figures: BenchFigures, drawn: Sequence[Curve]) -> None:
    """Draw the curves with plotext: on the module, or on the plot of a widget."""
    sizes = figures.sizes
    plot.hline(1.0)
    for curve, colour, mark in zip(drawn, itertools.cycle(COLOURS), itertools.cycle(MARKS)):
        places = curve.positions(sizes)
        plot.plot(
            places,
            curve.speeds,
            marker="braille",
            color=colour,
            label=f"{mark} {printable(curve.contender)}",
        )
        # Its interval, drawn as a line from end to end.
        for place, low, high in zip(places, curve.lows, curve.highs, strict=True):
            plot.plot([place, place], [low, high], marker="braille", color=colour)
        plot.scatter(places, curve.speeds, marker=mark, color=colour)
    plot.ylim(*shown_range(drawn))
    plot.xlim(-0.25, len(sizes) - 0.75)
    plot.xticks(range(len(sizes)), [printable(size or "example") for size in sizes])
    plot.ylabel("times as fast as in eager mode")


def _plain(text: str) -> str:
    """Return the text with control characters made visible, and escaped so that matplotlib reads no
    part of it as a formula.
    """
    return printable(text).replace("$", r"\$")
