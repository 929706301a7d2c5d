"""View u: the configurations of one Triton kernel, which the autotuner would choose from, beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.below.candidates import (
    Candidate,
    candidates,
    options_that_differ,
    session_gpu,
    shared_options,
    what_is_not_known,
)
from fx_explorer.analysis.below.kernel_facts import kernel_facts
from fx_explorer.analysis.below.occupancy import Limit
from fx_explorer.analysis.below.roofline import microseconds
from fx_explorer.analysis.below.unknown import NO_GPU
from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.words import first_line, size
from fx_explorer.model import Gpu, KernelBuild
from fx_explorer.session import SessionReader
from fx_explorer.tui.levels import builds_here
from fx_explorer.tui.views.table import Column, Detail, Row, Table

LONGEST_SHARED = 100

NO_KERNEL_YET = "No kernel: go to a Triton kernel, or to a line or node that one computes, and press the key again."

LIMITS_IN_SHORT: dict[Limit, str] = {"warps": "warps", "blocks": "blocks", "registers": "registers", "shared": "shared"}

ORIGINS: dict[str, str] = {
    "heuristic": "",
    "smaller_block": "added: smaller blocks, for fewer registers",
    "template": "another choice of the template",
    "tuned": "found by coordinate descent",
    "cached": "picked in an earlier run",
}


def candidates_table(reader: SessionReader, kernel: model.Kernel | None, progress: str = "") -> Table:
    """``progress``: how far their compiling is."""
    if kernel is None:
        return _table("", [], (), NO_KERNEL_YET)
    gpu = session_gpu(reader)
    found = candidates(reader, kernel, gpu) if gpu else [Candidate(row, None) for row in builds_here(reader, kernel)]
    builds = [one.build for one in found]
    options = options_that_differ(builds)
    said = [progress, *what_is_not_known(kernel, builds)]
    return Table(
        shows=f"{kernel.name}: its configurations{_in_all(builds)}. Enter shows one, level by level.",
        notice=" ".join(filter(None, said)),
        origin="Inductor's own list",
        columns=_columns(options, has_timing=any(row.timing_s or row.is_picked for row in builds)),
        rows=[_row(reader, kernel, gpu, one, options) for one in found],
        empty=progress or ("None is known yet." if gpu else NO_GPU),
    )


def _table(notice: str, rows: Sequence[Row], columns: Sequence[Column], empty: str) -> Table:
    return Table(
        "The configurations of a Triton kernel that the autotuner would choose from.",
        notice,
        "Inductor's own list",
        tuple(columns),
        rows,
        empty,
    )


def _in_all(rows: Sequence[KernelBuild]) -> str:
    """``, all with 4 warps · 1 stage``: what no column says."""
    shared = shared_options(rows)
    words = replace(rows[0], options=shared).shown_options if shared else ""
    words = words if len(words) <= LONGEST_SHARED else words[:LONGEST_SHARED] + "…"
    return f", all with {words}" if words and len(rows) > 1 else f" ({words})" if words else ""


def _columns(options: Sequence[str], *, has_timing: bool) -> tuple[Column, ...]:
    timing = (Column("measured", "good", is_number=True, min_width=9),) if has_timing else ()
    return (
        Column("", "muted", is_number=True, min_width=2),
        *(Column(name.removeprefix("num_"), "strong", is_number=True, min_width=3) for name in options),
        *timing,
        Column("registers", is_number=True, min_width=5),
        Column("spilled", is_number=True, min_width=5),
        Column("shared", is_number=True, min_width=7),
        Column("occupancy", is_number=True, min_width=5),
        Column("limited by", "muted", min_width=10, priority=1),
        Column("PTX lines", "muted", is_number=True, min_width=9, priority=2),
        Column("state", "text", min_width=5, max_width=60),
    )


def _row(reader: SessionReader, kernel: model.Kernel, gpu: Gpu | None, one: Candidate, options: Sequence[str]) -> Row:
    build, room = one.build, one.occupancy
    has_timing = [_measured(build)] if any(row.timing_s or row.is_picked for row in builds_here(reader, kernel)) else []
    cells = (
        str(build.position),
        *(str(build.options.get(name, "")) for name in options),
        *has_timing,
        _number(build.registers),
        size(build.spill_bytes) if build.spill_bytes > 0 else _number(build.spill_bytes),
        size(build.shared_bytes) if build.shared_bytes > 0 else _number(build.shared_bytes),
        (f"{100 * room.share:.0f} %" if room.blocks else "none") if room else "",
        ", ".join(LIMITS_IN_SHORT[limit] for limit in room.limited_by) if room else "",
        f"{one.ptx_lines:,}" if one.ptx_lines else "",
        _state(build),
    )
    place = _place(reader, kernel)
    return Row(cells, place, lambda: Detail(_detail(reader, kernel, gpu, build)), kind="good" if build.is_picked else "")


def _place(reader: SessionReader, kernel: model.Kernel) -> Place:
    from fx_explorer.tui.levels import first_statement

    return first_statement(reader, kernel)


def _number(value: int) -> str:
    return f"{value:,}" if value >= 0 else ""


def _measured(build: KernelBuild) -> str:
    return microseconds(build.timing_s) if build.timing_s else ""


def _state(build: KernelBuild) -> str:
    if build.state == "failed":
        return f"✗ {first_line(build.error)}"
    ran = "● picked" if build.is_picked else ""
    words = {"candidate": "not compiled", "built": ""}[build.state]
    return " · ".join(part for part in (ran, words, ORIGINS[build.origin]) if part)


def _detail(reader: SessionReader, kernel: model.Kernel, gpu: Gpu | None, build: KernelBuild) -> str:
    lines = [f"{kernel.name} with {build.shown_options}", ""] if build.options else [kernel.name, ""]
    if gpu:
        lines += [f"• {fact.label}: {fact.text}" for fact in kernel_facts(reader, kernel, gpu, build)]
    if build.error:
        lines += ["", build.error]
    elif build.state == "candidate":
        lines += ["", "Enter compiles it and shows every level."]
    return "\n".join(lines)
