"""Kernels below the roof of the machine, both axes by powers of ten: in the terminal by plotext, as
SVG by matplotlib. Both are in the extra ``plots``.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from fx_explorer.analysis.words import counted
from fx_explorer.drawing.chart import NO_LIBRARY, SVG_SALT
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable
from fx_explorer.instruments.kernels.roofline_points import KernelPoint, KernelRoofline, Roof

NOTHING = "There is nothing to draw: no kernel has both operations that are counted and a time."

MEASURED, AT_MOST = "●", "○"
"""Marks of points that were measured, and of those that stand on the roof because nothing ran."""

LEAST_WIDTH, LEAST_HEIGHT = 24, 6
"""Cells that a plot with its axes needs."""

X_WORDS, Y_WORDS = "operations a byte", "operations a second"

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True)
class Axes:
    """The powers of ten that are shown."""

    left: int
    right: int
    bottom: int
    top: int


@dataclass(frozen=True, slots=True)
class RooflinePlot:
    """The picture in cells of a terminal."""

    lines: Sequence[str]
    cells: Sequence[tuple[int, int]]
    """Line and column of each point that is drawn, in the order of ``KernelRoofline.drawn``."""


def rate_in_words(rate: float) -> str:
    """Return ``67 T``, ``3.35 T`` or ``12.6 G``: a number a second, with its unit to follow."""
    scale, prefix = next(
        ((scale, prefix) for scale, prefix in _PREFIXES if rate >= scale), (1.0, "")
    )
    return f"{rate / scale:.3g} {prefix}"


def axes_of(kernel_roofline: KernelRoofline) -> Axes:
    """Return the powers of ten around all points, and the ridge of each roof that is drawn."""
    drawn = kernel_roofline.drawn
    across = [point.intensity for point in drawn]
    up = [point.flops_per_s for point in drawn]
    if kernel_roofline.roof:
        kinds = [
            kind for kind in kernel_roofline.kinds if kernel_roofline.roof.flops_per_s.get(kind)
        ]
        across += [kernel_roofline.roof.ridge(kind) for kind in kinds]
        up += [kernel_roofline.roof.flops_per_s[kind] for kind in kinds]
    left, right = _powers(across)
    bottom, top = _powers(up)
    return Axes(left, right, bottom, top)


def _powers(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def roofline_plot(kernel_roofline: KernelRoofline, width: int, height: int) -> RooflinePlot:
    """Return the picture as lines of text. Raises UsageError when there is nothing to draw, no
    plotext, or no room.
    """
    try:
        import plotext
    except ImportError as error:
        raise UsageError(NO_LIBRARY.format(library="plotext")) from error
    drawn = kernel_roofline.drawn
    if not drawn:
        raise UsageError(NOTHING)
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        raise UsageError(f"The picture needs {LEAST_WIDTH} cells and {LEAST_HEIGHT} rows.")
    axes = axes_of(kernel_roofline)
    plotext.clear_figure()
    plotext.limit_size(False, False)  # to the size of the terminal, which is not ours to draw on
    for kind in kernel_roofline.kinds if kernel_roofline.roof else ():
        corners = _roof_corners(kernel_roofline.roof, kind, axes)
        plotext.plot([x for x, _ in corners], [y for _, y in corners], marker="braille")
    for mark, points in (
        (AT_MOST, [point for point in drawn if not point.is_measured]),
        (MEASURED, [point for point in drawn if point.is_measured]),
    ):
        places = list(
            dict.fromkeys(_place(point) for point in points)
        )  # repeated layers stand in one place
        if places:
            plotext.scatter([x for x, _ in places], [y for _, y in places], marker=mark)
    plotext.xlim(axes.left, axes.right)
    plotext.ylim(axes.bottom, axes.top)
    across, up = range(axes.left, axes.right + 1), range(axes.bottom, axes.top + 1)
    plotext.xticks(across, [_power(power) for power in across])
    plotext.yticks(up, [rate_in_words(10.0**power) for power in up])
    plotext.xlabel(X_WORDS)
    plotext.plot_size(width, height)
    lines = str(plotext.uncolorize(plotext.build())).splitlines()
    return RooflinePlot(lines, [_cell(lines, axes, point) for point in drawn])


def _roof_corners(roof: Roof | None, kind: str, axes: Axes) -> list[tuple[float, float]]:
    """Return where the roof of a kind begins, bends and ends, in powers of ten; nothing for a kind
    without a number.
    """
    if roof is None or not roof.flops_per_s.get(kind):
        return []
    slope, flat = math.log10(roof.bytes_per_s), math.log10(roof.flops_per_s[kind])
    begins = max(float(axes.left), axes.bottom - slope)
    return [(begins, begins + slope), (flat - slope, flat), (float(axes.right), flat)]


def _place(point: KernelPoint) -> tuple[float, float]:
    return math.log10(point.intensity), math.log10(point.flops_per_s)


def _power(power: int) -> str:
    return f"{10**power:,}" if power >= 0 else f"{10.0**power:.{-power}f}"


def _cell(lines: Sequence[str], axes: Axes, point: KernelPoint) -> tuple[int, int]:
    """Return line and column of a point, as plotext places it: within the frame that it draws."""
    top = next(number for number, line in enumerate(lines) if "┌" in line)
    bottom = next(number for number, line in enumerate(lines) if "└" in line)
    left, right = lines[top].index("┌"), lines[top].rindex("┐")
    x, y = _place(point)
    column = left + 1 + round((x - axes.left) / (axes.right - axes.left) * (right - left - 2))
    return bottom - 1 - round(
        (y - axes.bottom) / (axes.top - axes.bottom) * (bottom - top - 2)
    ), column


def roofline_svg(kernel_roofline: KernelRoofline) -> str:
    """Return the picture as SVG. Raises UsageError when there is nothing to draw, or no
    matplotlib.
    """
    drawn = kernel_roofline.drawn
    if not drawn:
        raise UsageError(NOTHING)
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(NO_LIBRARY.format(library="matplotlib")) from error
    axes_shown = axes_of(kernel_roofline)
    with (
        matplotlib.rc_context({"svg.hashsalt": SVG_SALT, "svg.fonttype": "none"}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = Figure(figsize=(9, 5.5), layout="constrained")
        axes = figure.add_subplot()
        for kind in kernel_roofline.kinds:
            corners = _roof_corners(kernel_roofline.roof, kind, axes_shown)
            if corners and kernel_roofline.roof:
                label = f"{kind}: {rate_in_words(kernel_roofline.roof.flops_per_s[kind])}FLOP/s"
                axes.plot(
                    [10**x for x, _ in corners],
                    [10**y for _, y in corners],
                    linewidth=1.5,
                    label=label,
                )
        for filled, words in ((True, "measured"), (False, "at most: nothing ran")):
            points = [point for point in drawn if point.is_measured == filled]
            if points:
                face = "tab:blue" if filled else "none"
                xs, ys = (
                    [point.intensity for point in points],
                    [point.flops_per_s for point in points],
                )
                axes.scatter(xs, ys, facecolors=face, edgecolors="tab:blue", label=words, zorder=3)
        for name, x, y in _labels(drawn):
            axes.annotate(
                name,
                (x, y),
                xytext=(6, -3),
                textcoords="offset points",
                fontsize="x-small",
                va="top",
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(10.0**axes_shown.left, 10.0**axes_shown.right)
        axes.set_ylim(10.0**axes_shown.bottom, 10.0**axes_shown.top)
        axes.set_xlabel(X_WORDS)
        axes.set_ylabel(Y_WORDS)
        title = f"{counted(len(drawn), 'kernel')} of {len(kernel_roofline.points):,} below the roof"
        axes.set_title(
            _plain(
                f"{title} of {kernel_roofline.roof.title} ({kernel_roofline.roof.origin})"
                if kernel_roofline.roof
                else title
            ),
            fontsize="small",
        )
        axes.legend(fontsize="small", loc="lower right")
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "fx-explorer"})
    return out.getvalue()


LABELLED = 12
"""So many of the most expensive places have names."""


def _labels(drawn: Sequence[KernelPoint]) -> list[tuple[str, float, float]]:
    """Return a name for each place, the most expensive places first: repeated layers stand in
    one.
    """
    places: dict[tuple[float, float], list[KernelPoint]] = {}
    for point in drawn:
        places.setdefault(
            (round(point.intensity, 2), float(f"{point.flops_per_s:.2g}")), []
        ).append(point)
    found = []
    for points in list(places.values())[:LABELLED]:
        first, more = points[0], f" ×{len(points)}" if len(points) > 1 else ""
        found.append(
            (_plain(first.cost.use.kernel.name) + more, first.intensity, first.flops_per_s)
        )
    return found


def _plain(text: str) -> str:
    """Return the text so that matplotlib takes no part of it for a formula."""
    return printable(text).replace("$", r"\$")
