"""View v k: the kernels below the roof of the GPU or processor, as a picture and in figures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import overload

from fx_explorer.analysis.documents import place_of_kernel
from fx_explorer.analysis.words import counted, size
from fx_explorer.drawing.view_table import (
    NO_LIBRARY,
    ChartPiece,
    Detail,
    TableColumn,
    TableRow,
    ViewTable,
    shown_name,
)
from fx_explorer.instruments.kernels.candidates import why_no_kernels
from fx_explorer.instruments.kernels.gpu_limits import FLOPS_COUNTED, microseconds
from fx_explorer.instruments.kernels.roofline_picture import (
    LEAST_HEIGHT,
    LEAST_WIDTH,
    KernelPoint,
    KernelRoofline,
    Roof,
    RooflinePlot,
    describe_rate,
    kernel_roofline,
    roofline_plot,
    roofline_svg,
    why_no_roof,
)
from fx_explorer.session import SessionReader

COLUMNS = (
    TableColumn("kernel", "strong", min_width=20, max_width=48, keeps="name"),
    TableColumn("FLOP/byte", is_number=True, min_width=9),
    TableColumn("reaches", is_number=True, min_width=15),
    TableColumn("of the roof", is_number=True, min_width=8, priority=1),
    TableColumn("bound by", "muted", min_width=10, priority=2),
    TableColumn("memory", is_number=True, min_width=9, priority=4),
    TableColumn("time", is_number=True, min_width=10, priority=3, total=microseconds),
    TableColumn("numbers", "muted", min_width=5, priority=7),
    TableColumn("your line", "link", min_width=12, max_width=24, priority=5, keeps="end"),
    TableColumn("module", min_width=12, max_width=30, priority=6, keeps="end"),
)

OF_MEASURED = ("of the roof", "memory")
COLUMNS_UNMEASURED = tuple(column for column in COLUMNS if column.title not in OF_MEASURED)
"""Columns of the table when nothing was measured: no kernel has a rate then."""

AT_MOST = "○ was not measured: it is drawn on the roof, its upper limit."
ABOVE = (
    "A kernel can be above the roof if its data is in caches, or if the machine was slower "
    "when its limits were measured."
)


def roofline_table(reader: SessionReader) -> ViewTable:
    roofline = kernel_roofline(reader)
    is_measured = any(point.is_measured for point in roofline.points)
    columns = COLUMNS if is_measured else COLUMNS_UNMEASURED
    can_draw = bool(roofline.drawn) and find_spec("plotext") is not None
    chart = RooflineChart(roofline) if can_draw else None
    svg = (lambda: roofline_svg(roofline)) if roofline.points else None
    if roofline.roof or not roofline.points:
        rows: Sequence[TableRow] = _Rows(reader, roofline, columns)
        empty = why_no_kernels(reader)
    else:  # nothing could be said about any kernel
        rows, empty = (), why_no_roof(reader)
    return ViewTable(
        shows="The limit of each kernel, below the roof of the machine.",
        notice=_notice(roofline),
        origin="counts of bytes and operations; measured times, or the roof's where there is none",
        columns=columns,
        rows=rows,
        empty=empty,
        chart=chart,
        svg=svg,
        answer=_bounds(roofline) if rows else "",
    )


def _bounds(roofline: KernelRoofline) -> str:
    """Return how many kernels are bound by memory, and which is farthest from its roof."""
    drawn = roofline.drawn
    if not drawn:
        return ""
    of_memory = sum(_bound(point, roofline.roof).startswith("memory") for point in drawn)
    if of_memory == len(drawn):
        verb = "is" if len(drawn) == 1 else "are"
        words = f"{counted(len(drawn), 'drawn kernel')} {verb} bound by memory"
    else:
        kernels = counted(len(drawn), "drawn kernel")
        words = f"{of_memory:,} of {kernels} are bound by memory"
        words += ", the others by arithmetic"
    measured = [point for point in drawn if point.is_measured]
    if not measured:
        return f"{words}."
    longest = max(measured, key=lambda point: point.time_s)
    kernel = longest.cost.use.kernel
    return (
        f"{words}; the slowest of them, #{kernel.id} {shown_name(kernel.name)}, reaches "
        f"{_share(longest.of_roof)} of its roof."
    )


def _notice(roofline: KernelRoofline) -> str:
    if not roofline.points or not roofline.roof:
        return ""
    parts = [_describe_roof(roofline.roof, roofline.kinds)]
    drawn = roofline.drawn
    if drawn and not all(point.is_measured for point in drawn):
        parts.append(AT_MOST)
    parts += [
        f"{counted(number, 'kernel')} not drawn: {reason}."
        for reason, number in roofline.reasons.items()
    ]
    if drawn and find_spec("plotext") is None:
        parts.append(NO_LIBRARY.format(library="plotext"))
    return " ".join(parts)


def _describe_roof(roof: Roof, kinds: Sequence[str]) -> str:
    """Return ``NVIDIA H100 SXM 80 GB (its data sheet): 3.35 TB/s, 67 TFLOP/s of fp32.``"""
    rates = [f"{describe_rate(roof.bytes_per_s)}B/s"]
    known = [kind for kind in kinds if kind in roof.flops_per_s]
    rates += [f"{describe_rate(roof.flops_per_s[kind])}FLOP/s of {kind}" for kind in known]
    return f"{roof.title} ({roof.origin}): {', '.join(rates)}."


class _Rows(Sequence[TableRow]):
    """The rows of the table, each made when it is needed."""

    def __init__(
        self, reader: SessionReader, roofline: KernelRoofline, columns: Sequence[TableColumn]
    ) -> None:
        self._reader = reader
        self._columns = columns
        self._roofline = roofline

    def __len__(self) -> int:
        return len(self._roofline.points)

    @overload
    def __getitem__(self, at: int) -> TableRow: ...
    @overload
    def __getitem__(self, at: slice) -> list[TableRow]: ...
    def __getitem__(self, at: int | slice) -> TableRow | list[TableRow]:
        points = self._roofline.points
        if isinstance(at, slice):
            return [self._row(point) for point in points[at]]
        return self._row(points[at])

    def _row(self, point: KernelPoint) -> TableRow:
        reader, kernel, roof = self._reader, point.cost.use.kernel, self._roofline.roof
        cells = _cells(point, roof)
        part = 1 if point.missing else 0
        values = {
            "FLOP/byte": point.intensity,
            "reaches": point.flops_per_s,
            "of the roof": point.of_roof,
            "memory": point.bytes_per_s,
            "time": point.time_s,
        }
        return TableRow(
            tuple(cells.get(column.title, "") for column in self._columns),
            detail=lambda: Detail(_detail(point, roof)),
            values={title: value for title, value in values.items() if value},
            part=part,
            find_place=lambda: place_of_kernel(reader, kernel),
        )


def _cells(point: KernelPoint, roof: Roof | None) -> dict[str, str]:
    """Return title of a column → the kernel's cell, for columns in which it has a value."""
    cells = {
        "kernel": point.cost.use.kernel.name,
        "bound by": _bound(point, roof),
        "your line": point.cost.line_label,
        "module": point.cost.module_label,
    }
    if point.intensity:
        cells["FLOP/byte"] = f"{point.intensity:.3g}"
    if not point.missing:
        cells["reaches"] = _reached(point)
    if point.of_roof:
        cells["of the roof"] = _share(point.of_roof)
    if point.bytes_per_s:
        cells["memory"] = f"{describe_rate(point.bytes_per_s)}B/s"
    if point.time_s:
        sign = "" if point.is_measured else "≥ "
        cells["time"] = f"{sign}{microseconds(point.time_s)}"
    if point.flops > 0:
        cells["numbers"] = point.kind
    return cells


