"""This module places each kernel below the roof of the machine, and draws that: both axes by powers
of ten, in the terminal by plotext, as SVG by matplotlib. Both are in the extra ``plots``.

The roof is what bounds the kernels of a machine: the bytes it moves and the operations it does in a
second, from the data sheet of a GPU, or as they were measured of this machine. A kernel that was
timed stands where it was measured; one that was not stands on the roof itself, which is the most it
can do. What has no figures has no point, and the reason is told.
"""

from __future__ import annotations

import io
import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fx_explorer import model
from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.analysis.whole_session import NO_PROGRAM, is_log
from fx_explorer.analysis.words import counted
from fx_explorer.drawing.view_table import NO_LIBRARY, SVG_SALT
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable
from fx_explorer.instruments.kernels.candidates import kind_of_inputs
from fx_explorer.instruments.kernels.costs import KernelCost, TimeKind, kernel_costs
from fx_explorer.instruments.kernels.gpu_limits import card, measured_ceilings, not_described
from fx_explorer.model import Gpu
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import lines_of_calls

NO_ROOF = "No roof yet: measure a call (x c), which also measures the limits of this processor."
NO_BANDWIDTH = "No roof: the memory bandwidth of {gpu} is not known."


@dataclass(frozen=True, slots=True)
class Roof:
    """The roof of one machine in a roofline: its bandwidth and peak rates."""

    title: str
    """``NVIDIA H100 SXM 80 GB``, ``this CPU``."""
    bytes_per_s: float
    flops_per_s: Mapping[str, float]
    """Kind of number → operations a second: ``fp32``, ``bf16``."""
    origin: str
    """Where the limits come from: ``data sheet`` or ``measured``."""
    how: str = ""
    """How it was measured; empty for a data sheet."""

    def flops_at(self, intensity: float, kind: str) -> float:
        """Return the highest rate of operations at this many operations per byte; 0 for a kind
        without a number.
        """
        return min(self.flops_per_s.get(kind, 0.0), intensity * self.bytes_per_s)

    def ridge(self, kind: str) -> float:
        """Return the operations a byte from which on arithmetic is the bound."""
        return self.flops_per_s.get(kind, 0.0) / self.bytes_per_s


def roof(reader: SessionReader) -> Roof | None:
    """Return the roof: of the virtual GPU; else as measured here; else of the GPU's data sheet.
    None where no roof is known (``why_no_roof``).
    """
    virtual = session_gpu(reader)
    if virtual:
        return _of_data_sheet(virtual)
    measured = _measured(reader)
    if measured:
        return measured
    gpu = card(reader)
    return _of_data_sheet(gpu) if gpu else None


def why_no_roof(reader: SessionReader) -> str:
    """Return a sentence on why ``roof`` returns None."""
    gpu = card(reader)
    if gpu:
        return NO_BANDWIDTH.format(gpu=gpu.title)
    sentence = not_described(reader)
    if sentence:
        return sentence
    if is_log(reader):
        return f"No roof. {NO_PROGRAM}"
    return NO_ROOF


def _of_data_sheet(gpu: Gpu) -> Roof | None:
    if not gpu.memory_bandwidth:
        return None
    return Roof(gpu.title, float(gpu.memory_bandwidth), gpu.peak_flops, "data sheet")


def _measured(reader: SessionReader) -> Roof | None:
    last = measured_ceilings(reader)
    if "memory" not in last:
        return None
    memory = last["memory"]
    title = "this CPU" if memory.device == "cpu" else memory.device
    hows = dict.fromkeys(row.how for row in last.values())
    peaks = {kind: row.rate for kind, row in last.items() if kind != "memory"}
    return Roof(title, memory.rate, peaks, "measured", ", ".join(hows))


NO_BYTES = "how many bytes it moves is not known"
NO_FLOPS = "no operations are counted (only those of matrix products and convolutions are)"
NO_TIME = "it was not timed, and the limits of the machine are not known"
NO_PEAK = "the machine's limit for {kind} arithmetic is not known"


MEASURED = ("in a profile", "in a call", "alone")


