"""What each stage of a compilation did: the one function behind the app's view of a stage, the report
and the overview.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fx_explorer import model
from fx_explorer.analysis.stages.dynamo_stage import dynamo_work
from fx_explorer.analysis.stages.graph_stages import partition_work, passes_work, tracing_work
from fx_explorer.analysis.stages.inductor_stages import fusion_work, kernels_work, lowering_work
from fx_explorer.analysis.stages.points import stage_points
from fx_explorer.analysis.stages.work import StagePoint, StageWork
from fx_explorer.analysis.variants.lineage import variants_in_use
from fx_explorer.session import SessionReader

_WORK: dict[model.Gate, Callable[[SessionReader, StagePoint], StageWork]] = {
    "dynamo": dynamo_work,
    "pre_grad": passes_work,
    "joint": tracing_work,
    "partition": partition_work,
    "backend": passes_work,
    "post_grad": passes_work,
    "pre_fusion": lowering_work,
    "post_fusion": fusion_work,
    "output_code": kernels_work,
}


def stage_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Tell what one stage did. It reads all nodes of the graphs before and after it, without their
    texts: half a second for 100,000.
    """
    return _WORK[point.gate](reader, point)


def work_of_variant(reader: SessionReader, variant: model.Compilation) -> list[StageWork]:
    """Tell what each stage did that a variant came through."""
    return [stage_work(reader, point) for point in stage_points(reader, variant)]


def points_in_use(reader: SessionReader) -> Sequence[StagePoint]:
    """Return the stages of every compilation, of the variant that the program runs."""
    return [point for variant in variants_in_use(reader) for point in stage_points(reader, variant)]
