"""What the overview says of the stages: a sentence for each that changed something."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fx_explorer import model
from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.naming.functions import plain_function
from fx_explorer.analysis.stages.points import stage_points
from fx_explorer.analysis.stages.stage_work import stage_work
from fx_explorer.analysis.stages.work import StagePoint
from fx_explorer.analysis.variants.lineage import variants_in_use
from fx_explorer.analysis.words import counted
from fx_explorer.session import SessionReader

MOST_NODES = 5_000
"""The overview is there at once. To tell what happened to each of 14,000 nodes takes 0.14 s."""


def stage_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield what the stages did to the first compilation that came beyond Dynamo. Of a big one only
    the operations are counted.
    """
    first = next(
        (
            one
            for one in variants_in_use(reader)
            if reader.count(model.Graph, compilation=one.id) > 1
        ),
        None,
    )
    points = stage_points(reader, first) if first else []
    if first is None or len(points) < 2:
        return
    text = f"{plain_function(first.function)}, stage by stage."
    graphs = {graph.id: graph for graph in reader.rows(model.Graph, compilation=first.id)}
    if sum(graph.node_count for graph in graphs.values()) <= MOST_NODES:
        works = [stage_work(reader, point) for point in points]
        told = [
            _with_direction(work.sentence, work.point) for work in works if not work.is_as_before
        ]
    else:
        calls = {number: graph.call_count for number, graph in graphs.items()}
        told = [words for point in points if (words := _only_counted(point, calls))]
    yield Fact("stages", "good", text, "\n".join(told), view="stages")


def _with_direction(sentence: str, point: StagePoint) -> str:
    """Return the sentence, with the direction where there are two."""
    is_one_of_two = point.direction in ("forward", "backward")
    if is_one_of_two:
        return sentence.replace(point.title, f"{point.title} ({point.direction})", 1)
    return sentence


def _only_counted(point: StagePoint, calls: Mapping[int, int]) -> str:
    """Return ``AOTAutograd: 640 operations became 3,139.``; empty where as many came out as went
    in, and for a stage that is not from graph to graph.
    """
    sides = (point.before, point.after)
    if not all(side and all(_is_known(one, calls) for one in side) for side in sides):
        return ""
    before, after = (_operations(side, calls) for side in sides)
    together = ", forward and backward together" if point.key == "partition" else ""
    sentence = f"{point.title}: {counted(before, 'operation')} became {after:,}{together}."
    return _with_direction(sentence, point) if before != after else ""


def _is_known(document: Document, calls: Mapping[int, int]) -> bool:
    return document.kind == "graph" and document.id in calls


def _operations(documents: Sequence[Document], calls: Mapping[int, int]) -> int:
    return sum(calls[one.id] for one in documents)
