"""What each stage did, in the report."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.stages.stage_work import MOST_COMPILATIONS, points_in_use, stage_work
from fx_explorer.analysis.stages.work import FATES, StageWork
from fx_explorer.session import SessionReader

MOST_NODES = 500_000

Json = dict[str, object]


def stages_of_report(reader: SessionReader) -> list[Json] | None:
    """Return the stages of all compilations; None where there are so many that telling takes long."""
    nodes = sum(graph.node_count for graph in reader.rows(model.Graph))
    if nodes > MOST_NODES or reader.count(model.Compilation) > MOST_COMPILATIONS:
        return None
    return [_stage(stage_work(reader, point)) for point in points_in_use(reader)]


def _stage(work: StageWork) -> Json:
    point = work.point
    return {
        "compilation": point.owner,
        "stage": point.key,
        "title": point.title,
        "direction": point.direction or None,
        "before": work.before,
        "after": work.after,
        "became": {fate: work.became[fate] for fate in FATES if work.became.get(fate)},
        "made": {fate: work.made[fate] for fate in FATES if work.made.get(fate)},
        "sentence": work.sentence,
    }
