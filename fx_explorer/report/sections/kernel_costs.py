"""The kernels of a session as a table of text, and what each costs as JSON: the columns of the app's
view, or those of them that there is room for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.cells import cell_len

from fx_explorer.analysis.kernels.costs import KernelCost, kernel_costs, time_kinds
from fx_explorer.analysis.kernels.roofline import microseconds
from fx_explorer.analysis.variants.versions import over_versions
from fx_explorer.analysis.words import counted, listed, size
from fx_explorer.cut_text import cut_in_middle
from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader

HEADINGS = ("kernel", "frame", "version", "direction", "your line", "module", "bytes", "time", "known", "calls")
RIGHT = {"bytes", "time", "calls"}
GAP = "  "

FIRST_TO_GO = ("calls", "version", "frame", "known", "direction", "bytes", "module")
"""Where there is no room for all, these columns are left out, the first of them first."""

LEAST_NAME_CELLS = {"kernel": 24, "your line": 18, "module": 14}
"""Columns whose texts may be cut → the cells below which another column is left out rather than more of them."""


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


def kernels_as_text(reader: SessionReader, width: int | None = None) -> str:
    """Return the kernels as a table, and below it what they add up to; empty without kernels. In a ``width``, long names
    are cut in the middle, and below the table stands which columns were left out; None is for all there is.
    """
    costs = kernel_costs(reader)
    if not costs:
        return ""
    rows = [HEADINGS, *(_cells(one) for one in costs)]
    known = [at for at in range(len(HEADINGS)) if any(row[at] for row in rows[1:])]
    widths = _fitting({at: max(cell_len(row[at]) for row in rows) for at in known}, width)
    lines = [GAP.join(_fitted(row[at], wide, HEADINGS[at]) for at, wide in widths.items()).rstrip() for row in rows]
    left_out = [f"“{HEADINGS[at]}”" for at in known if at not in widths]
    lines += ["", _sum(reader, costs)]
    if left_out:
        named = listed(left_out, len(left_out))
        lines.append(f"Left out for want of room: {named}. A wider terminal and --format json have all.")
    return "\n".join(lines) + "\n"


def _fitting(widths: dict[int, int], room: int | None) -> dict[int, int]:
    """Return the columns that there is room for, with their widths."""
    if room is None:
        return widths
    shown = dict(widths)
    least = {at: LEAST_NAME_CELLS.get(HEADINGS[at], wide) for at, wide in widths.items()}
    for heading in FIRST_TO_GO:
        if _total(min(wide, least[at]) for at, wide in shown.items()) <= room:
            break
        shown.pop(HEADINGS.index(heading), None)
    names = [at for at in shown if HEADINGS[at] in LEAST_NAME_CELLS]
    while _total(shown.values()) > room and any(shown[at] > 1 for at in names):
        shown[max(names, key=lambda at: shown[at] - least[at])] -= 1
    return shown


def _total(widths: Iterable[int]) -> int:
    """Return the cells that columns take with the gaps between them."""
    wide = [*widths]
    return sum(wide) + len(GAP) * (len(wide) - 1)


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
    shown = cut_in_middle(cell, width)
    filled = " " * (width - cell_len(shown))
    return filled + shown if heading in RIGHT else shown + filled


def _sum(reader: SessionReader, costs: Sequence[KernelCost]) -> str:
    moved = sum(max(0, one.size_bytes) for one in costs)
    took_s = sum(one.time_s for one in costs)
    took = [f"{microseconds(took_s)} ({listed(sorted(time_kinds(costs)))})"] if took_s else []
    told = [counted(len(costs), "kernel"), *([size(moved)] if moved else []), *took]
    added = over_versions(reader, {one.use.kernel.compilation for one in costs})
    return " · ".join([*told, *([f"a sum {added}"] if added else [])])
