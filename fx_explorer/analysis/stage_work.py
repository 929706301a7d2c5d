"""This module describes each stage of a compilation, with the graphs before and after it, for the
app's view of a stage, the report and the overview.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.graph_stages import (
    dynamo_work,
    partition_work,
    passes_work,
    published_work,
    tracing_work,
)
from fx_explorer.analysis.inductor_stages import fusion_work, kernels_work, lowering_work
from fx_explorer.analysis.lineage import documents_of_variant, is_after_passes, variants_in_use
from fx_explorer.analysis.stage_data import StageKey, StagePoint, StageWork
from fx_explorer.analysis.words import counted, listed
from fx_explorer.model import Direction, Gate
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graphs import edited_graphs

Docs = tuple[Document, ...]
Stage = tuple[StageKey, Docs, Docs]


def stage_points(reader: SessionReader, variant: model.Compilation) -> list[StagePoint]:
    """Return the stages of a variant in the order in which they ran; the whole forward after the
    partition comes before the backward. A stage whose input was not recorded (AOTInductor's first,
    in a log) is left out: it would seem to have made everything.
    """
    documents = _Documents(reader, variant)
    points = [
        StagePoint(key, variant.id, variant.name, "", before, after)
        for key, before, after in _before_lowering(documents)
    ]
    for direction in model.DIRECTIONS:
        given = _given_to_backend(documents, direction)
        for name, published in documents.published(direction):
            title = f"{name} of {variant.backend}" if variant.backend else name
            points.append(
                StagePoint("backend", variant.id, variant.name, direction, given, published, title)
            )
        for key, before, after in _lowering(documents, direction):
            points.append(StagePoint(key, variant.id, variant.name, direction, before, after))
    return points


class _Documents:
    """The documents of a variant. A graph that was edited at a pause counts as two: the result of a
    stage, and the input of the next.
    """

    def __init__(self, reader: SessionReader, variant: model.Compilation) -> None:
        every = documents_of_variant(reader, variant)
        if reader.count(model.Intervention):
            edits = edited_graphs(reader)
        else:
            edits = []
        given, made = {before for before, _ in edits}, {after for _, after in edits}
        graphs = [
            document for document in every if document.kind == "graph" and document.line_count
        ]
        self._made = [graph for graph in graphs if graph.id not in made]
        self._given = [graph for graph in graphs if graph.id not in given]
        self._shared_parts = _shared_parts(reader, graphs)
        self._texts = [document for document in every if document.kind == "artifact"]
        stages = reader.rows(model.PublishedStage, compilation=variant.id)
        self._published: dict[tuple[str, int], str] = {}
        for stage in stages:
            if stage.graph:
                key = ("graph", stage.graph)
            else:
                key = ("artifact", stage.artifact)
            self._published[key] = stage.name
        self._of_backend = [document for document in every if document.stage == "backend"]

    def graphs_after(self, stage: model.Stage, direction: model.Direction | None = None) -> Docs:
        """Return the graphs in the form in which a stage left them."""
        return _of(self._made, stage, direction)

    def given(self, stage: model.Stage, direction: model.Direction | None = None) -> Docs:
        """Return the graphs in the form that the next stage received."""
        return _of(self._given, stage, direction)

    def texts(self, stage: model.Stage, direction: model.Direction, title: str = "") -> Docs:
        texts = _of(self._texts, stage, direction)
        return tuple(text for text in texts if text.title.startswith(title))

    def published(self, direction: model.Direction) -> list[tuple[str, Docs]]:
        """Return each stage that the backend published, by name, with its document and the graphs
        nested in it, in the order of publishing.
        """
        stages: list[tuple[str, Docs]] = []
        for document in _of(self._of_backend, "backend", direction):
            name = self._published.get((document.kind, document.id))
            if name is not None:
                stages.append((name, (document,)))
            elif stages:
                before, documents = stages.pop()
                stages.append((before, (*documents, document)))
        return stages

    def without_shared_parts(self, documents: Docs) -> Docs:
        """Return the documents without the joint graphs of nested regions that Inductor's passes
        left alone: those are done, and cut, before the graph around them.
        """
        return tuple(document for document in documents if document.id not in self._shared_parts)

    def shared_parts(self) -> Docs:
        return tuple(document for document in self._made if document.id in self._shared_parts)


def _shared_parts(reader: SessionReader, graphs: Sequence[Document]) -> set[int]:
    """Return the nested joint graphs that were not recorded once more with the graph around
    them.
    """
    joint = reader.by_ids(model.Graph, [graph.id for graph in graphs if graph.stage == "joint"])
    names = {graph.name for graph in joint}
    if model.AFTER_PASSES not in names:
        return set()
    nested = [
        graph for graph in joint if graph.parent and not graph.name.startswith(model.AFTER_PASSES)
    ]
    return {graph.id for graph in nested if f"{model.AFTER_PASSES}.{graph.name}" not in names}


def _of(
    documents: Sequence[Document], stage: model.Stage, direction: model.Direction | None
) -> Docs:
    of_stage = [document for document in documents if document.stage == stage]
    if direction is None:
        return tuple(of_stage)
    return tuple(document for document in of_stage if document.direction == direction)


def _before_lowering(documents: _Documents) -> Iterator[Stage]:
    """Yield the stages from Dynamo to the partition that left a graph."""
    dynamo, given_by_dynamo = documents.graphs_after("dynamo"), documents.given("dynamo")
    pre_grad = documents.graphs_after("pre_grad")
    traced = documents.given("pre_grad") or given_by_dynamo
    joint, given = _joint(documents.graphs_after("joint")), _joint(documents.given("joint"))
    passed = tuple(
        document for document in documents.graphs_after("joint") if is_after_passes(document)
    )
    inference = documents.graphs_after("forward", "inference")
    parts = (*documents.graphs_after("forward", "forward"), *documents.graphs_after("backward"))
    if dynamo:
        yield "dynamo", (), dynamo
    if given_by_dynamo and pre_grad:
        yield "pre_grad", given_by_dynamo, pre_grad
    if traced and (joint or inference):
        yield "joint", traced, joint or inference
    if passed and joint:  # of an inference graph the post-grad stage has all passes together
        yield "joint_passes", documents.without_shared_parts(given), passed
    if joint and parts:
        cut = (*passed, *documents.shared_parts()) if passed else given
        yield "partition", cut, parts


def _joint(documents: Docs) -> Docs:
    return tuple(document for document in documents if not is_after_passes(document))


def _received(documents: _Documents, direction: model.Direction) -> Docs:
    stage: model.Stage = "backward" if direction == "backward" else "forward"
    return documents.given(stage, direction)


def _given_to_backend(documents: _Documents, direction: model.Direction) -> Docs:
    return _received(documents, direction) or documents.given("dynamo")


def _lowering(documents: _Documents, direction: model.Direction) -> Iterator[Stage]:
    given = _received(documents, direction)
    passed = documents.graphs_after("post_grad", direction)
    if not passed:
        return
    if given:
        yield "post_grad", given, passed
    lowered = documents.given("post_grad", direction)
    unfused = documents.texts("schedule", direction, "IR before fusion")
    fused = documents.texts("schedule", direction, "IR after fusion")
    if unfused:
        yield "pre_fusion", lowered, unfused
    if unfused and fused:
        yield "post_fusion", unfused, fused
    code = documents.texts("output_code", direction)
    if code:
        yield "output_code", lowered, code


def points_at(
    points: Sequence[StagePoint], gate: model.Gate, direction: model.Direction
) -> list[StagePoint]:
    """Return the stages that have just been finished at a pause. The partition finishes both
    directions. An inference graph is all of AOTAutograd's work, and the backward's part of a
    partition completes it.
    """
    finished = [
        point for point in points if point.gate == gate and point.direction in ("", direction)
    ]
    if gate == "backend":  # each stage that the backend publishes has a pause of its own
        return finished[-1:]
    if gate == "partition" and not finished:
        return [point for point in points if point.gate == "joint"]
    return finished


_WORK: dict[StageKey, Callable[[SessionReader, StagePoint], StageWork]] = {
    "dynamo": dynamo_work,
    "pre_grad": passes_work,
    "joint": tracing_work,
    "joint_passes": passes_work,
    "partition": partition_work,
    "backend": published_work,
    "post_grad": passes_work,
    "pre_fusion": lowering_work,
    "post_fusion": fusion_work,
    "output_code": kernels_work,
}


def stage_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Return the work of one stage. It reads all operations of the graphs before and after it,
    without their texts.
    """
    return _WORK[point.key](reader, point)


