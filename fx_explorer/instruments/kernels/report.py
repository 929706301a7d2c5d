"""Kernels and their configurations as text for a terminal or a file."""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer import model
from fx_explorer.analysis.kernel_documents import options_that_differ
from fx_explorer.analysis.links.selection import definition
from fx_explorer.analysis.words import compile_error, counted
from fx_explorer.instruments.kernels.assembly.instructions import mix_in_words
from fx_explorer.instruments.kernels.assembly.passes import Pass, pass_diff
from fx_explorer.instruments.kernels.candidates import (
    Candidate,
    candidates,
    estimate,
    instruction_mix,
    shared_options,
    what_is_not_known,
)
from fx_explorer.instruments.kernels.occupancy import Limit, Occupancy
from fx_explorer.instruments.kernels.roofline import FLOPS_COUNTED, microseconds, roofline_in_words
from fx_explorer.instruments.kernels.unknown_without_gpu import RUN_TIME
from fx_explorer.model import Gpu, KernelBuild
from fx_explorer.output.table import IN_A_FILE, Cells, Column, Narrowing, Table
from fx_explorer.output.text import Block, text_of
from fx_explorer.session import SessionReader

LIMITS_IN_SHORT: dict[Limit, str] = {
    "warps": "warps",
    "blocks": "blocks",
    "registers": "registers",
    "shared": "shared memory",
}

NO_RESOURCES = {"candidate": "not built", "built": "a library call"}


NAMES = {"kernel": 24, "name": 24, "argument": 16, "function": 16}
"""Columns of names → the cells below which they are not cut while another may be left out."""

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
    """Return the text of every Triton kernel, with what bounds it. Lines have at most ``width``
    cells, None where a program reads.
    """
    rows = [["kernel", "direction", "bytes", "FLOPs", "bound by", "estimate"]]
    for kernel in kernels:
        roofline = estimate(reader, kernel, gpu)
        known = kernel.estimated_bytes >= 0
        sizes = [
            f"{kernel.estimated_bytes:,}" if known else "?",
            f"{max(0, kernel.estimated_flops):,}",
        ]
        rows.append(
            [
                kernel.name,
                kernel.direction,
                *sizes,
                roofline.bound,
                microseconds(roofline.estimated_s) if known else "?",
            ]
        )
    return text_of([table(rows), "", RUN_TIME, FLOPS_COUNTED], width)


def kernel_text(
    reader: SessionReader, kernel: model.Kernel, gpu: Gpu, width: int | None = None
) -> str:
    """Return the text of one kernel: what bounds it, its configurations side by side in at most
    ``width`` cells, and what cannot be known.
    """
    found = candidates(reader, kernel, gpu)
    builds = [candidate.build for candidate in found]
    built = next((build for build in builds if build.has_resources), None)
    blocks: list[Block] = [named(reader, kernel)]
    blocks += [roofline_in_words(gpu, estimate(reader, kernel, gpu, built))]
    if built and (counts := instruction_mix(reader, built)):
        blocks.append(f"configuration {built.position}: {mix_in_words(counts)}")
    blocks += [*shared_in_words(builds), "", table(configurations(found)), ""]
    blocks += [
        f"configuration {build.position}: {compile_error(build.error)}"
        for build in builds
        if build.error
    ]
    return text_of([*blocks, *what_is_not_known(kernel, builds)], width)


def named(reader: SessionReader, kernel: model.Kernel) -> str:
    """Return the name of a kernel, for one of the user's own with the place where it is written."""
    written = definition(reader, kernel.artifact)
    if written:
        return f"{kernel.name}, your kernel at {written.document.title}:{written.line + 1}"
    return kernel.name


def shared_in_words(builds: Sequence[KernelBuild]) -> list[str]:
    shared = [f"{name} {value}" for name, value in shared_options(builds).items()]
    if shared:
        return [
            f"in all configurations: {', '.join(shared)}"
            if len(builds) > 1
            else f"options: {', '.join(shared)}"
        ]
    return []


def configurations(found: Sequence[Candidate]) -> list[list[str]]:
    """Return the table of configurations, its heading first: one column per option that differs."""
    options = options_that_differ([candidate.build for candidate in found])
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
    return [heading, *(_configuration(candidate, options) for candidate in found)]


def _configuration(candidate: Candidate, options: Sequence[str]) -> list[str]:
    """Return the row of a configuration. One without resources says how far it came."""
    build = candidate.build
    chosen = [str(build.options.get(name, "")) for name in options]
    if not build.has_resources:
        return [
            str(build.position),
            *chosen,
            *([NO_RESOURCES.get(build.state, build.state)] + [""] * 5),
        ]
    room = candidate.occupancy
    return [
        str(build.position),
        *chosen,
        _number(build.registers),
        _number(build.spill_bytes),
        _number(build.shared_bytes),
        _share(room) if room else "?",
        ", ".join(LIMITS_IN_SHORT[limit] for limit in room.limited_by) if room else "",
        f"{candidate.ptx_lines:,}",
    ]


def _share(room: Occupancy) -> str:
    return f"{100 * room.share:.0f} %" if room.blocks else "does not fit"


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
    """Return every pass; ``*`` marks those that changed the text."""
    changed = sum(compiler_pass.changed for compiler_pass in compiler_passes)
    rows = [["pass", "", "name", "argument", "function"]]
    rows += [
        [
            str(compiler_pass.position),
            "*" if compiler_pass.changed else "",
            compiler_pass.name,
            compiler_pass.argument,
            compiler_pass.function,
        ]
        for compiler_pass in compiler_passes
    ]
    counts = f"{counted(len(compiler_passes), 'pass')}, {changed} of them changed the text (*)."
    return text_of([table(rows), "", counts], width)


def pass_text(compiler_pass: Pass) -> str:
    """Return what a pass did, as a diff of the whole text."""
    lines = [f"pass {compiler_pass.position}: {compiler_pass.name} ({compiler_pass.argument})"]
    if compiler_pass.is_last:
        lines.append("the last one: what it left is not printed")
    for row in pass_diff(compiler_pass):
        if row.sign == "~":
            lines += [f"- {row.before}", f"+ {row.after}"]
        else:
            lines.append(f"{row.sign} {row.after if row.before is None else row.before}")
    return "\n".join(lines) + "\n"
