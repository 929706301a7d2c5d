"""The stages that a variant has come through, each with what stood before it and after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fx_explorer import model
from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.stages.work import StageKey, StagePoint
from fx_explorer.analysis.variants.lineage import documents_of_variant, is_after_passes
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graphs import edited_graphs

Docs = tuple[Document, ...]
Stage = tuple[StageKey, Docs, Docs]


def stage_points(reader: SessionReader, variant: model.Compilation) -> list[StagePoint]:
    """Return the stages of a variant in the order in which it came through them; all of the forward
    after the partition comes before the backward. A stage of which nobody recorded what it was
    given (AOTInductor's first, in a log) is left out: it would seem to have made everything.
    """
    documents = _Documents(reader, variant)
    found = [
        StagePoint(key, variant.id, variant.name, "", before, after)
        for key, before, after in _before_lowering(documents)
    ]
    for direction in model.DIRECTIONS:
        given = _given_to_backend(documents, direction)
        for name, published in documents.published(direction):
            title = f"{name} of {variant.backend}" if variant.backend else name
            found.append(
                StagePoint("backend", variant.id, variant.name, direction, given, published, title)
            )
        for key, before, after in _lowering(documents, direction):
            found.append(StagePoint(key, variant.id, variant.name, direction, before, after))
    return found


class _Documents:
    """The documents of a variant. A graph that was edited at a pause is two: what a stage made, and
    what the next one was given.
    """

    def __init__(self, reader: SessionReader, variant: model.Compilation) -> None:
        every = documents_of_variant(reader, variant)
        edits = edited_graphs(reader) if reader.count(model.Intervention) else []
        given, made = {before for before, _ in edits}, {after for _, after in edits}
        graphs = [one for one in every if one.kind == "graph" and one.line_count]
        self._made = [one for one in graphs if one.id not in made]
        self._given = [one for one in graphs if one.id not in given]
        self._shared_parts = _shared_parts(reader, graphs)
        self._texts = [one for one in every if one.kind == "artifact"]
        stages = reader.rows(model.PublishedStage, compilation=variant.id)
        self._published = {
            ("graph", one.graph) if one.graph else ("artifact", one.artifact): one.name
            for one in stages
        }
        self._of_backend = [one for one in every if one.stage == "backend"]

    def made(self, stage: model.Stage, direction: model.Direction | None = None) -> Docs:
        """Return the graphs as a stage left them."""
        return _of(self._made, stage, direction)

    def given(self, stage: model.Stage, direction: model.Direction | None = None) -> Docs:
        """Return the graphs as the next stage was given them."""
        return _of(self._given, stage, direction)

    def texts(self, stage: model.Stage, direction: model.Direction, title: str = "") -> Docs:
        return tuple(
            one for one in _of(self._texts, stage, direction) if one.title.startswith(title)
        )

    def published(self, direction: model.Direction) -> list[tuple[str, Docs]]:
        """Return each stage that the backend published, by name, with its document and the graphs
        nested in it, in the order of publishing.
        """
        found: list[tuple[str, Docs]] = []
        for one in _of(self._of_backend, "backend", direction):
            name = self._published.get((one.kind, one.id))
            if name is not None:
                found.append((name, (one,)))
            elif found:
                before, documents = found.pop()
                found.append((before, (*documents, one)))
        return found

    def without_shared_parts(self, documents: Docs) -> Docs:
        """Return the documents without the joint graphs of nested regions that Inductor's passes
        left alone: those are done, and cut, before the graph around them.
        """
        return tuple(one for one in documents if one.id not in self._shared_parts)

    def shared_parts(self) -> Docs:
        return tuple(one for one in self._made if one.id in self._shared_parts)


def _shared_parts(reader: SessionReader, graphs: Sequence[Document]) -> set[int]:
    """Return the nested joint graphs that were not recorded once more with the graph around them."""
    joint = reader.by_ids(model.Graph, [one.id for one in graphs if one.stage == "joint"])
    names = {one.name for one in joint}
    if model.AFTER_PASSES not in names:
        return set()
    nested = [one for one in joint if one.parent and not one.name.startswith(model.AFTER_PASSES)]
    return {one.id for one in nested if f"{model.AFTER_PASSES}.{one.name}" not in names}


def _of(
    documents: Sequence[Document], stage: model.Stage, direction: model.Direction | None
) -> Docs:
    return tuple(
        one for one in documents if one.stage == stage and direction in (None, one.direction)
    )


def _before_lowering(documents: _Documents) -> Iterator[Stage]:
    traced = documents.given("pre_grad") or documents.given("dynamo")
    joint, given = (_joint(docs) for docs in (documents.made("joint"), documents.given("joint")))
    passed = tuple(one for one in documents.made("joint") if is_after_passes(one))
    inference = documents.made("forward", "inference")
    parts = (*documents.made("forward", "forward"), *documents.made("backward"))
    if dynamo := documents.made("dynamo"):
        yield "dynamo", (), dynamo
    if (given_by_dynamo := documents.given("dynamo")) and (pre_grad := documents.made("pre_grad")):
        yield "pre_grad", given_by_dynamo, pre_grad
    if traced and (joint or inference):
        yield "joint", traced, joint or inference
    if passed and joint:  # of an inference graph the post-grad stage tells all passes together
        yield "joint_passes", documents.without_shared_parts(given), passed
    if joint and parts:
        yield "partition", (*passed, *documents.shared_parts()) if passed else given, parts


def _joint(documents: Docs) -> Docs:
    return tuple(one for one in documents if not is_after_passes(one))


def _received(documents: _Documents, direction: model.Direction) -> Docs:
    return documents.given("backward" if direction == "backward" else "forward", direction)


def _given_to_backend(documents: _Documents, direction: model.Direction) -> Docs:
    return _received(documents, direction) or documents.given("dynamo")


def _lowering(documents: _Documents, direction: model.Direction) -> Iterator[Stage]:
    given = _received(documents, direction)
    passed = documents.made("post_grad", direction)
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
    if code := documents.texts("output_code", direction):
        yield "output_code", lowered, code


def points_at(
    points: Sequence[StagePoint], gate: model.Gate, direction: model.Direction
) -> list[StagePoint]:
    """Return the stages that have just been finished at a pause. The partition makes both
    directions; an inference graph is AOTAutograd's whole work, and so is the backward's part of a
    partition.
    """
    found = [one for one in points if one.gate == gate and one.direction in ("", direction)]
    if gate == "backend":  # each stage that the backend publishes has a pause of its own
        return found[-1:]
    return found or [one for one in points if gate == "partition" and one.gate == "joint"]
