"""This module describes each stage of a compilation, with the graphs before and after it, for the
app's view of a stage, the report and the overview. Inductor's own stages are lowering, fusion, and
generating kernels.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.analysis.documents import Document, lines_of
from fx_explorer.analysis.graph_stages import (
    dynamo_work,
    partition_work,
    passes_work,
    published_work,
    tracing_work,
)
from fx_explorer.analysis.lineage import (
    documents_of_variant,
    is_after_passes,
    kernels_of_variant,
    variants_in_use,
)
from fx_explorer.analysis.stage_data import Fate, StageKey, StagePoint, StageWork
from fx_explorer.analysis.words import counted, listed
from fx_explorer.model import Direction, Gate
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graphs import (
    PlainNode,
    edited_graphs,
    nodes_of_lines,
    plain_operations,
)
from fx_explorer.session.queries.kernels import kernel_nodes

# Inductor's own stages.


STEP = re.compile(r"( *)(\w+): (.*)")
"""Matches the line of an operation in the listing of the IR. Operations inside a fused one are
indented.
"""

JOINED = re.compile(r", \d+ operations in one kernel$")

LOOPS = ("pointwise", "reduction", "scatter", "scan", "sort")
"""Suffixes of the kinds of scheduler nodes that are loops over elements."""

OF_A_CALL = "output of a call"
"""Kind of a scheduler node that selects one of several outputs of a library call."""


class IrStep(NamedTuple):
    """One scheduler node of the IR: a loop, a library call, or several fused ones."""

    document: int
    line: int
    """Line of the listing at which it begins, from 1."""
    kind: str
    members: tuple[str, ...]
    """The names of the operations in it; only its own if it was not fused."""


def ir_steps(reader: SessionReader, documents: Sequence[Document]) -> list[IrStep]:
    """Return the scheduler nodes of these listings, in their order."""
    steps: list[IrStep] = []
    for document in documents:
        for number, line in enumerate(lines_of(reader, document), 1):
            match = STEP.fullmatch(line)
            if match is None:
                continue
            indent, name, rest = match.groups()
            members = () if JOINED.search(rest) else (name,)
            if not indent:
                kind = rest.partition(" → ")[0].partition(",")[0]
                steps.append(IrStep(document.id, number, kind, members))
            elif members and steps:
                steps[-1] = steps[-1]._replace(members=(*steps[-1].members, *members))
    return steps


def lowering_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Return the work of lowering: the loops and library calls of each operation of the post-grad
    graph.
    """
    steps = ir_steps(reader, point.after)
    heads = {(step.document, step.line): i for i, step in enumerate(steps)}
    into: dict[int, set[int]] = {}
    for document in point.after:
        for line, node in nodes_of_lines(reader, document.id):
            if (document.id, line) in heads:
                into.setdefault(node, set()).add(heads[document.id, line])
    what = "no step"
    if steps:
        kinds = Counter(describe_kind(step.kind) for step in steps)
        amounts = [counted(number, kind) for kind, number in kinds.most_common()]
        what = f"{counted(len(steps), 'step')} ({listed(amounts, 5)})"
    return _gathered(reader, point, into, len(steps), what, "step")


def describe_kind(kind: str) -> str:
    """Return the kind of a scheduler node: ``pointwise loop``, ``library call``, ``other step``."""
    if "." in kind:
        return "library call"
    if kind.endswith(LOOPS):
        return f"{kind} loop"
    if kind == "multi output":
        return OF_A_CALL
    return "other step"


