"""This module makes view u: the choices of the autotuner side by side, configurations of a Triton
kernel or library calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_kernel
from fx_explorer.analysis.kernel_documents import (
    first_statement,
    options_that_differ,
    session_gpu,
    source_document,
)
from fx_explorer.analysis.whole_session import is_log, is_tritonparse
from fx_explorer.analysis.words import compile_error, size
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable, shown_name
from fx_explorer.instruments.kernels.candidates import (
    Candidate,
    candidates,
    may_be_template,
    shared_options,
    what_is_not_known,
)
from fx_explorer.instruments.kernels.gpu_limits import (
    NOT_CAPTURED_FOR_A_GPU,
    UNKNOWN_LIBRARY_KERNEL,
    Limit,
    Occupancy,
    card,
    microseconds,
    not_described,
)
from fx_explorer.instruments.kernels.kernel_facts import kernel_facts
from fx_explorer.instruments.kernels.launched import (
    NOT_IN_LOG,
    describe_configuration,
    may_be_tuned,
    measured_choices,
    real_candidates,
)
from fx_explorer.model import Gpu, KernelBuild
from fx_explorer.session import SessionReader

LONGEST_SHARED = 40
"""Maximum number of characters of shared options that are named in a line. A configuration's detail
has all of its options.
"""

NO_KERNEL_YET = (
    "No kernel: go to a kernel, or to a line or node that one computes, and press the key again."
)

NO_CHOICE = "No alternatives were tried for this library call."
TEMPLATES_MAY_BE = "With --mode max-autotune, Inductor may try Triton templates as well."

LIMITS_IN_SHORT: dict[Limit, str] = {
    "warps": "warps",
    "blocks": "blocks",
    "registers": "registers",
    "shared": "shared",
}

ORIGINS: dict[str, str] = {
    "heuristic": "",
    "smaller_block": "added: smaller blocks, for fewer registers",
    "template": "a Triton template",
    "tuned": "found by coordinate descent",
    "cached": "picked in an earlier run",
    "library": "a library call",
}


def candidates_table(
    reader: SessionReader, kernel: model.Kernel | None, progress: str = ""
) -> ViewTable:
    """Make the table of configurations. ``progress`` describes how far compiling them is."""
    if kernel is None:
        return _table("", [], (), NO_KERNEL_YET)
    gpu = session_gpu(reader)
    configurations = candidates(reader, kernel, gpu) if gpu else real_candidates(reader, kernel)
    builds = [configuration.build for configuration in configurations]
    options = _with_a_column(builds)
    not_known = what_is_not_known(kernel, builds)
    origin = "what Triton compiled" if is_tritonparse(reader) else "Inductor's own list"
    return ViewTable(
        shows=_shows(kernel, builds),
        notice=_shows(kernel, builds),
        origin=origin,
        columns=_columns(options, builds),
        rows=[
            _row(reader, kernel, card(reader), configuration, builds, not_known[1:])
            for configuration in configurations
        ],
        empty=progress or _why_none(reader, kernel, gpu),
        answer=" ".join(filter(None, [progress, not_described(reader), *not_known[:1]])),
    )


def _table(
    notice: str, rows: Sequence[TableRow], columns: Sequence[TableColumn], empty: str
) -> ViewTable:
    return ViewTable(
        "The configurations of a Triton kernel that the autotuner would choose from.",
        notice,
        "Inductor's own list",
        tuple(columns),
        rows,
        empty,
    )


def _shows(kernel: model.Kernel, rows: Sequence[KernelBuild]) -> str:
    if kernel.language != "extern":
        return (
            f"{shown_name(kernel.name)}: its configurations{_in_all(rows)}. Enter shows one, "
            f"level by level."
        )
    templates = (
        " Enter shows a template's levels." if any(row.origin == "template" for row in rows) else ""
    )
    return f"{shown_name(kernel.name)}: the autotuner's candidates.{templates}"


def _why_none(reader: SessionReader, kernel: model.Kernel, gpu: Gpu | None) -> str:
    measured = measured_choices(reader, kernel.compilation) if is_log(reader) else []
    if measured and may_be_tuned(kernel):
        return " ".join(f"{choice.description}." for choice in measured)
    if kernel.language == "extern":
        if may_be_template(kernel):
            return f"{NO_CHOICE} {TEMPLATES_MAY_BE}"
        return NO_CHOICE
    if gpu:
        return "None is known yet."
    if is_log(reader):
        return _of_a_log(reader, kernel)
    return NOT_CAPTURED_FOR_A_GPU


def _of_a_log(reader: SessionReader, kernel: model.Kernel) -> str:
    """Describe the configuration of a kernel that a log records."""
    options = describe_configuration(reader, kernel)
    built = f"It was built with {options}. " if options else ""
    return f"{built}{NOT_IN_LOG}"


def _in_all(rows: Sequence[KernelBuild]) -> str:
    """Return the options that all configurations share and no column shows: ``, all with 4 warps ·
    1 stage``.
    """
    shared = shared_options(rows)
    words = replace(rows[0], options=shared).shown_options if shared else ""
    if not words or len(words) > LONGEST_SHARED:
        return ""
    if len(rows) > 1:
        return f", all with {words}"
    return f" ({words})"


def _with_a_column(rows: Sequence[KernelBuild]) -> list[str]:
    """Return the options that have a column. A library call among templates has no options: its
    name is in the last column.
    """
    names = options_that_differ(rows)
    return [name for name in names if name != "library"] or names


def _columns(options: Sequence[str], rows: Sequence[KernelBuild]) -> tuple[TableColumn, ...]:
    timing = (
        (TableColumn("measured", "good", is_number=True, min_width=9),) if _has_timing(rows) else ()
    )
    return (
        TableColumn("#", "muted", is_number=True, min_width=2),
        *(
            TableColumn(_short(name), "strong", is_number=True, min_width=_width(name, rows))
            for name in options
        ),
        *timing,
        TableColumn("regs", is_number=True, min_width=4),
        TableColumn("spills", is_number=True, min_width=6),
        TableColumn("shared", is_number=True, min_width=8),
        TableColumn("occup.", is_number=True, min_width=6),
        TableColumn("limited by", "muted", min_width=10, priority=1),
        TableColumn("PTX lines", "muted", is_number=True, min_width=9, priority=2),
        TableColumn("state", "text", min_width=7, max_width=60),
    )


def _has_timing(rows: Sequence[KernelBuild]) -> bool:
    return any(row.timing_s or row.is_picked for row in rows)


def _width(option: str, rows: Sequence[KernelBuild]) -> int:
    return min(
        6, max([len(_short(option)), *(len(str(row.options.get(option, ""))) for row in rows)])
    )


def _short(option: str) -> str:
    """Return the option's short name: ``warps``, or a letter for a block size of a template."""
    return option.removeprefix("num_").removeprefix("BLOCK_")