def _reached(point: KernelPoint) -> str:
    sign = "" if point.is_measured else "≤ "
    return f"{sign}{describe_rate(point.flops_per_s)}FLOP/s"


def _share(part: float) -> str:
    return f"{part:.0%}".replace("%", " %")


def _bound(point: KernelPoint, roof: Roof | None) -> str:
    if roof is None or point.missing or not roof.flops_per_s.get(point.kind):
        return ""
    if point.intensity < roof.ridge(point.kind):
        return "memory"
    return "arithmetic"


def _detail(point: KernelPoint, roof: Roof | None) -> str:
    kernel, calls = point.cost.use.kernel, point.cost.use.calls
    parts = [f"{kernel.name}: {counted(calls, 'call')}"]
    if point.size_bytes > 0:
        parts.append(f"It moves {size(point.size_bytes)}.")
    if point.flops > 0:
        operations = f"{describe_rate(point.flops)}FLOP with {point.kind}"
        parts.append(f"It does {operations}: {point.intensity:.3g} a byte.")
    if point.is_measured and point.time_s:
        parts.append(f"It takes {microseconds(point.time_s)}, measured {point.time_kind}.")
    if point.missing:
        parts.append(f"It is not drawn: {point.missing}.")
    elif roof and point.most_flops_per_s:
        parts += _below_the_roof(point, roof)
    if point.flops <= 0:
        parts.append(FLOPS_COUNTED)
    return "\n".join(parts)


