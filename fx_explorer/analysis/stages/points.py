"""The stages that a variant has come through, each with what stood before it and after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fx_explorer import model
from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.stages.work import StagePoint
from fx_explorer.analysis.variants.lineage import documents_of_variant
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graphs import edited_graphs

Docs = tuple[Document, ...]


def stage_points(reader: SessionReader, variant: model.Compilation) -> list[StagePoint]:
    """Return the stages of a variant in the order in which it came through them; all of the forward
    after the partition comes before the backward.
    """
    documents = documents_of_variant(reader, variant)
    edited = {before for before, _ in edited_graphs(reader)} if reader.count(model.Intervention) else set()
    graphs = [one for one in documents if one.kind == "graph" and one.id not in edited]
    texts = [one for one in documents if one.kind == "artifact"]

    def point(gate: model.Gate, before: Docs, after: Docs, direction: model.Direction = "") -> StagePoint:
        return StagePoint(variant.id, variant.name, gate, direction, before, after)

    found = [point(*one) for one in _before_lowering(graphs)]
    for direction in model.DIRECTIONS:
        found += [point(*one, direction) for one in _lowering(graphs, texts, direction)]
    return found


Stage = tuple[model.Gate, Docs, Docs]


def _before_lowering(graphs: Sequence[Document]) -> Iterator[Stage]:
    dynamo, pre_grad, joint = (_of(graphs, stage) for stage in ("dynamo", "pre_grad", "joint"))
    inference = _of(graphs, "forward", "inference")
    forward, backward = _of(graphs, "forward", "forward"), _of(graphs, "backward")
    if dynamo:
        yield "dynamo", (), dynamo
    if pre_grad:
        yield "pre_grad", dynamo, pre_grad
    if joint or inference:
        yield "joint", pre_grad or dynamo, joint or inference
    if joint and (forward or backward):
        yield "partition", joint, (*forward, *backward)


def _lowering(graphs: Sequence[Document], texts: Sequence[Document], direction: model.Direction) -> Iterator[Stage]:
    aot = _of(graphs, "backward" if direction == "backward" else "forward", direction)
    published = _of(graphs, "backend", direction)
    if published:
        yield "backend", aot or _of(graphs, "dynamo"), published
    post_grad = _of(graphs, "post_grad", direction)
    if not post_grad:
        return
    yield "post_grad", aot, post_grad
    unfused, fused = (
        tuple(one for one in texts if one.direction == direction and one.stage == "schedule" and one.title.startswith(title))
        for title in ("IR before fusion", "IR after fusion")
    )
    if unfused:
        yield "pre_fusion", post_grad, unfused
    if fused:
        yield "post_fusion", unfused, fused
    code = tuple(one for one in texts if one.direction == direction and one.stage == "output_code")
    if code:
        yield "output_code", post_grad, code


def _of(graphs: Sequence[Document], stage: model.Stage, direction: model.Direction | None = None) -> Docs:
    return tuple(one for one in graphs if one.stage == stage and direction in (None, one.direction) and one.line_count)


def point_at(points: Sequence[StagePoint], gate: model.Gate, direction: model.Direction) -> StagePoint | None:
    """Return the stage that has just been finished at a pause. The partition makes both directions; an
    inference graph is AOTAutograd's whole work.
    """
    wanted = [one for one in points if one.gate == gate and one.direction in ("", direction)]
    if not wanted and gate == "partition":
        wanted = [one for one in points if one.gate == "joint"]
    return wanted[-1] if wanted else None
