"""View of the stages: what each did to the operations of a compilation."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.analysis.stages.stage_work import MOST_COMPILATIONS, points_in_use, stage_work
from fx_explorer.analysis.stages.work import EXPLAINED, StagePoint
from fx_explorer.analysis.words import counted
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.session import SessionReader

MOST_NODES = 20_000
"""Of a session with more, a stage is told when it is looked at: all of 300,000 take 3 s."""

COLUMNS = (
    TableColumn("frame", "annotation", priority=3),
    TableColumn("stage", "strong", min_width=18, max_width=32),
    TableColumn("direction", "muted", min_width=9, priority=1),
    TableColumn("before", is_number=True, priority=2),
    TableColumn("after", is_number=True, priority=2),
    TableColumn("effect", min_width=32, max_width=200),
)


def stages_table(reader: SessionReader) -> ViewTable:
    points = points_in_use(reader)
    left_out = max(0, len(variants_in_use(reader)) - MOST_COMPILATIONS)
    further = f" {counted(left_out, 'later compilation')} are left out." if left_out else ""
    is_told = sum(graph.node_count for graph in reader.rows(model.Graph)) <= MOST_NODES
    return ViewTable(
        shows="What each stage of the compiler did, in order; the backward comes after the "
        "forward.",
        notice=(
            "Enter shows what stood before a stage beside what stood after it, operation by "
            "operation."
        )
        + further,
        origin="the graphs and the IR that were recorded between the stages, and the links "
        "between them",
        columns=COLUMNS,
        rows=[_row(reader, point) if is_told else _untold(reader, point) for point in points],
        empty="No stage has been recorded: nothing was compiled yet.",
    )


def _row(reader: SessionReader, point: StagePoint) -> TableRow:
    work = stage_work(reader, point)
    words = work.sentence.removeprefix(point.title).lstrip(":, ")
    cells = (
        f"[{point.owner}]",
        point.title,
        point.direction,
        f"{work.before:,}",
        f"{work.after:,}",
        words,
    )
    values = {"before": float(work.before), "after": float(work.after)}
    detail = f"{work.sentence}\n\n{EXPLAINED[point.key]}"
    return TableRow(
        cells, _place(point), lambda: Detail(detail), values=values, version=point.owner
    )


def _untold(reader: SessionReader, point: StagePoint) -> TableRow:
    cells = (
        f"[{point.owner}]",
        point.title,
        point.direction,
        "",
        "",
        "⏎ tells: so many operations take a while",
    )
    return TableRow(cells, _place(point), lambda: Detail(EXPLAINED[point.key]), version=point.owner)


def _place(point: StagePoint) -> Place | None:
    return Place(point.after[0]) if point.after else None