@dataclass(frozen=True, slots=True)
class KernelPoint:
    """A kernel as a point of the roofline: the work and time of all its calls together."""

    cost: KernelCost
    size_bytes: int
    """Bytes that the kernel moves; -1 where they are not known."""
    flops: int
    """Number of operations; 0 or less where they are not counted."""
    kind: str
    """Type of number, which decides the peak that counts: ``fp32``, ``bf16``."""
    time_s: float
    time_kind: TimeKind
    most_flops_per_s: float
    """Operations per second of the roof above the point; 0 where it is not known."""
    missing: str
    """Why the kernel is not drawn as a point; empty when it is."""

    @property
    def is_measured(self) -> bool:
        return self.time_kind in MEASURED

    @property
    def intensity(self) -> float:
        """Return operations a byte; 0 where they are not known."""
        if self.flops > 0 and self.size_bytes > 0:
            return self.flops / self.size_bytes
        return 0.0

    @property
    def flops_per_s(self) -> float:
        """Return operations per second, as measured, else the most that the roof allows; 0 for
        neither.
        """
        if self.is_measured:
            if self.time_s > 0:
                return max(0, self.flops) / self.time_s
            return 0.0
        return self.most_flops_per_s

    @property
    def bytes_per_s(self) -> float:
        """Return the measured bytes per second; 0 without a measurement."""
        if self.is_measured and self.time_s > 0:
            return max(0, self.size_bytes) / self.time_s
        return 0.0

    @property
    def of_roof(self) -> float:
        """Return the part of the roof that the kernel reaches; 0 where it was not measured. It may
        exceed 1, because data in caches moves faster than memory allows.
        """
        if self.is_measured and self.most_flops_per_s:
            return self.flops_per_s / self.most_flops_per_s
        return 0.0


@dataclass(frozen=True, slots=True)
class KernelRoofline:
    """All kernels, and the roof."""

    roof: Roof | None
    points: Sequence[KernelPoint]
    """The kernels: those with a point in the picture first, the most expensive first; then the
    others in the order they run.
    """

    @property
    def drawn(self) -> list[KernelPoint]:
        return [point for point in self.points if not point.missing]

    @property
    def reasons(self) -> dict[str, int]:
        """Return why kernels have no point → how many, the most frequent first."""
        return dict(Counter(point.missing for point in self.points if point.missing).most_common())

    @property
    def kinds(self) -> list[str]:
        """Return the number types of the points; a roof is drawn for each."""
        return list(dict.fromkeys(point.kind for point in self.drawn))


@dataclass(slots=True)
class _Work:
    """Bytes and operations of the steps of a ledger that run one kernel."""

    size_bytes: int = 0
    flops: int = 0


def kernel_roofline(reader: SessionReader) -> KernelRoofline:
    """Return the kernels of all variants in use."""
    above = roof(reader)
    work = _work_in_a_call(reader)
    points = [
        _point(reader, above, cost, work.get(cost.use.kernel.id)) for cost in kernel_costs(reader)
    ]
    drawn = [point for point in points if not point.missing]
    drawn.sort(key=lambda point: -point.time_s)
    return KernelRoofline(above, [*drawn, *(point for point in points if point.missing)])


def _point(
    reader: SessionReader, above: Roof | None, cost: KernelCost, work: _Work | None
) -> KernelPoint:
    """Return where a kernel stands below the roof, or why it is not drawn."""
    kernel, calls = cost.use.kernel, cost.use.calls
    size_bytes, flops = cost.size_bytes, kernel.estimated_flops * calls
    if work and cost.time_kind == "in a call":
        size_bytes, flops = work.size_bytes or size_bytes, work.flops or flops
    kind = kind_of_inputs(reader, kernel) if flops > 0 else "fp32"
    intensity = flops / size_bytes if flops > 0 and size_bytes > 0 else 0.0
    most = above.flops_at(intensity, kind) if above else 0.0
    time_s = cost.time_s / cost.runs
    is_measured = cost.time_kind in MEASURED and time_s > 0
    kind_of_roof = kind if above else ""
    missing = _missing(size_bytes, flops, has_time=is_measured or most > 0, kind=kind_of_roof)
    return KernelPoint(cost, size_bytes, flops, kind, time_s, cost.time_kind, most, missing)


