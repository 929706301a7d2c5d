"""This module writes kernels as text for a terminal or a file, and their costs as JSON for the
report.

One kernel is shown with its configurations side by side, those that are estimated or built and
those that were launched on a real GPU; all kernels of a session with the columns of the app's view,
or those of them that there is room for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fx_explorer import model
from fx_explorer.analysis.function_versions import over_versions
from fx_explorer.analysis.kernel_documents import options_that_differ
from fx_explorer.analysis.selected_nodes import definition
from fx_explorer.analysis.whole_session import is_tritonparse
from fx_explorer.analysis.words import compile_error, counted, listed, size
from fx_explorer.instruments.kernels.candidates import (
    Candidate,
    candidates,
    estimate,
    instruction_mix,
    make_candidates,
    shared_options,
    what_is_not_known,
)
from fx_explorer.instruments.kernels.costs import KernelCost, kernel_costs, time_kinds
from fx_explorer.instruments.kernels.gpu_limits import (
    FLOPS_COUNTED,
    UNKNOWN_RUN_TIME,
    Limit,
    Occupancy,
    card,
    describe_roofline,
    microseconds,
    not_described,
)
from fx_explorer.instruments.kernels.instructions import describe_mix
from fx_explorer.instruments.kernels.kernel_times import describe_speed, kernel_speed
from fx_explorer.instruments.kernels.launched import describe_launches, real_builds
from fx_explorer.instruments.kernels.mlir_passes import Pass, pass_diff
from fx_explorer.model import Gpu, KernelBuild
from fx_explorer.output.formats import Block, text_of
from fx_explorer.output.table import IN_A_FILE, Cells, Column, Narrowing, Table
from fx_explorer.session import SessionReader

LIMITS_IN_SHORT: dict[Limit, str] = {
    "warps": "warps",
    "blocks": "blocks",
    "registers": "registers",
    "shared": "shared memory",
}

NO_RESOURCES = {"candidate": "not built", "built": "a library call"}


NAMES = {"kernel": 24, "name": 24, "argument": 16, "function": 16}
"""Columns of names → the width in cells to which they are not shortened while another column may be
left out.
"""

PRIORITIES = {
    "FLOPs": 1,
    "direction": 2,
    "spilled": 3,
    "num_warps": 4,
    "num_stages": 5,
    "limited by": 6,
    "PTX lines": 7,
}
"""Columns that may be left out, the highest number first."""


def kernels_text(
    reader: SessionReader, kernels: Sequence[model.Kernel], gpu: Gpu, width: int | None = None
) -> str:
    """Return the text of every Triton kernel, with the resource that limits it. Lines have at most
    ``width`` cells; None sets no limit.
    """
    rows = [["kernel", "direction", "bytes", "FLOPs", "bound by", "estimate"]]
    for kernel in kernels:
        roofline = estimate(reader, kernel, gpu)
        is_known = kernel.estimated_bytes >= 0
        moved = f"{kernel.estimated_bytes:,}" if is_known else "?"
        flops = f"{max(0, kernel.estimated_flops):,}"
        time = microseconds(roofline.estimated_s) if is_known else "?"
        rows.append([kernel.name, kernel.direction, moved, flops, roofline.bound, time])
    return text_of([table(rows), "", UNKNOWN_RUN_TIME, FLOPS_COUNTED], width)


def kernel_text(
    reader: SessionReader, kernel: model.Kernel, gpu: Gpu, width: int | None = None
) -> str:
    """Return the text of one kernel: the resource that limits it, its configurations side by side
    in at most ``width`` cells, and remarks on what is not known.
    """
    of_kernel = candidates(reader, kernel, gpu)
    builds = [candidate.build for candidate in of_kernel]
    built = next((build for build in builds if build.has_resources), None)
    blocks: list[Block] = [named(reader, kernel)]
    blocks += [describe_roofline(gpu, estimate(reader, kernel, gpu, built))]
    if built and (counts := instruction_mix(reader, built)):
        blocks.append(f"configuration {built.position}: {describe_mix(counts)}")
    blocks += [*describe_shared(builds), "", table(configurations(of_kernel)), ""]
    failed = [build for build in builds if build.error]
    blocks += [f"configuration {build.position}: {compile_error(build.error)}" for build in failed]
    return text_of([*blocks, *what_is_not_known(kernel, builds)], width)


def named(reader: SessionReader, kernel: model.Kernel) -> str:
    """Return the name of a kernel; for a kernel in the user's source, with its place."""
    written = definition(reader, kernel.artifact)
    if written:
        return f"{kernel.name}, your kernel at {written.document.title}:{written.line + 1}"
    return kernel.name


