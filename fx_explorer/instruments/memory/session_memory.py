"""This module predicts the memory of a session's step: it decides which graphs belong to the step,
and which of them cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.lineage import (
    documents_of_variant,
    first_variant,
    saving_variant,
    variants_in_use,
)
from fx_explorer.instruments.memory.graph_memory import (
    GraphMemory,
    SegmentMemory,
    graph_memory,
)
from fx_explorer.instruments.memory.sizes import UnreadableCode
from fx_explorer.instruments.memory.step import (
    StepMemory,
    WatchedForward,
    calls_of,
    watched_forward,
)
from fx_explorer.instruments.memory.step_assembly import TANGENT, step_of
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graphs import edited_graphs


@dataclass(frozen=True, slots=True)
class Unread:
    """A graph that is not part of the predicted step, and why."""

    compilation: str
    direction: model.Direction
    reason: str


@dataclass(frozen=True)
class SessionMemory:
    """The memory of a session's step as it is predicted, and what is missing in the prediction."""

    step: StepMemory
    unread: tuple[Unread, ...]
    left_out: int
    """Number of compilations that do not run in this step: for other inputs, or of other functions.
    """
    has_breaks: bool
    """Whether Python runs between the graphs. The memory that it allocates is not known."""
    graphs: int = 0
    """Number of calls of graphs in the step, as often as the program makes them."""
    is_watched: bool = False
    """Whether the calls of a step were watched while it ran, including how long the program held
    their results.
    """
    without_code: tuple[str, ...] = ()
    """Names of the backends other than Inductor that compiled graphs and wrote no output code."""
    nothing_saved: str = ""
    """A sentence on why no graph has saved values; empty where one has."""

    @property
    def is_known(self) -> bool:
        """Return whether any graph could be read."""
        return bool(self.step.end)


def session_memory(reader: SessionReader) -> SessionMemory:
    """Predict the memory of a step, from the variants that the program uses."""
    watched = watched_forward(reader)
    compilations, left_out = _of_one_step(reader, watched)
    unread: list[Unread] = []
    segments = []
    for compilation in compilations:
        segment = _segment(reader, compilation, unread)
        if segment:
            segments.append(segment)
    between: Sequence[model.SavedBetween] = watched.between if watched else ()
    step = step_of(
        reader,
        calls_of(segments, watched),
        between,
        tangents_are_held=_tangents_are_held(reader, segments),
    )
    is_watched = watched is not None
    without_code = [row for row in compilations if _is_without_code(reader, row)]
    others = tuple(dict.fromkeys(compilation.backend for compilation in without_code))
    nothing_saved = next(filter(None, map(_why_nothing_saved, compilations)), "")
    has_breaks = bool(reader.count(model.GraphBreak))
    return SessionMemory(
        step,
        tuple(unread),
        left_out,
        has_breaks,
        len(segments),
        is_watched,
        others,
        nothing_saved,
    )


def _why_nothing_saved(compilation: model.Compilation) -> str:
    missing = compilation.missing_stages or {}
    if "forward" in missing:
        return f"What is saved for the backward is not known either: {missing['forward']}."
    if "backward" in missing:
        return f"Nothing is saved for a backward: {missing['backward']}."
    return ""


def _is_without_code(reader: SessionReader, compilation: model.Compilation) -> bool:
    """Return whether a backend other than Inductor compiled a graph."""
    stages = {document.stage for document in documents_of_variant(reader, compilation)}
    return (
        "dynamo" in stages
        and not stages & {"pre_grad", "post_grad", "output_code"}
        and compilation.backend != "inductor"
    )


def _of_one_step(
    reader: SessionReader, watched: WatchedForward | None
) -> tuple[list[model.Compilation], int]:
    """Return the compilations of one step, and the number of all others. If calls were watched,
    these are the compilations called. Otherwise a target is called once while it is captured; of a
    script, which makes many steps, a function's last compilation counts.
    """
    variants = variants_in_use(reader)
    compilations = [row for row in variants if row.status in ("ok", "broke", "running")]
    if watched is not None:
        called = watched.compilations
        of_step = [row for row in compilations if first_variant(reader, row).id in called]
        others = [row for row in compilations if row not in of_step]
        return of_step, sum(_has_code(reader, row) for row in others)
    if not reader.is_of_a_script():
        return compilations, 0
    last = {row.frame: row for row in compilations}
    of_step = [row for row in compilations if last[row.frame] is row]
    return of_step, len(compilations) - len(last)


def _has_code(reader: SessionReader, compilation: model.Compilation) -> bool:
    return any(
        document.stage == "output_code" for document in documents_of_variant(reader, compilation)
    )


