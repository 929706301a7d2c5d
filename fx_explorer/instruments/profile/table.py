"""A profile as rows of words, which text, markdown and the screen have alike: columns, and their
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import careful_share
from fx_explorer.instruments.modules.tree import ModuleRow
from fx_explorer.instruments.profile.figures import ProfileFigures, module_name
from fx_explorer.instruments.profile.outside import KIND_WORDS
from fx_explorer.instruments.profile.verdict import between, doing_in_words
from fx_explorer.output.table import Column
from fx_explorer.session.file_names import in_file

Cells = tuple[str, ...]

LINE = Column("line", narrowing="cut", least=18)
MODULE = Column("module", narrowing="cut", least=14)
FRAME = Column("frame", priority=3)
DIRECTION = Column("direction", priority=2)
TIME = Column("time", is_number=True)
SHARE = Column("share", is_number=True)
RUNS = Column("runs", is_number=True, priority=4)


class ProfileTable(NamedTuple):
    """Rows of one kind, the most expensive first."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Cells]


def tables(figures: ProfileFigures) -> list[ProfileTable]:
    """Return the tables that have something in them."""
    found = [
        _lines(figures),
        _modules(figures),
        _kernels(figures),
        _nodes(figures),
        _others(figures),
        _gaps(figures),
    ]
    return [table for table in found if table.rows]


def _lines(figures: ProfileFigures) -> ProfileTable:
    rows = [
        (
            in_file(*one.line),
            run_time(one.seconds),
            _share(figures, one.seconds),
            _time(one.forward_s),
            _time(one.backward_s),
        )
        for one in figures.lines
    ]
    directions = (Column("forward", is_number=True), Column("backward", is_number=True))
    return ProfileTable("your lines", (LINE, TIME, SHARE, *directions), rows)


def _modules(figures: ProfileFigures) -> ProfileTable:
    rows = [
        (
            "  " * row.depth + (row.title if row.depth else module_name(row)),
            _time(row.own.time_s if not row.is_fold else 0.0),
            run_time(row.figures.time_s),
            _share(figures, row.figures.time_s),
        )
        for row in _folded(figures.modules)
    ]
    times = (Column("itself", is_number=True), Column("with all in it", is_number=True))
    return ProfileTable("modules", (MODULE, *times, SHARE), rows)


def _folded(rows: Sequence[ModuleRow]) -> list[ModuleRow]:
    """Return the rows without what is in several alike layers: one row stands for them."""
    shown: list[ModuleRow] = []
    hidden_below: int | None = None
    for row in rows:
        if hidden_below is not None and row.depth > hidden_below:
            continue
        hidden_below = row.depth if row.is_fold else None
        shown.append(row)
    return shown


def _kernels(figures: ProfileFigures) -> ProfileTable:
    rows = [
        (
            one.cost.use.kernel.name,
            f"[{one.cost.version.name}]" if one.cost.version else "",
            one.cost.use.kernel.direction,
            mark(one.time.shared_s > 0, one.time.is_similar) + run_time(one.time.seconds),
            _share(figures, one.time.seconds),
            f"{one.time.runs:,}",
            one.cost.line_in_words,
            one.cost.module_in_words,
        )
        for one in figures.kernels
    ]
    kernel = Column("kernel", narrowing="cut", least=24)
    line = Column("your line", narrowing="cut", least=18)
    columns = (kernel, FRAME, DIRECTION, TIME, SHARE, RUNS, line, MODULE)
    return ProfileTable("kernels", columns, rows)


def _nodes(figures: ProfileFigures) -> ProfileTable:
    rows = [
        (
            one.node.name,
            "backward" if one.node.is_backward else "",
            run_time(one.seconds),
            _share(figures, one.seconds),
            f"1 of {one.among}" if one.among > 1 else "",
        )
        for one in figures.nodes
    ]
    operation = Column("operation", narrowing="cut", least=24)
    part = Column("part of its kernel", priority=1)
    return ProfileTable("operations", (operation, DIRECTION, TIME, SHARE, part), rows)


def _others(figures: ProfileFigures) -> ProfileTable:
    rows = [
        (
            KIND_WORDS[one.kind],
            one.name,
            f"[{one.compilation}]" if one.compilation else "",
            run_time(one.seconds),
            _share(figures, one.seconds),
            f"{one.runs:,}",
            in_file(one.file, one.line) if one.line else "",
        )
        for one in figures.others
    ]
    what = Column("what", narrowing="wrapped", least=18)
    operator = Column("operator", narrowing="cut", least=16)
    columns = (what, operator, FRAME, TIME, SHARE, RUNS, LINE)
    return ProfileTable("joined to no kernel", columns, rows)


def _gaps(figures: ProfileFigures) -> ProfileTable:
    rows = [
        (run_time(gap.seconds), f"at {run_time(gap.start_s)}", between(gap), doing_in_words(gap))
        for gap in figures.gaps
    ]
    columns = (
        Column("for", is_number=True),
        Column("when"),
        Column("where", narrowing="wrapped", least=22),
        Column("meanwhile the program", narrowing="wrapped", least=24),
    )
    return ProfileTable("the GPU is idle", columns, rows)


def mark(is_shared: bool, is_similar: bool) -> str:
    """Return the sign before a time that is not surely that of this kernel."""
    return "~ " if is_shared else "≈ " if is_similar else ""


def _time(seconds: float) -> str:
    return run_time(seconds) if seconds > 0 else ""


def _share(figures: ProfileFigures, seconds: float) -> str:
    return careful_share(seconds, figures.profile.work_s)