def describe_shared(builds: Sequence[KernelBuild]) -> list[str]:
    """Return a line with the options that all configurations share; empty without such options."""
    shared = ", ".join(f"{name} {value}" for name, value in shared_options(builds).items())
    if not shared:
        return []
    if len(builds) > 1:
        return [f"in all configurations: {shared}"]
    return [f"options: {shared}"]


def configurations(rows: Sequence[Candidate]) -> list[list[str]]:
    """Return the table of configurations, its heading first: one column per option that differs."""
    options = options_that_differ([row.build for row in rows])
    heading = [
        "config",
        *options,
        "registers",
        "spilled",
        "shared",
        "occupancy",
        "limited by",
        "PTX lines",
    ]
    return [heading, *(_configuration(row, options) for row in rows)]


def _configuration(candidate: Candidate, options: Sequence[str]) -> list[str]:
    """Return the row of a configuration. If it has no resources, the row shows its state."""
    build = candidate.build
    chosen = [str(build.options.get(name, "")) for name in options]
    if not build.has_resources:
        state = NO_RESOURCES.get(build.state, build.state)
        return [str(build.position), *chosen, state, "", "", "", "", ""]
    share, limits = "?", ""
    if candidate.occupancy:
        share = _share(candidate.occupancy)
        limited_by = candidate.occupancy.limited_by
        limits = ", ".join(LIMITS_IN_SHORT[limit] for limit in limited_by)
    return [
        str(build.position),
        *chosen,
        _number(build.registers),
        _number(build.spill_bytes),
        _number(build.shared_bytes),
        share,
        limits,
        f"{candidate.ptx_lines:,}",
    ]


def _share(room: Occupancy) -> str:
    if room.blocks:
        return f"{100 * room.share:.0f} %"
    return "does not fit"


def _number(number: int) -> str:
    return "?" if number < 0 else f"{number:,}"


def table(rows: Sequence[Cells]) -> Table:
    """Return rows, the titles first, as a table with numbers to the right."""
    titles, *others = rows
    columns = []
    for at, title in enumerate(titles):
        # Also ``12.5 %`` and ``3.8 µs`` are numbers to whoever compares a column.
        is_number = any(row[at][:1].isdigit() for row in others)
        priority = PRIORITIES.get(title, 0)
        least = NAMES.get(title, 0)
        narrowing: Narrowing = "cut" if least else "never"
        columns.append(Column(title, is_number, narrowing, least, priority))
    return Table(columns, others, elsewhere=IN_A_FILE)


def passes_text(compiler_passes: Sequence[Pass], width: int | None = None) -> str:
    """Return the list of passes; those marked ``*`` changed the text."""
    changed = sum(compiler_pass.changed for compiler_pass in compiler_passes)
    rows = [["pass", "", "name", "argument", "function"]]
    rows += [_pass(compiler_pass) for compiler_pass in compiler_passes]
    counts = f"{counted(len(compiler_passes), 'pass')}, {changed} of them changed the text (*)."
    return text_of([table(rows), "", counts], width)


def _pass(row: Pass) -> list[str]:
    mark = "*" if row.changed else ""
    return [str(row.position), mark, row.name, row.argument, row.function]


def pass_text(compiler_pass: Pass) -> str:
    """Return the changes of a pass, as a diff of the whole text."""
    lines = [f"pass {compiler_pass.position}: {compiler_pass.name} ({compiler_pass.argument})"]
    if compiler_pass.is_last:
        lines.append("the last one: its result is not printed")
    for row in pass_diff(compiler_pass):
        if row.sign == "~":
            lines += [f"- {row.before}", f"+ {row.after}"]
        else:
            text = row.after if row.before is None else row.before
            lines.append(f"{row.sign} {text}")
    return "\n".join(lines) + "\n"


# A kernel that was built and launched on a real GPU.


NOT_TIMED = "not timed"
PICKED = "picked"