def works_at(path: Path, compilation: str, gate: Gate, direction: Direction) -> list[StageWork]:
    """Return the work of the stages that have just finished at the compiler's pause: several if
    there is no pause between them, none without records. It opens the session itself, so that
    another thread can call it.
    """
    with SessionReader(path) as reader:
        variants = reader.rows(model.Compilation, name=compilation)
        points = stage_points(reader, variants[-1]) if variants else []
        works = [stage_work(reader, point) for point in points_at(points, gate, direction)]
    if direction == "backward" and works and works[-1].point.key == "partition":
        return [_of_the_backward(works[-1])]
    return works


def _of_the_backward(partition: StageWork) -> StageWork:
    """Return the work of the partitioner for the pause before the backward: only the operations of
    the backward. The pause before the forward has shown the rest.
    """
    again = partition.became.get("both", 0)
    of_backward = partition.became.get("backward", 0)
    parts = []
    if of_backward:
        parts.append(f"{counted(of_backward, 'operation')} of its own")
    if again:
        parts.append(f"{counted(again, 'operation')} of the forward, recomputed")
    if parts:
        return replace(partition, sentence=f"Now the backward: {listed(parts)}.")
    return partition


MOST_COMPILATIONS = 200
"""Maximum number of compilations whose stages are listed: those of 2,000 versions of a function
take seconds.
"""


def points_in_use(reader: SessionReader) -> list[StagePoint]:
    """Return the stages of every compilation, of the variant that the program runs."""
    points: list[StagePoint] = []
    for variant in variants_in_use(reader)[:MOST_COMPILATIONS]:
        points += stage_points(reader, variant)
    return points


def work_in_use(path: Path, position: int) -> StageWork:
    """Return the work of the stage at this position of ``points_in_use``. It opens the session
    itself, as ``works_at`` does.
    """
    with SessionReader(path) as reader:
        return stage_work(reader, points_in_use(reader)[position])