def _below_the_roof(point: KernelPoint, roof: Roof) -> list[str]:
    """Return the sentences that compare a kernel with the roof above it."""
    most = f"{describe_rate(point.most_flops_per_s)}FLOP/s"
    ridge = f"arithmetic limits kernels from {roof.ridge(point.kind):,.3g} operations a byte"
    sentences = [f"It is limited by {_bound(point, roof)} to {most}; {ridge}."]
    if point.of_roof:
        sentences.append(f"It reaches {_share(point.of_roof)} of that.")
    else:
        sentences.append(AT_MOST)
    if point.of_roof > 1:
        sentences.append(ABOVE)
    if roof.how:
        sentences.append(f"The roof was measured: {roof.how}.")
    return sentences


# The roofline above the rows of its view: a point for each kernel that has one.

ROWS = 28
"""Maximum number of rows of the picture; more would not make it clearer."""

SHORT_SCREEN, SHORT_ROWS = 36, 9
"""Screens with fewer lines than the first number limit the picture to the second number of rows, to
leave room for the list.
"""

LIT = "$accent-muted"


class RooflineChart:
    """Draws the kernels, and marks the one under the cursor. Row ``n`` of the table is kernel
    ``n``; kernels in the picture come first.
    """

    def __init__(self, roofline: KernelRoofline) -> None:
        def plot(width: int, height: int) -> RooflinePlot:
            return roofline_plot(roofline, width, height)

        self._plot = lru_cache(maxsize=2)(plot)

    def room(self, screen: int) -> int:
        if screen >= SHORT_SCREEN:
            return screen // 2
        return SHORT_ROWS

    def height(self, width: int) -> int:
        return ROWS

    def rows(self, width: int, height: int, row: int) -> list[list[ChartPiece]]:
        if width < LEAST_WIDTH or height < LEAST_HEIGHT:
            return [[ChartPiece("The window is too small for the picture."[:width])]]
        plot: RooflinePlot = self._plot(width, height)
        marked = plot.cells[row] if row < len(plot.cells) else None
        pieces = []
        for number, line in enumerate(plot.lines):
            if marked and marked[0] == number:
                pieces.append(_pieces(line, marked[1]))
            else:
                pieces.append([ChartPiece(line)])
        return pieces

    def row_at(self, width: int, height: int, row: int, x: int, y: int) -> int | None:
        """Return the kernel at a cell. If several share the cell, each click selects the next
        one.
        """
        if width < LEAST_WIDTH or height < LEAST_HEIGHT:
            return None
        cells = self._plot(width, height).cells
        kernels = [number for number, cell in enumerate(cells) if cell == (y, x)]
        if kernels:
            return next((number for number in kernels if number > row), kernels[0])
        return None


def _pieces(line: str, lit: int) -> list[ChartPiece]:
    """Return a line in pieces, with the cell at ``lit`` highlighted."""
    if lit >= len(line):
        return [ChartPiece(line)]
    return [
        ChartPiece(line[:lit]),
        ChartPiece(line[lit], LIT, is_marked=True),
        ChartPiece(line[lit + 1 :]),
    ]
