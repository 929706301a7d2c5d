"""View 6: generated kernels and library calls, in the order the compiled code runs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import overload

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import RegionKey, nodes_in
from fx_explorer.analysis.documents import place_of_kernel
from fx_explorer.analysis.function_versions import functions_of_versions
from fx_explorer.analysis.input_names import user_names_of_nodes
from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.analysis.whole_session import is_tritonparse
from fx_explorer.analysis.words import bar, counted, share, size
from fx_explorer.drawing.colours import kernel_number
from fx_explorer.drawing.view_table import (
    DIRECTION,
    Detail,
    TableColumn,
    TableRow,
    ViewTable,
    shown_name,
)
from fx_explorer.instruments.kernels.candidates import why_no_kernels
from fx_explorer.instruments.kernels.costs import KernelCost, TimeKind, kernel_costs, time_kinds
from fx_explorer.instruments.kernels.counts import (
    KernelUse,
    built_kernels,
    describe_kind,
    describe_run,
)
from fx_explorer.instruments.kernels.gpu_limits import microseconds
from fx_explorer.instruments.kernels.launched import describe_profile
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import launch_counts

BAR_CELLS = 12

NUMBER = TableColumn("#", is_number=True, min_width=1)
"""The number that the kernel has in every pane, in its colour."""
FRAME = TableColumn("frame", "annotation", priority=6)
FRAME_OF_VERSIONS = replace(FRAME, priority=1)
"""The column of versions with a higher priority, since it alone tells versions apart in a narrow
table.
"""
VERSION = TableColumn("version", "annotation", min_width=7, priority=4)
KERNEL = TableColumn("kernel", "strong", min_width=24, keeps="name")
LINE = TableColumn("your line", "link", min_width=12, max_width=24, keeps="end")
MODULE = TableColumn("module", min_width=12, max_width=30, priority=2, keeps="end")
BYTES = TableColumn(
    "bytes", is_number=True, min_width=8, priority=1, total=lambda value: size(round(value))
)
BAR = TableColumn("relative time", "bar", is_bar=True, min_width=BAR_CELLS, priority=3)
BAR_OF_BYTES = replace(BAR, title="relative bytes")
"""Column with a bar for bytes, used when no kernel has a time."""
REST = (
    TableColumn("language", "muted", min_width=7, priority=9),
    TableColumn("nodes", is_number=True, priority=8),
    TableColumn("calls", is_number=True, priority=7, total=lambda value: f"{value:,.0f}"),
    TableColumn("lines", is_number=True, priority=10),
    TableColumn("computes", "muted", min_width=20, max_width=90, priority=11),
)

LAUNCHES = TableColumn(
    "launches", is_number=True, min_width=8, priority=6, total=lambda value: f"{value:,.0f}"
)

TIME_TITLES: dict[TimeKind, str] = {
    "in a profile": "profiled",
    "in a call": "measured",
    "alone": "measured",
    "estimated": "estimate",
}
"""Title of the column of times, if all times are of one kind."""

BELOW = "p k shows the levels below a Triton kernel, v c its configurations."


SHOWS = "Generated kernels and library calls, in the order the compiled code runs them."

OF_A_LOG = "The Triton kernels that were compiled, in the order of the log."

ORIGIN = "Inductor's code generation; nodes from the scheduler's origins"


def kernels_table(reader: SessionReader) -> ViewTable:
    costs = kernel_costs(reader)
    shown = _Shown(reader, costs)
    if is_tritonparse(reader):
        shows, origin = OF_A_LOG, "what tritonparse recorded"
    else:
        shows, origin = SHOWS, ORIGIN
    uses = [cost.use for cost in costs]
    return ViewTable(
        shows=shows,
        notice=_notice(reader, uses, session_gpu(reader), shown.time_description),
        origin=origin,
        columns=shown.columns,
        rows=shown,
        empty=why_no_kernels(reader),
        versions=functions_of_versions(reader),
        within=lambda reader, region: _within(reader, region, costs),
        answer=_most_expensive(costs),
        first=_slowest(costs),
    )


def _slowest(costs: list[KernelCost]) -> int:
    """Return the row of the kernel that takes the most time; the first where no time is known."""
    return max(range(len(costs)), key=lambda row: costs[row].time_s, default=0)


def _most_expensive(costs: list[KernelCost]) -> str:
    """Return the kernel that takes the most time; where no time is known, the one that moves the
    most bytes, or fuses the most operations.
    """
    time_s = sum(cost.time_s for cost in costs)
    moved = sum(max(0, cost.size_bytes) for cost in costs)
    if time_s:
        first = max(costs, key=lambda cost: cost.time_s)
        of_all = f"{share(first.time_s, time_s)} of {microseconds(time_s)}"
        what = f"Slowest: {{}}, {_time_of_calls(first)}, {of_all}{_as_long(first, costs)}."
    elif moved:
        first = max(costs, key=lambda cost: cost.size_bytes)
        of_all = f"{share(first.size_bytes, moved)} of {size(moved)}"
        what = f"Moves the most bytes: {{}}, {size(first.size_bytes)}{_in_calls(first)}, {of_all}."
    else:
        generated = [cost for cost in costs if cost.use.kernel.language != "extern"]
        if not generated:
            return ""
        first = max(generated, key=lambda cost: len(cost.use.nodes))
        if not first.use.nodes:
            return ""
        what = f"Fuses the most: {{}}, {counted(len(first.use.nodes), 'operation')}."
    kernel = first.use.kernel
    return what.format(f"#{kernel.id} {shown_name(kernel.name)}")


def _as_long(slowest: KernelCost, costs: list[KernelCost]) -> str:
    """Return how many kernels take as long as the slowest: short ones are all estimated at the time
    of a launch.
    """
    alike = sum(cost.time_s == slowest.time_s for cost in costs) - 1
    if not alike:
        return ""
    return f"; {counted(alike, 'other')} {'takes' if alike == 1 else 'take'} as long"


def _time_of_calls(cost: KernelCost) -> str:
    """Return ``at least 3.00 µs in 2 calls``: the details give the time of one call."""
    least = "at least " if cost.time_kind == "estimated" else ""
    return f"{least}{microseconds(cost.time_s)}{_in_calls(cost)}"


def _in_calls(cost: KernelCost) -> str:
    calls = cost.use.calls
    return f" in {calls} calls" if calls > 1 and cost.runs == 1 else ""


def _within(reader: SessionReader, region: RegionKey, costs: list[KernelCost]) -> list[int]:
    """Return the rows of the kernels that compute something of a region."""
    nodes = nodes_in(reader, region)
    return [at for at, cost in enumerate(costs) if not nodes.isdisjoint(cost.use.node_ids)]


class _Shown(Sequence[TableRow]):
    """The rows of the table, each made when it is needed: there may be 100,000 kernels."""

    def __init__(self, reader: SessionReader, costs: list[KernelCost]) -> None:
        self._reader = reader
        self._costs = costs
        kinds = time_kinds(costs)
        titles = {TIME_TITLES[kind] for kind in kinds}
        if len(titles) == 1:
            self._time = titles.pop()
        elif kinds:
            self._time = "time"
        else:
            self._time = ""
        self._is_mixed = self._time == "time"
        self._bar = BAR if self._time else BAR_OF_BYTES
        self._has_bytes = any(cost.size_bytes > 0 for cost in costs)
        self._launches = launch_counts(reader)
        self._has_versions = any(cost.version and cost.version.count > 1 for cost in costs)
        self._has_modules = any(cost.modules for cost in costs)
        self._has_directions = len({cost.use.kernel.direction for cost in costs}) > 1
        self._most = max((self._weight(cost) for cost in costs), default=0.0)
        nodes: dict[int, str] = {}
        for use in (cost.use for cost in costs):
            nodes.update(zip(use.node_ids, use.nodes, strict=True))
        self._node_names = user_names_of_nodes(reader, nodes)
        """The user's names for the nodes of all kernels."""

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """Return the columns that are not empty."""
        time = TableColumn(self._time, is_number=True, min_width=8, total=microseconds)
        frame = FRAME_OF_VERSIONS if self._has_versions else FRAME
        wanted = (
            (NUMBER, True),
            (frame, True),
            (VERSION, self._has_versions),
            (DIRECTION, self._has_directions),
            (KERNEL, True),
            (LINE, True),
            (MODULE, self._has_modules),
            (BYTES, self._has_bytes),
            (time, bool(self._time)),
            (self._bar, self._most > 0),
            (LAUNCHES, bool(self._launches)),
        )
        return (*(column for column, has in wanted if has), *REST)

    @property
    def time_description(self) -> str:
        """Describe the times, unless all are estimates."""
        kinds = time_kinds(self._costs)
        if "in a profile" in kinds:
            return describe_profile(self._reader)
        if "in a call" in kinds:
            if "estimated" in kinds:
                rest = "; others (≥) are lower bounds from the data sheet"
            else:
                rest = ""
            return f"Times are from a ledger of one call (v l){rest}."
        if self._is_mixed:
            return "Times marked ≥ are lower bounds from the data sheet."
        return ""

    def _weight(self, cost: KernelCost) -> float:
        """Return the quantity that the bar shows: the time, or the bytes where there are no
        times.
        """
        if self._time:
            return cost.time_s
        return float(max(0, cost.size_bytes))

    def __len__(self) -> int:
        return len(self._costs)

    @overload
    def __getitem__(self, at: int) -> TableRow: ...
    @overload
    def __getitem__(self, at: slice) -> list[TableRow]: ...
    def __getitem__(self, at: int | slice) -> TableRow | list[TableRow]:
        if isinstance(at, slice):
            return [self._row(cost) for cost in self._costs[at]]
        return self._row(self._costs[at])

    def _row(self, cost: KernelCost) -> TableRow:
        reader, kernel = self._reader, cost.use.kernel
        name = cost.version.name if cost.version else ""
        number, kind = kernel_number(kernel.id)
        # Where a row leads is looked up for the row under the cursor only.
        return TableRow(
            (number, f"[{name}]", *self._cells(cost)),
            kind=kind,
            detail=lambda: _detail(reader, kernel),
            values=self._values(cost),
            version=name,
            find_place=lambda: place_of_kernel(reader, kernel),
        )

    def _cells(self, cost: KernelCost) -> list[str]:
        """Return the cells of the columns that are shown, except those of the number and
        the frame.
        """
        use, kernel = cost.use, cost.use.kernel
        cells: list[str] = []
        if self._has_versions:
            version = cost.version.description if cost.version else ""
            cells.append(version)
        if self._has_directions:
            cells.append(kernel.direction)
        cells += [kernel.name, cost.line_label]
        if self._has_modules:
            cells.append(cost.module_label)
        if self._has_bytes:
            moved = size(cost.size_bytes) if cost.size_bytes >= 0 else ""
            cells.append(moved)
        if self._time:
            cells.append(self._took(cost))
        if self._most:
            cells.append(bar(self._weight(cost), self._most, BAR_CELLS))
        if self._launches:
            cells.append(f"{self._launches.get(kernel.id, 0):,}")
        lines = f"{use.line_count:,}" if use.line_count else ""
        cells += [
            describe_kind(kernel).removesuffix(" call"),
            f"{len(use.nodes):,}",
            f"{use.calls:,}",
            lines,
            ", ".join(self._node_names[node] for node in use.node_ids),
        ]
        return cells

    def _values(self, cost: KernelCost) -> dict[str, float]:
        """Return the values of a kernel's row that the table sorts by: title of the column →
        number.
        """
        kernel = cost.use.kernel
        values: dict[str, float] = {
            "#": kernel.id,
            "calls": cost.use.calls,
            self._bar.title: self._weight(cost),
        }
        if self._launches:
            values["launches"] = self._launches.get(kernel.id, 0)
        if cost.size_bytes >= 0:
            values["bytes"] = cost.size_bytes
        if cost.time_s:
            values[self._time] = cost.time_s
        return values

    def _took(self, cost: KernelCost) -> str:
        if not cost.time_s:
            return ""
        took = microseconds(cost.time_s)
        if self._is_mixed and cost.time_kind == "estimated":
            return f"≥ {took}"
        return took


