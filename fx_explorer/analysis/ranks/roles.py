"""Which part of a model a rank has. The stages of a pipeline compile different graphs by design; the ranks of one stage, and
those that hold the same model, do not.
"""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer.analysis.ranks.alignment import Pair, aligned
from fx_explorer.analysis.ranks.summary import CompilationSummary, RankSummary


def is_other_part(one: CompilationSummary, two: CompilationSummary) -> bool:
    """Return whether two compilations of one function are of different parts of a model: what they compute with are other
    modules, or, under a pipeline's schedule, other collectives.

    Ranks that share one model (DDP, FSDP, DTensor, collectives in the graph) have no parts of their own: there another
    module is a divergence.
    """
    is_pipeline = one.is_of_pipeline or two.is_of_pipeline
    is_other_module = bool(one.modules and two.modules and one.modules != two.modules)
    if is_pipeline:
        return is_other_module or one.traced_collectives != two.traced_collectives
    return is_other_module and not (one.is_of_shared_model or two.is_of_shared_model)


def may_be_a_part(one: CompilationSummary) -> bool:
    """Return whether a compilation that only one rank has may be its part of a model."""
    return bool(one.modules) and (one.is_of_pipeline or not one.is_of_shared_model)


def have_other_parts(pairs: Sequence[Pair]) -> bool:
    """Return whether two ranks have different parts of a model, by their compilations side by side."""
    for one, two, _ in pairs:
        if one and two and is_other_part(one, two):
            return True
    lacking = [pair.reference for pair in pairs if pair.reference and not pair.other]
    extra = [pair.other for pair in pairs if pair.other and not pair.reference]
    return any(map(may_be_a_part, lacking)) and any(map(may_be_a_part, extra))


def have_one_role(one: RankSummary, two: RankSummary) -> bool:
    return not have_other_parts(aligned(one.compilations, two.compilations))
