"""What each stage of a compilation did: the one function behind the app's view of a stage, the
report and the overview.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.stages.graph_stages import (
    dynamo_work,
    partition_work,
    passes_work,
    published_work,
    tracing_work,
)
from fx_explorer.analysis.stages.inductor_stages import fusion_work, kernels_work, lowering_work
from fx_explorer.analysis.stages.points import points_at, stage_points
from fx_explorer.analysis.stages.work import StageKey, StagePoint, StageWork
from fx_explorer.analysis.variants.lineage import variants_in_use
from fx_explorer.analysis.words import counted, listed
from fx_explorer.model import Direction, Gate
from fx_explorer.session import SessionReader

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
    """Tell what one stage did. It reads all operations of the graphs before and after it, without
    their texts.
    """
    return _WORK[point.key](reader, point)


def works_at(path: Path, compilation: str, gate: Gate, direction: Direction) -> list[StageWork]:
    """Tell what the stages did that have just been finished where the compiler waits: none, where
    nothing is recorded of them, or several that have no pause between them. It opens the session
    for itself, so that another thread can read it.
    """
    with SessionReader(path) as reader:
        variants = reader.rows(model.Compilation, name=compilation)
        points = stage_points(reader, variants[-1]) if variants else []
        works = [stage_work(reader, point) for point in points_at(points, gate, direction)]
    is_other_half = direction == "backward" and bool(works) and works[-1].point.key == "partition"
    return [_of_the_backward(works[-1])] if is_other_half else works


def _of_the_backward(partition: StageWork) -> StageWork:
    """Return the partition as the pause before the backward tells it: what it did was told before
    the forward.
    """
    again, own = partition.became.get("both", 0), partition.became.get("backward", 0)
    parts = [f"{counted(own, 'operation')} of its own"] if own else []
    parts += [f"{counted(again, 'operation')} of the forward, recomputed"] if again else []
    if parts:
        return replace(partition, sentence=f"Now the backward: {listed(parts)}.")
    return partition


MOST_COMPILATIONS = 200
"""The stages of so many are listed, the first ones: those of 2,000 versions of a function take
seconds.
"""


def points_in_use(reader: SessionReader) -> list[StagePoint]:
    """Return the stages of every compilation, of the variant that the program runs."""
    return [
        point
        for variant in variants_in_use(reader)[:MOST_COMPILATIONS]
        for point in stage_points(reader, variant)
    ]


def work_in_use(path: Path, position: int) -> StageWork:
    """Tell what the stage at this position of ``points_in_use`` did. It opens the session for
    itself, as ``works_at`` does.
    """
    with SessionReader(path) as reader:
        return stage_work(reader, points_in_use(reader)[position])