def _segment(
    reader: SessionReader, compilation: model.Compilation, unread: list[Unread]
) -> SegmentMemory | None:
    """Return a compilation's replayed graphs; None when it has no forward that can be read."""
    replayed: dict[model.Direction, GraphMemory] = {}
    results: dict[model.Direction, tuple[int, ...]] = {}
    for lowered in lowered_graphs(reader, compilation):
        graph = _replayed(reader, compilation, lowered)
        if isinstance(graph, str):
            unread.append(Unread(compilation.name, lowered.direction, graph))
        else:
            replayed[lowered.direction], results[lowered.direction] = graph, lowered.results
    forward = replayed.get("forward") or replayed.get("inference")
    if forward is None:
        return None
    saved = reader.rows(model.SavedTensor, compilation=saving_variant(reader, compilation).id)
    captured = first_variant(reader, compilation).id
    return SegmentMemory(
        forward, replayed.get("backward"), saved, captured, results.get(forward.direction, ())
    )


@dataclass(frozen=True, slots=True)
class GraphWithCode:
    """One graph that Inductor lowered, with its output code."""

    direction: model.Direction
    graph: model.Graph
    codes: list[model.Artifact]
    """Artifacts with its output code: several when it was compiled in regions."""
    results: tuple[int, ...]
    """For each output, the index of that result in Dynamo's graph, as AOTAutograd reports it."""


def _replayed(
    reader: SessionReader, compilation: model.Compilation, lowered: GraphWithCode
) -> GraphMemory | str:
    """Return a graph's replay, or a text on why it cannot be read."""
    try:
        code = only_code(lowered.codes, compilation)
        return graph_memory(reader, compilation, lowered.graph, code)
    except UnreadableCode as error:
        return str(error)


def only_code(codes: list[model.Artifact], compilation: model.Compilation) -> model.Artifact:
    if not codes:
        if compilation.backend == "inductor":
            whose = ""
        else:
            whose = f"by backend {compilation.backend}"
        raise UnreadableCode(f"no output code was made for it {whose}".rstrip())
    if len(codes) > 1:
        raise UnreadableCode("it was compiled in regions, and the code between them is not known")
    return codes[0]


def lowered_graphs(
    reader: SessionReader, compilation: model.Compilation
) -> Iterator[GraphWithCode]:
    """Yield the lowered graph of each direction."""
    documents = documents_of_variant(reader, compilation)
    before_edits = {before for before, _ in edited_graphs(reader)}
    graphs = reader.by_ids(
        model.Graph, (document.id for document in documents if document.kind == "graph")
    )
    graphs = [graph for graph in graphs if _is_lowered(graph) and graph.id not in before_edits]
    codes = reader.by_ids(
        model.Artifact, (document.id for document in documents if document.stage == "output_code")
    )
    codes = [code for code in codes if code.kind == "output_code"]
    for direction in _DIRECTIONS:
        of_direction = [graph for graph in graphs if graph.direction == direction]
        if not of_direction:
            continue
        last_stage = [graph for graph in of_direction if graph.stage == "post_grad"]
        last = (last_stage or of_direction)[-1]
        codes_of_direction = [code for code in codes if code.direction == direction]
        results = next((graph.results for graph in of_direction if graph.results), ())
        yield GraphWithCode(direction, last, codes_of_direction, results)


def _is_lowered(graph: model.Graph) -> bool:
    """Return whether a graph is a whole graph of a stage from which kernels are made."""
    return not graph.parent and not graph.name and graph.stage in _LOWERED


_DIRECTIONS: tuple[model.Direction, ...] = ("forward", "backward", "inference")

_LOWERED: tuple[model.Stage, ...] = ("forward", "backward", "post_grad")
"""The stages of AOTAutograd's graphs, and of the graphs that Inductor lowers."""


def _tangents_are_held(reader: SessionReader, segments: list[SegmentMemory]) -> bool:
    """Return whether the engine keeps the gradients of outputs until the backward has ended.

    Since 2.13 a compiled backward empties the list that it is given them in
    (torch/_functorch/_aot_autograd/runtime_wrappers.py, "freeing individual grads mid-backward").
    A target without a loss of its own is summed up: the gradient of a sum is one number, which
    AOTAutograd writes out (``coerce_to_expected_memory_format``) and drops when it was used.
    """
    last = segments[-1].backward if segments else None
    if last is None or _release(reader) >= FREES_GRADIENTS:
        return False
    if reader.is_of_a_script():
        return True
    return any(
        name.startswith(TANGENT) and node.shape == () for name, node in last.placeholders.items()
    )


FREES_GRADIENTS = (2, 13)
"""The first release of torch whose compiled backward frees the gradients of outputs."""


def _release(reader: SessionReader) -> tuple[int, ...]:
    """Return the release of torch that captured the session, ``(2, 13)``; () when it is not
    recorded.
    """
    text = str((reader.meta("environment") or {}).get("torch", ""))
    return tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())