def kernels_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Return the work of the stage that generates kernels: which kernel computes which
    operations.
    """
    variant = reader.get(model.Compilation, point.compilation)
    written = [kernel for kernel in kernels_of_variant(reader, variant) if not kernel.runs]
    kernels = [kernel for kernel in written if kernel.direction == point.direction]
    computed: dict[int, list[int]] = {}
    for owner in {kernel.compilation for kernel in kernels}:
        computed |= kernel_nodes(reader, owner)
    into: dict[int, set[int]] = {}
    for kernel in kernels:
        for node in computed.get(kernel.id, ()):
            into.setdefault(node, set()).add(kernel.id)
    calls = sum(kernel.language == "extern" for kernel in kernels)
    parts = [(len(kernels) - calls, "generated kernel"), (calls, "library call")]
    what = listed([counted(number, noun) for number, noun in parts if number]) or "no kernel"
    return _gathered(reader, point, into, len(kernels), what, "kernel")


def _gathered(
    reader: SessionReader,
    point: StagePoint,
    into: Mapping[int, set[int]],
    after: int,
    what: str,
    place: str,
) -> StageWork:
    """Return the StageWork for operations that go into nodes of the scheduler (steps), or into
    kernels, as ``place`` says. ``into`` maps an operation to these places.
    """
    nodes = plain_operations(reader, (document.id for document in point.before))
    fates = _gathered_fates(nodes, into)
    counts = Counter(fates.values())
    sentence = f"{point.title}: {counted(len(nodes), 'operation')} became {what}"
    amounts = _amounts(counts, place)
    if amounts:
        sentence += f": {listed(amounts, len(amounts))}"
    return StageWork(point, len(nodes), after, counts, {}, f"{sentence}.", fates)


def _amounts(counts: Counter[Fate], place: str) -> list[str]:
    """Return a phrase for each fate that any operation had, with the number of operations.
    ``place`` is what they go into: a step or a kernel.
    """
    amounts = []
    fused, kept, several = counts["fused"], counts["kept"], counts["several"]
    views, unknown = counts["view"], counts["removed"]
    if fused:
        amounts.append(f"{fused:,} {_verb(fused, 'share')} a {place}")
    if kept:
        have = "has its" if kept == 1 else "have their"
        amounts.append(f"{kept:,} {have} own {place}")
    if several:
        amounts.append(f"{several:,} {_be(several)} computed in several {place}s")
    if views:
        amounts.append(
            f"{counted(views, 'view or selection')} {_verb(views, 'need')} no computation"
        )
    if unknown:
        amounts.append(f"{unknown:,} {_be(unknown)} in no known {place}")
    return amounts


def _be(number: int) -> str:
    return "is" if number == 1 else "are"


def _verb(number: int, verb: str) -> str:
    return f"{verb}s" if number == 1 else verb


def _gathered_fates(nodes: Iterable[PlainNode], into: Mapping[int, set[int]]) -> dict[int, Fate]:
    """Return the fate of each operation. Views are among a loop's origins, but compute nothing:
    they do not count, and do not make other nodes of the loop count as fused.
    """
    working = [node.id for node in nodes if not node.is_view]
    sizes: Counter[int] = Counter()
    for node in working:
        sizes.update(into.get(node, ()))
    fates: dict[int, Fate] = {node.id: "view" for node in nodes if node.is_view}
    for node in working:
        homes = into.get(node, set())
        if len(homes) == 1:
            fates[node] = "fused" if sizes[next(iter(homes))] > 1 else "kept"
        else:
            fates[node] = "several" if homes else "removed"
    return fates


def fusion_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Return the work of fusion: which loops were joined."""
    before, after = ir_steps(reader, point.before), ir_steps(reader, point.after)
    old: set[str] = set()
    new: set[str] = set()
    for step in before:
        old.update(step.members)
    for step in after:
        new.update(step.members)
    joined = [step for step in after if len(step.members) > 1]
    counts = Counter[Fate](
        fused=sum(len(step.members) for step in joined),
        kept=sum(len(step.members) == 1 and step.members[0] in old for step in after),
        made=len(new - old),
        removed=len(old - new),
    )
    parts = [
        (counts["fused"], f"{counts['fused']:,} fused into {len(joined):,}"),
        (counts["kept"], f"{counts['kept']:,} alone"),
        (counts["made"], f"{counts['made']:,} made"),
        (counts["removed"], f"{counts['removed']:,} removed"),
    ]
    if not joined and not counts["made"] and not counts["removed"]:
        text = f"{point.title} joined nothing: {counted(len(before), 'step')}."
        return StageWork(point, len(before), len(after), {}, {}, text)
    text = listed([words for number, words in parts if number], len(parts))
    sentence = f"{point.title}: {counted(len(before), 'step')} became {len(after):,}: {text}."
    return StageWork(point, len(before), len(after), {}, {}, sentence)


# Every stage.


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
        parts.append(f"{counted(again, 'operation')} of the forward recomputed")
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
