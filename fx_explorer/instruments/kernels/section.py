"""The kernels of a session as a table of text, and what each costs as JSON: the columns of the
app's view, or those of them that there is room for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fx_explorer.analysis.versions import over_versions
from fx_explorer.analysis.words import counted, listed, size
from fx_explorer.instruments.kernels.costs import KernelCost, kernel_costs, time_kinds
from fx_explorer.instruments.kernels.roofline import microseconds
from fx_explorer.output.table import Column, Table
from fx_explorer.output.text import text_of
from fx_explorer.session import SessionReader

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
    """Return the line, the modules, the bytes and the time of all calls, and which version of its
    function a kernel is of.
    """
    version = cost.version
    return {
        "line": {"file": cost.lines[0][0], "line": cost.lines[0][1]} if cost.lines else None,
        "modules": list(cost.modules),
        "calls": cost.use.calls,
        "bytes": cost.size_bytes if cost.size_bytes >= 0 else None,
        "seconds": cost.time_s or None,
        "seconds_are": cost.time_kind or None,
        "version": {"number": version.number, "of": version.count, "function": version.function}
        if version
        else None,
    }


def kernels_as_text(reader: SessionReader, width: int | None = None) -> str:
    """Return the kernels as a table, and below it what they add up to; empty without kernels. In a
    ``width``, long names are cut in the middle, and below the table stands which columns were left
    out; None is for all there is.
    """
    costs = kernel_costs(reader)
    if not costs:
        return ""
    table = Table(COLUMNS, [_cells(cost) for cost in costs])
    return text_of([table, "", _sum(reader, costs)], width)


def _cells(cost: KernelCost) -> tuple[str, ...]:
    version, kernel = cost.version, cost.use.kernel
    return (
        kernel.name,
        f"[{version.name}]" if version else "",
        version.in_words if version else "",
        kernel.direction,
        cost.line_in_words,
        cost.module_in_words,
        size(cost.size_bytes) if cost.size_bytes >= 0 else "",
        microseconds(cost.time_s) if cost.time_s else "",
        cost.time_kind,
        f"{cost.use.calls:,}",
    )


def _sum(reader: SessionReader, costs: Sequence[KernelCost]) -> str:
    moved = sum(max(0, cost.size_bytes) for cost in costs)
    took_s = sum(cost.time_s for cost in costs)
    took = [f"{microseconds(took_s)} ({listed(sorted(time_kinds(costs)))})"] if took_s else []
    parts = [counted(len(costs), "kernel"), *([size(moved)] if moved else []), *took]
    added = over_versions(reader, {cost.use.kernel.compilation for cost in costs})
    return " · ".join([*parts, *([f"a sum {added}"] if added else [])])