def _missing(size_bytes: int, flops: int, *, has_time: bool, kind: str) -> str:
    if size_bytes <= 0:
        return NO_BYTES
    if flops <= 0:
        return NO_FLOPS
    if not has_time:
        return NO_PEAK.format(kind=kind) if kind else NO_TIME
    return ""


def _work_in_a_call(reader: SessionReader) -> dict[int, _Work]:
    """Return the bytes and operations of each kernel in the session's last ledger, by the id of the
    kernel.
    """
    calls = [row.id for row in reader.rows(model.LedgerCall) if row.call_s > 0]
    if not calls:
        return {}
    kernels = lines_of_calls(reader)
    by_kernel: dict[int, _Work] = {}
    for step in reader.rows(model.LedgerStep, call=calls[-1]):
        kernel = kernels.get((step.compilation, step.direction, step.line))
        if kernel and step.kind in ("kernel", "library"):
            work = by_kernel.setdefault(kernel, _Work())
            work.size_bytes += max(0, step.moved_bytes)
            work.flops += max(0, step.flops)
    return by_kernel


NOTHING = "There is nothing to draw: no kernel has both counted operations and a time."

MARK_OF_MEASURED, MARK_OF_AT_MOST = "●", "○"
"""Marks of points that were measured, and of points placed on the roof because they were not run.
"""

LEAST_WIDTH, LEAST_HEIGHT = 24, 6
"""Minimum width and height of a plot with its axes, in cells."""

X_WORDS, Y_WORDS = "operations a byte", "operations a second"

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True)
class Axes:
    """The ranges of the picture's two axes, as powers of ten."""

    left: int
    right: int
    bottom: int
    top: int


@dataclass(frozen=True, slots=True)
class RooflinePlot:
    """The roofline as text for a terminal, and where its points stand in it."""

    lines: Sequence[str]
    cells: Sequence[tuple[int, int]]
    """Line and column of each point in the picture, in the order of ``KernelRoofline.drawn``."""


def describe_rate(rate: float) -> str:
    """Return ``67 T``, ``3.35 T`` or ``12.6 G``: a number a second, with its unit to follow."""
    scale, prefix = next(
        ((scale, prefix) for scale, prefix in _PREFIXES if rate >= scale), (1.0, "")
    )
    return f"{rate / scale:.3g} {prefix}"


def axes_of(kernel_roofline: KernelRoofline) -> Axes:
    """Return axes in powers of ten that contain all points, and the ridge of each roof."""
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
        raise UsageError(f"The picture needs {LEAST_WIDTH} columns and {LEAST_HEIGHT} rows.")
    axes = axes_of(kernel_roofline)
    plotext.clear_figure()
    plotext.limit_size(False, False)  # to the size of the terminal, which is not ours to draw on
    if kernel_roofline.roof:
        for kind in kernel_roofline.kinds:
            corners = _roof_corners(kernel_roofline.roof, kind, axes)
            plotext.plot([x for x, _ in corners], [y for _, y in corners], marker="braille")
    for mark, points in (
        (MARK_OF_AT_MOST, [point for point in drawn if not point.is_measured]),
        (MARK_OF_MEASURED, [point for point in drawn if point.is_measured]),
    ):
        # Repeated layers stand in one place.
        places = list(dict.fromkeys(_place(point) for point in points))
        if places:
            plotext.scatter([x for x, _ in places], [y for _, y in places], marker=mark)
    plotext.xlim(axes.left, axes.right)
    plotext.ylim(axes.bottom, axes.top)
    across, up = range(axes.left, axes.right + 1), range(axes.bottom, axes.top + 1)
    plotext.xticks(across, [_power(power) for power in across])
    plotext.yticks(up, [describe_rate(10.0**power) for power in up])
    plotext.xlabel(X_WORDS)
    plotext.plot_size(width, height)
    lines = str(plotext.uncolorize(plotext.build())).splitlines()
    return RooflinePlot(lines, [_cell(lines, axes, point) for point in drawn])


