"""View 4: graph breaks and recompiles, grouped by the user's line and the cause."""

from __future__ import annotations

from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.analysis.measured_times import call_time, run_time
from fx_explorer.analysis.modules.module_regions import belongs, is_module
from fx_explorer.analysis.modules.own_figures import break_paths
from fx_explorer.analysis.naming.functions import plain_function
from fx_explorer.analysis.overview.fallbacks import DistinctFallback, distinct_fallbacks
from fx_explorer.analysis.recompiles.causes import ExplainedRecompile, causes
from fx_explorer.analysis.regions.region_nodes import RegionKey
from fx_explorer.analysis.whole_session.log_sessions import is_log, why_not_in_text
from fx_explorer.analysis.words import breaks_hit, counted, first_line
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.tui.views.break_detail import break_text, left_text
from fx_explorer.tui.views.table import Detail, Table, TableColumn, TableRow

COLUMNS = (
    TableColumn("what", "bad", min_width=11),
    TableColumn("where", "link", min_width=16, keeps="end"),
    TableColumn("adds", min_width=9),
    TableColumn("takes", is_number=True, min_width=7, total=run_time),
    TableColumn("times", is_number=True, priority=2, total=lambda value: f"{value:,.0f}×"),
    TableColumn("why", min_width=34, max_width=60),
    TableColumn("your line", "muted", min_width=16, max_width=90, priority=1),
)

TAKES = 3
"""Position of the column that is shown only when breaks were measured."""


BreakSubject = DistinctBreak | DistinctFallback | ExplainedRecompile


def breaks_table(reader: SessionReader) -> Table:
    breaks, again, left = distinct_breaks(reader), causes(reader), _left(reader)
    rows = [_break_row(reader, b) for b in breaks]
    rows += [_left_row(reader, one) for one in left]
    rows += [_recompile_row(reader, r) for r in again]
    return Table(
        shows="Where Dynamo had to stop a graph and go back to Python, and what made torch compile a function again.",
        notice=_notice(breaks, left, again, can_measure=not is_log(reader)),
        origin="torch's own graph break and recompile records",
        columns=COLUMNS if call_time(reader) else (*COLUMNS[:TAKES], *COLUMNS[TAKES + 1 :]),
        rows=rows if call_time(reader) else [_untimed(row) for row in rows],
        empty=_why_empty(reader),
        within=lambda reader, region: _within(reader, region, breaks),
    )


def _within(
    reader: SessionReader, region: RegionKey, breaks: list[DistinctBreak]
) -> list[int] | None:
    """Return the rows of the breaks in a module. What else the table has is of whole functions."""
    if not is_module(region):
        return None
    paths, is_there = break_paths(reader), belongs(region)
    return [
        at
        for at, one in enumerate(breaks)
        if is_there(paths[one.file, one.line, one.registry_id or one.reason])
    ]


def subjects(reader: SessionReader) -> list[BreakSubject]:
    """Return what the rows stand for, in their order."""
    return [*distinct_breaks(reader), *_left(reader), *causes(reader)]


def _left(reader: SessionReader) -> list[DistinctFallback]:
    return [one for one in distinct_fallbacks(reader) if not one.has_nothing_to_compile]


def _untimed(row: TableRow) -> TableRow:
    return replace(row, cells=(*row.cells[:TAKES], *row.cells[TAKES + 1 :]))


def _break_row(reader: SessionReader, found: DistinctBreak) -> TableRow:
    where = in_file(found.file, found.line) if found.file else "unknown"
    takes = run_time(found.cost.run_s) if found.cost.run_s is not None else "–"
    cells = (
        "✗ break",
        where,
        found.cost.in_short,
        takes,
        f"{found.count}×",
        found.in_words,
        found.code,
    )
    values = {"times": float(found.count)}
    values |= {"takes": found.cost.run_s} if found.cost.run_s is not None else {}
    return TableRow(cells, found.place, lambda: Detail(break_text(reader, found)), values=values)


def _left_row(reader: SessionReader, found: DistinctFallback) -> TableRow:
    where = in_file(found.file, found.line)
    cells = (
        "✗ left",
        where,
        "not compiled",
        "–",
        f"{found.count}×",
        found.in_words,
        plain_function(found.function),
    )
    return TableRow(cells, found.place, lambda: Detail(left_text(reader, found)), part=1)


def _recompile_row(reader: SessionReader, found: ExplainedRecompile) -> TableRow:
    where = in_file(found.file, found.line) if found.file else plain_function(found.function)
    cells = (
        "↻ recompile",
        where,
        "",
        "–",
        f"[{found.compilation}]",
        found.in_words,
        first_line(_source_line(reader, found)),
    )
    return TableRow(
        cells, found.place, lambda: Detail(_recompile_text(found)), kind="warning", part=2
    )


def _source_line(reader: SessionReader, found: ExplainedRecompile) -> str:
    if not found.place:
        return ""
    files = reader.by_ids(model.SourceFile, [found.place.document.id])
    lines = reader.text(files[0].text).split("\n") if files else []
    return lines[found.place.line].strip() if found.place.line < len(lines) else ""


def _recompile_text(found: ExplainedRecompile) -> str:
    file, line = found.called_from
    known = (
        ("What to do", found.remedy),
        ("Called from", f"{file}:{line}" if file else ""),
        ("Graphs", found.graphs),
    )
    told = [part for title, text in known if text for part in (title, f"  {text}", "")]
    parts = [
        f"[{found.compilation}] {plain_function(found.function)} was compiled again because {found.in_words}.",
        "",
        *told,
        f"The code compiled as [{found.of}] could not be reused: its guard failed.{_others(found)}",
        f"  {found.guard_in_words}",
        "",
        "torch's own words",
        f"  {found.reason}",
    ]
    return "\n".join(parts)


def _others(found: ExplainedRecompile) -> str:
    others = found.times - 1
    if not others:
        return ""
    was = "was" if others == 1 else "were"
    return f" {counted(others, 'earlier version').capitalize()} {was} refused for the same."


def _notice(
    breaks: list[DistinctBreak],
    left: list[DistinctFallback],
    again: list[ExplainedRecompile],
    *,
    can_measure: bool,
) -> str:
    parts = []
    if breaks:
        hits, graphs = sum(b.count for b in breaks), sum(b.cost.extra_graphs for b in breaks)
        parts.append(f"{breaks_hit(len(breaks), hits)}, costliest first")
        parts += [f"{counted(graphs, 'more graph')} by them"] if graphs else []
    if left:
        parts.append(f"{counted(len(left), 'function')} left to Python")
    if again:
        parts.append(counted(len({r.compilation for r in again}), "recompile"))
    measures = ", x t how long each takes" if can_measure else ""
    offered = (
        f" x x shows what may take one away{measures}."
        if breaks
        else " x x shows what may avoid one."
    )
    return f"{' · '.join(parts)}. Enter goes to your line.{offered}" if parts else ""


def _why_empty(reader: SessionReader) -> str:
    if why := why_not_in_text(reader, "graph breaks", "recompiles"):
        return why
    if reader.meta("outcome") is None:
        return "None so far."
    if not reader.count(model.Compilation):
        return "Nothing was compiled, so nothing could break. The console (8) shows what the program said."
    return "No graph break and no recompile: every function was compiled once, as one graph."
