"""Why values are saved for the backward or computed again in it: the partitioner's grounds and
figures, in plain words.
"""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_node
from fx_explorer.analysis.lineage import in_use
from fx_explorer.analysis.words import counted, size
from fx_explorer.model.rows.graph import BUDGET
from fx_explorer.session import SessionReader

_WORDS = {
    "forward RNG seed": "it is the seed of random numbers",
    "not in recomputable allowlist": "it is not among the operations that are cheap to recompute",
    "compute intensive op": "torch recomputes no matrix multiplication, convolution or attention",
    "random op": "it draws random numbers, which would differ when recomputed",
    "non-builtin op": "it is an operator of the program's, and torch does not know what it costs",
    "materialized in backward": "the backward would have to write it to memory in any case",
    "too far from backward": "it is too many operations away from the backward",
    "reduction op": "it is much smaller than what it is computed from",
    "marked MUST_SAVE": "the program's checkpoint policy asks for it",
    "marked by checkpoint policy": "the program's checkpoint policy asks for it",
    "non-tensor output": "it is no tensor, and only its parts are saved",
    "view op (recompute_views=True)": "recomputing a view costs nothing",
}
"""The end of torch's reason (``solve_min_cut``, torch/_functorch/partitioners.py) → the same in
plain words. Any other is reported as torch writes it.
"""

INPUT = ": primal input"
"""torch's reason for what comes into the graph."""

UNTOLD = (
    "torch rules it out where operations that use it are far apart, or at the end of a long chain"
)
"""For what torch rules out without a reason in its cut: its two heuristics on distance."""

STEP_FACTOR = 1.1
"""The weight of saving grows so much with each step to the backward (``get_node_weight``)."""

MAX_STEPS = 100


@dataclass(frozen=True, slots=True)
class Recomputed:
    """An operation of the forward that the backward does again."""

    choice: model.PartitionChoice
    node: model.Node
    place: Place


def choices(reader: SessionReader) -> dict[tuple[int, str], model.PartitionChoice]:
    """Return what was decided about each value, by compilation and name, of the variants in use."""
    used = in_use(reader)
    rows = reader.rows(model.PartitionChoice)
    return {
        (row.compilation, row.name): row
        for row in rows
        if used is None or row.compilation in used.saving
    }


def recomputed(reader: SessionReader) -> list[Recomputed]:
    """Return what is computed again, biggest first. Views are left out: they compute nothing."""
    rows = {row.node: row for row in choices(reader).values() if row.choice == "recomputed"}
    nodes = [node for node in reader.by_ids(model.Node, rows) if not node.is_view]
    found = [Recomputed(rows[node.id], node, place_of_node(reader, node)) for node in nodes]
    return sorted(found, key=lambda one: -one.choice.size_bytes)


def why(choice: model.PartitionChoice) -> str:
    """Return why a value is saved or computed again, as one sentence without its full stop."""
    return _why_saved(choice) if choice.choice == "saved" else _why_recomputed(choice)


def _why_saved(choice: model.PartitionChoice) -> str:
    if choice.ground == "no_cut":
        return f"saved because the backward needs it: {_who_decided(choice)}"
    if choice.ground == "cut":
        return f"saved because that is the minimum cut; {_weight(choice)}"
    if choice.reason.endswith(INPUT):
        return "saved because it comes into the graph from outside; it is there in any case"
    return f"saved: {_reason(choice)}"


def _why_recomputed(choice: model.PartitionChoice) -> str:
    if choice.ground == "must_recompute":
        return f"recomputed because {_reason(choice)}"
    if choice.ground == "cannot_save":
        return f"recomputed because it is never saved: {_reason(choice)}"
    if choice.ground == "no_cut":
        return f"recomputed in the backward: {_who_decided(choice)}"
    return f"recomputed in the backward from saved values; {_weight(choice)}"


def _who_decided(choice: model.PartitionChoice) -> str:
    """Say who split a graph of which no smallest cut was searched."""
    if choice.reason == BUDGET:
        return (
            "the memory budget is 0, so nothing is saved but what comes into the graph from outside"
        )
    backend, _, function = choice.reason.partition(": ")
    if function == "default_partition":
        return (
            f"backend {backend} splits the graph with torch's {function}, which saves "
            "whatever the backward needs"
        )
    if function:
        return f"backend {backend} splits the graph with {function}, which gives no reasons"
    return (
        "the partitioner weighed nothing in this graph, since there was nothing to choose or "
        "its memory budget is 0"
    )


def _reason(choice: model.PartitionChoice) -> str:
    text = choice.reason.partition(": ")[2]
    return _WORDS.get(text, text) or UNTOLD


def _weight(choice: model.PartitionChoice) -> str:
    """Return how the weight of saving comes about, as far as it is known."""
    if choice.weight < 0 or choice.size_bytes < 0:
        return "what saving it weighs is not known"
    steps = max(0, choice.distance)
    text = (
        f"saving it weighs {choice.weight:,.0f}: {size(choice.size_bytes)}, × {STEP_FACTOR} "
        f"for each of {_steps(steps)}"
    )
    return f"{text} to the backward{_twice(choice)}"


def _steps(steps: int) -> str:
    if 0 < steps < MAX_STEPS:
        return counted(steps, "step")
    if not steps:
        return "1 step"
    return f"{MAX_STEPS} steps at most"


def _twice(choice: model.PartitionChoice) -> str:
    """Return a remark on what no kernel writes to memory anyway: saving it weighs twice."""
    once = choice.size_bytes * STEP_FACTOR ** max(1, min(MAX_STEPS, choice.distance))
    if once and 1.5 < choice.weight / once < 2.5:
        return ", × 2 since no kernel writes it otherwise"
    return ""