def _roof_corners(roof: Roof | None, kind: str, axes: Axes) -> list[tuple[float, float]]:
    """Return the corners of a kind's roof, in powers of ten: where it begins, bends and ends; empty
    for a kind without a number.
    """
    if roof is None or not roof.flops_per_s.get(kind):
        return []
    slope, flat = math.log10(roof.bytes_per_s), math.log10(roof.flops_per_s[kind])
    begins = max(float(axes.left), axes.bottom - slope)
    return [(begins, begins + slope), (flat - slope, flat), (float(axes.right), flat)]


def _place(point: KernelPoint) -> tuple[float, float]:
    return math.log10(point.intensity), math.log10(point.flops_per_s)


def _power(power: int) -> str:
    if power >= 0:
        return f"{10**power:,}"
    return f"{10.0**power:.{-power}f}"


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
        _draw_roof(axes, kernel_roofline, axes_shown)
        _draw_points(axes, drawn)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(10.0**axes_shown.left, 10.0**axes_shown.right)
        axes.set_ylim(10.0**axes_shown.bottom, 10.0**axes_shown.top)
        axes.set_xlabel(X_WORDS)
        axes.set_ylabel(Y_WORDS)
        axes.set_title(_plain(_title(kernel_roofline)), fontsize="small")
        axes.legend(fontsize="small", loc="lower right")
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "fx-explorer"})
    return out.getvalue()


def _draw_roof(axes: Any, kernel_roofline: KernelRoofline, shown: Axes) -> None:
    roof = kernel_roofline.roof
    for kind in kernel_roofline.kinds:
        corners = _roof_corners(roof, kind, shown)
        if corners and roof:
            label = f"{kind}: {describe_rate(roof.flops_per_s[kind])}FLOP/s"
            xs, ys = [10**x for x, _ in corners], [10**y for _, y in corners]
            axes.plot(xs, ys, linewidth=1.5, label=label)


def _draw_points(axes: Any, drawn: Sequence[KernelPoint]) -> None:
    """Draw the kernels, filled if they were measured, and label the most expensive ones."""
    for is_filled, label in ((True, "measured"), (False, "at most: nothing ran")):
        points = [point for point in drawn if point.is_measured == is_filled]
        if points:
            face = "tab:blue" if is_filled else "none"
            xs = [point.intensity for point in points]
            ys = [point.flops_per_s for point in points]
            axes.scatter(xs, ys, facecolors=face, edgecolors="tab:blue", label=label, zorder=3)
    for name, x, y in _labels(drawn):
        axes.annotate(
            name,
            (x, y),
            xytext=(6, -3),
            textcoords="offset points",
            fontsize="x-small",
            va="top",
        )


def _title(kernel_roofline: KernelRoofline) -> str:
    drawn = counted(len(kernel_roofline.drawn), "kernel")
    title = f"{drawn} of {len(kernel_roofline.points):,} below the roof"
    roof = kernel_roofline.roof
    if roof is None:
        return title
    return f"{title} of {roof.title} ({roof.origin})"


LABELLED = 12
"""Number of places in the picture that are labelled, the most expensive first."""


def _labels(drawn: Sequence[KernelPoint]) -> list[tuple[str, float, float]]:
    """Return one label per place in the picture, the most expensive first: repeated layers share a
    place.
    """
    places: dict[tuple[float, float], list[KernelPoint]] = {}
    for point in drawn:
        place = (round(point.intensity, 2), float(f"{point.flops_per_s:.2g}"))
        places.setdefault(place, []).append(point)
    labels = []
    for points in list(places.values())[:LABELLED]:
        first = points[0]
        name = _plain(first.cost.use.kernel.name)
        if len(points) > 1:
            name += f" ×{len(points)}"
        labels.append((name, first.intensity, first.flops_per_s))
    return labels


def _plain(text: str) -> str:
    """Return the text escaped so that matplotlib reads no part of it as a formula."""
    return printable(text).replace("$", r"\$")
