"""This module compares two variants of a compilation, or two compilations, side by side.

Examples are whole-model Inductor beside regional Inductor, and either beside a variant that ran
eagerly.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import eager_nodes
from fx_explorer.analysis.diff import DiffRow, graph_diff, text_diff
from fx_explorer.analysis.documents import Document, lines_of, rows_of
from fx_explorer.analysis.lineage import (
    documents_of_variant,
    is_through,
    kernels_of_variant,
    origin_of,
    saving_variant,
)
from fx_explorer.analysis.measured_times import (
    ComparedFigure,
    count_figure,
    measured,
    one_timing_figure,
    run_time_figure,
    size_figure,
    text_figure,
    with_spread,
)
from fx_explorer.analysis.words import counted, listed, seconds
from fx_explorer.instruments.compile_time.timing import STAGE_IN_WORDS, stage_times
from fx_explorer.instruments.memory.saved_values import storage_total
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compile_seconds


@dataclass(frozen=True, slots=True)
class DocumentPair:
    """Two documents of the same stage and direction, one from each side; None where a side has
    none.
    """

    left: Document | None
    right: Document | None

    @property
    def title(self) -> str:
        document = self.left or self.right
        return document.title if document else ""

    @property
    def stage(self) -> model.Stage | None:
        document = self.left or self.right
        return document.stage if document else None

    @property
    def is_graph(self) -> bool:
        return (self.left or self.right or Document("artifact", 0)).kind == "graph"

    @property
    def is_shared(self) -> bool:
        """Return whether both sides share one document, made before the two variants parted."""
        return self.left is not None and self.left == self.right


def figures(
    reader: SessionReader, left: model.Compilation, right: model.Compilation
) -> list[ComparedFigure]:
    """Return kernels, operations, memory and time, then the time by stage and the operations whose
    count differs.
    """
    sides = [_Side(reader, variant) for variant in (left, right)]
    rows = [count_figure("kernels", *(len(side.kernels) for side in sides))]
    languages = sorted({kernel.language for side in sides for kernel in side.kernels})
    for language in languages:
        counts = [side.count_of(language) for side in sides]
        rows.append(count_figure(f"  {LANGUAGES.get(language, language)}", *counts))
    rows.append(text_figure("kernels only here", *_only_here(*(side.names for side in sides))))
    rows.append(
        count_figure("operations, post-grad", *(sum(side.operations.values()) for side in sides))
    )
    rows.append(count_figure("operations run eagerly", *(side.eager for side in sides)))
    rows.append(size_figure("saved for the backward", *(side.saved_bytes for side in sides)))
    rows += run_times(reader, left, right)
    rows += _compile_times(reader, left, right)
    rows += _differing_operations(*(side.operations for side in sides))
    return rows


def _compile_times(
    reader: SessionReader, left: model.Compilation, right: model.Compilation
) -> list[ComparedFigure]:
    """Return the compile time, whether each side was cold or warm, and the time by stage. If only
    one side was cold, none is called better.
    """
    sides = [warmth(reader, variant) for variant in (left, right)]
    if sides[0].is_warm != sides[1].is_warm:
        remark = f"{_warm(sides[0])} beside {_warm(sides[1])}"
    else:
        remark = ""
    took = [compile_seconds(reader, variant.id) for variant in (left, right)]
    whole = one_timing_figure("compiling took", *took)
    stages = _stages(reader, left, right)
    if remark:
        whole = _without_verdict(whole, remark)
        stages = [_without_verdict(stage, remark) for stage in stages]
    began = text_figure("  began", *(side.words for side in sides), remark=remark)
    return [whole, began, *stages]


def _without_verdict(time: ComparedFigure, remark: str) -> ComparedFigure:
    """Return a time for which no side is called better. The remark explains why, if they differ."""
    if time.difference:
        return text_figure(time.what, time.left, time.right, remark=remark)
    return text_figure(time.what, time.left, time.right)


def _warm(side: Warmth) -> str:
    return "warm" if side.is_warm else "cold"


def _differing_operations(left: Counter[str], right: Counter[str]) -> list[ComparedFigure]:
    differing = []
    for target in sorted({*left, *right}):
        figure = count_figure(f"  {target}", left[target], right[target])
        if figure.differs:
            differing.append(figure)
    if not differing:
        return []
    return [ComparedFigure("operations that differ", "", ""), *differing]


LANGUAGES = {"extern": "library calls", "cpp": "C++", "triton": "Triton", "python": "Python"}


class _Side:
    """The figures of one side."""

    def __init__(self, reader: SessionReader, variant: model.Compilation) -> None:
        self.kernels = kernels_of_variant(reader, variant)
        self.names = Counter(kernel.name for kernel in self.kernels)
        self.operations: Counter[str] = Counter()
        for document in documents_of_variant(reader, variant):
            if document.kind == "graph" and document.stage == "post_grad":
                self.operations.update(
                    n.target for n in rows_of(reader, document) if n.op.startswith("call_")
                )
        if variant.status == "ok":
            self.eager = _run_eagerly(reader, variant)
        else:
            self.eager = 0
        saved = reader.rows(model.SavedTensor, compilation=saving_variant(reader, variant).id)
        self.saved_bytes = storage_total(saved).size_bytes

    def count_of(self, language: str) -> int:
        return sum(kernel.language == language for kernel in self.kernels)


def _run_eagerly(reader: SessionReader, variant: model.Compilation) -> int:
    """Return the number of operations that regional compilation left outside of its regions; all
    that Dynamo traced if nothing was lowered.
    """
    stages = {
        document.stage: document
        for document in documents_of_variant(reader, variant)
        if document.kind == "graph"
    }
    if "dynamo" in stages and "post_grad" not in stages:
        return sum(node.op.startswith("call_") for node in rows_of(reader, stages["dynamo"]))
    left_out = [(nodes.compilation, nodes.direction, nodes.nodes) for nodes in eager_nodes(reader)]
    owners = {
        (_lowering_variant(reader, variant, direction).name, direction)
        for direction in model.DIRECTIONS
    }
    return sum(nodes for name, direction, nodes in left_out if (name, direction) in owners)


def _lowering_variant(
    reader: SessionReader, variant: model.Compilation, direction: model.Direction
) -> model.Compilation:
    """Return the variant that split this direction into regions: this one, or the one with which it
    shares the direction.
    """
    origin = origin_of(reader, variant)
    if (
        origin is None
        or variant.variant_from is None
        or not is_through(variant.variant_from, "backward")
    ):
        return variant
    is_own = reader.count(model.RegionLowering, compilation=variant.id, direction=direction)
    if is_own:
        return variant
    return _lowering_variant(reader, origin, direction)


def _only_here(left: Counter[str], right: Counter[str]) -> Iterable[str]:
    return (
        listed(sorted(left.keys() - right.keys())) or "none",
        listed(sorted(right.keys() - left.keys())) or "none",
    )


def _stages(
    reader: SessionReader, left: model.Compilation, right: model.Compilation
) -> list[ComparedFigure]:
    left_times = stage_times(reader, left.id).by_stage
    right_times = stage_times(reader, right.id).by_stage
    stages: list[model.Stage | None] = [*model.STAGES, None]
    rows = []
    for stage in stages:
        name = stage or ""
        if name in left_times or name in right_times:
            of_left = (left, left_times.get(name))
            of_right = (right, right_times.get(name))
            rows.append(_stage(stage, of_left, of_right))
    return rows


def _stage(
    stage: model.Stage | None,
    left: tuple[model.Compilation, float | None],
    right: tuple[model.Compilation, float | None],
) -> ComparedFigure:
    words = f"  {STAGE_IN_WORDS[stage or '']}"
    if left[1] is not None and right[1] is not None:
        return one_timing_figure(words, left[1], right[1])
    sides = [_took(variant, stage, spent) for variant, spent in (left, right)]
    return text_figure(words, sides[0], sides[1], remark="one side only")


def _took(variant: model.Compilation, stage: model.Stage | None, spent: float | None) -> str:
    if spent is not None:
        return seconds(spent)
    if variant.variant_from and is_through(variant.variant_from, stage):
        return "not repeated"
    return "none"


def document_pairs(
    reader: SessionReader, left: model.Compilation, right: model.Compilation
) -> list[DocumentPair]:
    """Return the graphs and texts of both, paired by stage. The kernels' own code is in the output
    code.
    """
    of_left, of_right = _documents_by_slot(reader, left), _documents_by_slot(reader, right)
    slots = dict.fromkeys([*of_left, *of_right])
    pairs = [DocumentPair(of_left.get(slot), of_right.get(slot)) for slot in slots]
    return sorted(pairs, key=lambda pair: _order(pair.left or pair.right))


_Slot = tuple[object, ...]


def _documents_by_slot(reader: SessionReader, variant: model.Compilation) -> dict[_Slot, Document]:
    documents = documents_of_variant(reader, variant)
    return {_slot(document): document for document in documents if document.stage != "kernel"}


def _slot(document: Document) -> _Slot:
    """Return the key that a document shares with its counterpart on the other side."""
    return document.kind, document.stage, document.direction, document.title


def _order(document: Document | None) -> tuple[int, int]:
    if document is None or document.stage is None:
        return len(model.STAGES), 0
    return model.STAGES.index(document.stage), model.DIRECTIONS.index(document.direction)


def pair_diff(
    reader: SessionReader, pair: DocumentPair
) -> list[DiffRow[model.Node]] | list[DiffRow[str]]:
    """Return the difference of a pair: by nodes for graphs, by lines for texts."""
    if pair.is_graph:
        return graph_diff(_nodes(reader, pair.left), _nodes(reader, pair.right))
    return text_diff(_lines(reader, pair.left), _lines(reader, pair.right))


def _nodes(reader: SessionReader, document: Document | None) -> list[model.Node]:
    return rows_of(reader, document) if document else []


def _lines(reader: SessionReader, document: Document | None) -> list[str]:
    return lines_of(reader, document) if document else []


# How long two variants run, where that was measured.

_KINDS: dict[model.Measured, str] = {
    "forward": "running took, forward",
    "forward+backward": "running took, with backward",
}


def run_times(
    reader: SessionReader, left: model.Compilation, right: model.Compilation
) -> list[ComparedFigure]:
    """Compare the times of each kind that was measured for either side."""
    sides = [measured(reader, variant) for variant in (left, right)]
    return [
        _compared(words, sides[0].get(what), sides[1].get(what))
        for what, words in _KINDS.items()
        if what in sides[0] or what in sides[1]
    ]


def _compared(
    words: str, left: model.Measurement | None, right: model.Measurement | None
) -> ComparedFigure:
    if left and right:
        return run_time_figure(words, (left.median_s, left.iqr_s), (right.median_s, right.iqr_s))
    return text_figure(words, _run_time(left), _run_time(right))


def _run_time(measurement: model.Measurement | None) -> str:
    if measurement is None:
        return "not measured"
    return with_spread(measurement.median_s, measurement.iqr_s)


# Whether a compilation began cold, or found something that an earlier one had made: a time of the
# one says little beside a time of the other.


@dataclass(frozen=True, slots=True)
class Warmth:
    """Whether a compilation was warm: torch's caches, or an earlier variant, had part of its
    results.
    """

    is_warm: bool
    words: str
    """The reason: ``cold: the first of its process``, ``warm: 2 graphs came from torch's caches``.
    """


def warmth(reader: SessionReader, variant: model.Compilation) -> Warmth:
    """Return whether a compilation was warm: a graph came from torch's caches, a variant shared
    stages, or the process had compiled before, which loads Inductor and fills torch's caches in
    memory.
    """
    hits = cache_hits(reader, variant.id)
    if hits:
        return Warmth(True, f"warm: {counted(hits, 'graph')} came from torch's caches")
    if variant.variant_of:
        if variant.variant_from:
            shared = f", from {model.GATE_WORDS[variant.variant_from]} on"
        else:
            shared = ""
        return Warmth(True, f"warm: its process had compiled before{shared}")
    first = min(
        reader.rows(model.Compilation), key=lambda row: (row.start_s, row.id), default=variant
    )
    if first.id == variant.id:
        return Warmth(False, "cold: the first compilation of its process")
    return Warmth(True, f"warm: its process had compiled [{first.name}] before")


def cache_hits(reader: SessionReader, compilation: int | None = None) -> int:
    """Return how often torch found a graph in one of its caches (``fx_graph_cache_hit``,
    ``aotautograd_cache_hit`` of its trace), for one compilation or for all.
    """
    wanted = {} if compilation is None else {"compilation": compilation}
    events = reader.rows(model.Metric, name="cache_event", **wanted)
    return sum(_is_hit(event.value) for event in events)


def _is_hit(value: str) -> bool:
    try:
        event = json.loads(value)
    except (ValueError, RecursionError):  # the file may be anybody's
        return False
    return isinstance(event, str) and event.endswith("_hit")


def caches_of(reader: SessionReader) -> str:
    """Say of a whole capture whether it could be warm: ``off``, ``used, 2 hits``, ``used, no
    hit``.
    """
    request = reader.request()
    hits = cache_hits(reader)
    if request is None or not request.use_caches:
        if not hits:
            return "off"
        return f"used, {counted(hits, 'hit')}"
    if hits:
        return f"used, {counted(hits, 'hit')}"
    return "used, no hit"
