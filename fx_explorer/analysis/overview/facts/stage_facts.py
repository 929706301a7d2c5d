"""What the overview says of the stages: a sentence for each that changed something."""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.naming.functions import plain_function
from fx_explorer.analysis.stages.points import stage_points
from fx_explorer.analysis.stages.stage_work import stage_work
from fx_explorer.analysis.stages.work import StageWork
from fx_explorer.analysis.variants.lineage import variants_in_use
from fx_explorer.session import SessionReader

MOST_NODES = 5_000
"""The overview is there at once: so many nodes take 40 ms."""


def stage_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield what the stages did to the first compilation that came beyond Dynamo."""
    first = next((one for one in variants_in_use(reader) if reader.count(model.Graph, compilation=one.id) > 1), None)
    if first is None:
        return
    points = stage_points(reader, first)
    if len(points) < 2:
        return
    text = f"What became of {plain_function(first.function)}, stage by stage."
    nodes = sum(graph.node_count for graph in reader.rows(model.Graph, compilation=first.id))
    works = [stage_work(reader, point) for point in points] if nodes <= MOST_NODES else []
    told = [_told(work) for work in works if not work.is_as_before]
    yield Fact("stages", "good", text, "\n".join(told), view="stages")


def _told(work: StageWork) -> str:
    """Return the sentence, with the direction where there are two."""
    title, direction = work.point.title, work.point.direction
    return work.sentence.replace(title, f"{title} ({direction})", 1) if direction in ("forward", "backward") else work.sentence