def _detail(reader: SessionReader, kernel: model.Kernel) -> Detail:
    if not kernel.artifact:
        if kernel.first_line:
            where = f"line {kernel.first_line} of the output code"
        else:
            where = "the output code"
        what = describe_run(reader, kernel) if kernel.runs else _library(reader)
        return Detail(f"{what} Enter goes to {where}, which makes the call.")
    artifact = reader.get(model.Artifact, kernel.artifact)
    return Detail(reader.text(artifact.text), artifact.language)


def _library(reader: SessionReader) -> str:
    if session_gpu(reader) is None:
        return "A library call: it has no generated code of its own."
    from fx_explorer.instruments.kernels.gpu_limits import UNKNOWN_LIBRARY_KERNEL

    return UNKNOWN_LIBRARY_KERNEL


def _notice(reader: SessionReader, uses: list[KernelUse], gpu: model.Gpu | None, times: str) -> str:
    generated = [use for use in uses if use.kernel.language != "extern"]
    if not uses:
        return ""
    control = Counter(describe_kind(use.kernel) for use in uses if use.kernel.runs)
    libraries = len(uses) - len(generated) - control.total()
    counts = [counted(len(generated), "generated kernel"), counted(libraries, "library call")]
    words = f"{', '.join([*counts, *(counted(number, kind) for kind, number in control.items())])}."
    if times:
        return f"{words} {times}"
    if gpu:
        return f"{words} Nothing ran: times are lower bounds from the data sheet. {BELOW}"
    of_build = built_kernels(reader)
    if of_build.built == of_build.kernels:
        return words
    if of_build.built:
        return (
            f"{words} {of_build.built:,} of them were built, for code that the program saves; "
            "--build builds all."
        )
    return f"{words} Nothing was built: these kernels would be (--build builds them)."
