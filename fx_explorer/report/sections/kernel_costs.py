"""The kernels of a session as a table of text, and what each costs as JSON: the columns of the app's
view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fx_explorer.analysis.kernels.costs import KernelCost, kernel_costs
from fx_explorer.analysis.kernels.roofline import microseconds
from fx_explorer.analysis.variants.versions import over_versions
from fx_explorer.analysis.words import counted, size
from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader

HEADINGS = ("kernel", "frame", "version", "direction", "your line", "module", "bytes", "time", "known", "calls")
RIGHT = {"bytes", "time", "calls"}


def kernel_cost(one: KernelCost) -> dict[str, Any]:
    """Return the line, the modules, the bytes and the time of all calls, and which version of its
    function a kernel is of.
    """
    version = one.version
    return {
        "line": {"file": one.lines[0][0], "line": one.lines[0][1]} if one.lines else None,
        "modules": list(one.modules),
        "calls": one.use.calls,
        "bytes": one.size_bytes if one.size_bytes >= 0 else None,
        "seconds": one.time_s or None,
        "seconds_are": one.time_kind or None,
        "version": {"number": version.number, "of": version.count, "function": version.function} if version else None,
    }


def kernels_as_text(reader: SessionReader) -> str:
    """Return the kernels as a table, and below it what they add up to; empty without kernels."""
    costs = kernel_costs(reader)
    if not costs:
        return ""
    rows = [HEADINGS, *(_cells(one) for one in costs)]
    shown = [at for at in range(len(HEADINGS)) if any(row[at] for row in rows[1:])]
    widths = {at: max(len(row[at]) for row in rows) for at in shown}
    lines = ["  ".join(_fitted(row[at], widths[at], HEADINGS[at]) for at in shown).rstrip() for row in rows]
    return "\n".join([*lines, "", _sum(reader, costs)]) + "\n"


def _cells(one: KernelCost) -> tuple[str, ...]:
    version, kernel = one.version, one.use.kernel
    cells = (
        kernel.name,
        f"[{version.name}]" if version else "",
        version.in_words if version else "",
        kernel.direction,
        one.line_in_words,
        one.module_in_words,
        size(one.size_bytes) if one.size_bytes >= 0 else "",
        microseconds(one.time_s) if one.time_s else "",
        one.time_kind,
        f"{one.use.calls:,}",
    )
    return tuple(map(printable, cells))


def _fitted(cell: str, width: int, heading: str) -> str:
    return cell.rjust(width) if heading in RIGHT else cell.ljust(width)


def _sum(reader: SessionReader, costs: Sequence[KernelCost]) -> str:
    moved = sum(max(0, one.size_bytes) for one in costs)
    took_s = sum(one.time_s for one in costs)
    told = [counted(len(costs), "kernel"), *([size(moved)] if moved else []), *([microseconds(took_s)] if took_s else [])]
    added = over_versions(reader, {one.use.kernel.compilation for one in costs})
    return " · ".join([*told, *([f"a sum {added}"] if added else [])])