def launched_kernel_text(
    reader: SessionReader, kernel: model.Kernel, width: int | None = None
) -> str:
    """Describe a kernel that has ``real_builds``. Lines have at most ``width`` cells; None sets no
    limit.
    """
    rows = real_builds(reader, kernel)
    gpu = card(reader)
    picked = next((row for row in rows if row.is_picked), rows[0])
    toolchain = f" ({picked.toolchain})" if picked.toolchain else ""
    who = "" if is_tritonparse(reader) else " by torch"
    blocks: list[Block] = [named(reader, kernel)]
    blocks += [f"built and run{who} on {picked.gpu}{toolchain}"]
    if gpu:
        blocks.append(describe_roofline(gpu, estimate(reader, kernel, gpu, picked)))
    if sentence := not_described(reader):
        blocks.append(sentence)
    if counts := instruction_mix(reader, picked):
        blocks.append(f"configuration {picked.position}: {describe_mix(counts)}")
    blocks += [
        *describe_shared(rows),
        "",
        table(_with_times(reader, rows, gpu)),
        "",
        *describe_launches(reader, kernel),
    ]
    if speed := kernel_speed(reader, kernel):
        blocks += ["", *describe_speed(speed, gpu)]
    return text_of(blocks, width)


def _with_times(
    reader: SessionReader, rows: Sequence[KernelBuild], gpu: Gpu | None
) -> list[list[str]]:
    """Return the table of configurations with the autotuner's times."""
    heading, *lines = configurations(make_candidates(reader, rows, gpu))
    timed = [[*heading, "autotuner", ""]]
    for line, row in zip(lines, rows, strict=True):
        time = microseconds(row.timing_s) if row.timing_s else NOT_TIMED
        picked = PICKED if row.is_picked else ""
        timed.append([*line, time, picked])
    return timed


# All kernels of a session: the columns of the app's view.


COLUMNS = (
    Column("kernel", narrowing="cut", least=24),
    Column("frame", priority=5),
    Column("version", priority=6),
    Column("direction", priority=3),
    Column("your line", narrowing="cut", least=18),
    Column("module", narrowing="cut", least=14, priority=1),
    Column("bytes", is_number=True, priority=2),
    Column("time", is_number=True),
    Column("known", priority=4),
    Column("calls", is_number=True, priority=7),
)


def kernel_cost(cost: KernelCost) -> dict[str, Any]:
    """Return a kernel's line, modules, version of its function, and the bytes and time of all its
    calls.
    """
    line: dict[str, Any] | None = None
    if cost.lines:
        file, number = cost.lines[0]
        line = {"file": file, "line": number}
    version: dict[str, Any] | None = None
    if cost.version:
        number, count = cost.version.number, cost.version.count
        version = {"number": number, "of": count, "function": cost.version.function}
    size_bytes = cost.size_bytes if cost.size_bytes >= 0 else None
    return {
        "line": line,
        "modules": list(cost.modules),
        "calls": cost.use.calls,
        "bytes": size_bytes,
        "seconds": cost.time_s or None,
        "seconds_are": cost.time_kind or None,
        "version": version,
    }


def kernels_as_text(reader: SessionReader, width: int | None = None) -> str:
    """Return the kernels as a table, and their sums below it; empty without kernels. With a
    ``width``, long names are shortened in the middle, and a line names the columns that were left
    out; None shows everything.
    """
    costs = kernel_costs(reader)
    if not costs:
        return ""
    table = Table(COLUMNS, [_cells(cost) for cost in costs])
    return text_of([table, "", _sum(reader, costs)], width)


def _cells(cost: KernelCost) -> tuple[str, ...]:
    kernel = cost.use.kernel
    frame = f"[{cost.version.name}]" if cost.version else ""
    version = cost.version.description if cost.version else ""
    moved = size(cost.size_bytes) if cost.size_bytes >= 0 else ""
    time = microseconds(cost.time_s) if cost.time_s else ""
    return (
        kernel.name,
        frame,
        version,
        kernel.direction,
        cost.line_label,
        cost.module_label,
        moved,
        time,
        cost.time_kind,
        f"{cost.use.calls:,}",
    )


def _sum(reader: SessionReader, costs: Sequence[KernelCost]) -> str:
    moved = sum(max(0, cost.size_bytes) for cost in costs)
    took_s = sum(cost.time_s for cost in costs)
    parts = [counted(len(costs), "kernel")]
    if moved:
        parts.append(size(moved))
    if took_s:
        parts.append(f"{microseconds(took_s)} ({listed(sorted(time_kinds(costs)))})")
    added = over_versions(reader, {cost.use.kernel.compilation for cost in costs})
    if added:
        parts.append(f"a sum {added}")
    return " · ".join(parts)