def _row(
    reader: SessionReader,
    kernel: model.Kernel,
    gpu: Gpu | None,
    candidate: Candidate,
    every: Sequence[KernelBuild],
    not_known: Sequence[str],
) -> TableRow:
    build = candidate.build
    options = _with_a_column(every)
    timing = [_measured(build)] if _has_timing(every) else []
    ptx_lines = f"{candidate.ptx_lines:,}" if candidate.ptx_lines else ""
    cells = (
        str(build.position),
        *(str(build.options.get(name, "")) for name in options),
        *timing,
        _number(build.registers),
        _size(build.spill_bytes),
        _size(build.shared_bytes),
        *_occupancy_cells(candidate.occupancy),
        ptx_lines,
        _state(build, every[0], options),
    )
    document = source_document(reader, build)
    place = first_statement(reader, document) if document else place_of_kernel(reader, kernel)
    kind = "good" if build.is_picked else ""
    return TableRow(
        cells, place, lambda: Detail(_detail(reader, kernel, gpu, build, not_known)), kind=kind
    )


def _occupancy_cells(occupancy: Occupancy | None) -> tuple[str, str]:
    """Return the occupancy and its limit; empty where it is not known."""
    if occupancy is None:
        return "", ""
    limits = ", ".join(LIMITS_IN_SHORT[limit] for limit in occupancy.limited_by)
    if not occupancy.blocks:
        return "none", limits
    return f"{100 * occupancy.share:.0f} %", limits


def _number(value: int) -> str:
    return f"{value:,}" if value >= 0 else ""


def _size(size_bytes: int) -> str:
    """Return ``1.2 kB``; ``0`` for no bytes, and empty where the size is not known."""
    return size(size_bytes) if size_bytes > 0 else _number(size_bytes)


def _measured(build: KernelBuild) -> str:
    if build.timing_s:
        return microseconds(build.timing_s)
    return ""


def _state(build: KernelBuild, first: KernelBuild, options: Sequence[str]) -> str:
    """Return a configuration's state. Its origin is named only if it differs from the first's, a
    library's name only if no column shows it.
    """
    if build.state == "failed":
        return f"✗ {compile_error(build.error)}"
    ran = "● picked" if build.is_picked else ""
    words = {"candidate": "not yet", "built": ""}[build.state]
    origin = ORIGINS[build.origin] if build.origin != first.origin else ""
    if build.origin == "library" and "library" not in options:
        origin = f"{build.name}, {ORIGINS['library']}"
    return " · ".join(part for part in (ran, words, origin) if part)


def _what(kernel: model.Kernel, build: KernelBuild) -> str:
    if build.origin == "library":
        return f"The library call {build.name}"
    if build.options:
        return f"{kernel.name} with {build.shown_options}"
    return kernel.name


def _detail(
    reader: SessionReader,
    kernel: model.Kernel,
    gpu: Gpu | None,
    build: KernelBuild,
    not_known: Sequence[str],
) -> str:
    lines = [_what(kernel, build), ""]
    if gpu:
        lines += [
            f"• {fact.label}: {fact.text}" for fact in kernel_facts(reader, kernel, gpu, build)
        ]
    if build.error:
        lines += ["", build.error]
    elif build.origin == "library" and kernel.language != "extern":
        lines += ["", UNKNOWN_LIBRARY_KERNEL]
    elif build.state == "candidate":
        lines += ["", "Enter compiles it and shows every level."]
    lines += ["", *not_known] if not_known else []
    return "\n".join(lines)
