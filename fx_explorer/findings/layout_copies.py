"""Inputs of a graph that compiled code copies into another memory layout in every call, where an
operator asks for it: whoever gives the input can give it in that layout once.

A copy of a value that the graph computes is no finding: somebody has to write it in one order or
the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_kernel, place_of_node
from fx_explorer.analysis.words import share, size
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.instruments.decisions.figures import Explained, explained_decisions
from fx_explorer.instruments.kernels.gpu_limits import card, microseconds, roofline
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

LEAST_BYTES = 1_000_000
"""Bytes of a tensor below which its copy stays in the caches of the machine, as for missed
fusions.
"""

LEAST_SHARE = 0.05
"""Copies are a finding from this fraction of all kernels' bytes on: less cannot be measured."""

MOST_FINDINGS = 3


def find_layout_copies(reader: SessionReader) -> Iterator[Finding]:
    if not reader.has(model.KernelDecision):
        return
    copies = [each for each in explained_decisions(reader) if _is_large_copy(each)]
    if not copies:
        return
    inputs = _inputs(reader, copies)
    whole = _moved_bytes(reader)
    count = 0
    for copy in sorted(copies, key=lambda copy: -_bytes(copy)):
        moved = 2 * _bytes(copy)
        if copy.decision.about not in inputs or moved < LEAST_SHARE * whole:
            continue
        yield _finding(reader, copy, inputs[copy.decision.about], whole)
        count += 1
        if count == MOST_FINDINGS:
            return


def _is_large_copy(explained: Explained) -> bool:
    decision = explained.decision
    is_copy = decision.kind == "layout" and decision.outcome == "copied"
    if not is_copy or explained.is_elsewhere:
        return False
    return decision.numbers.get("bytes", 0) >= LEAST_BYTES


def _bytes(explained: Explained) -> int:
    """Return the bytes of the copied tensors, in all repeated layers."""
    return explained.decision.numbers["bytes"] * explained.count


def _inputs(reader: SessionReader, copies: list[Explained]) -> dict[int, model.Node]:
    nodes = reader.by_ids(model.Node, {copy.decision.about for copy in copies})
    return {node.id: node for node in nodes if node.op == "placeholder"}


def _moved_bytes(reader: SessionReader) -> int:
    """Return the bytes that all kernels in use read and write, as Inductor estimates them."""
    # Few sessions have such a copy, and the first screen does without the rest.
    from fx_explorer.instruments.kernels.costs import kernel_costs

    return sum(max(0, cost.size_bytes) for cost in kernel_costs(reader))


def _finding(reader: SessionReader, copy: Explained, node: model.Node, whole: int) -> Finding:
    moved = 2 * _bytes(copy)
    gpu = card(reader)
    cost = f"{size(moved)} read and written in each call, {share(moved, whole)} of all kernels"
    if gpu is not None:
        seconds = roofline(gpu, moved, 0).estimated_s
        cost += f", about {microseconds(seconds)} by the data sheet"
    where = f" ({in_file(*copy.line)})" if copy.line else ""
    change = copy.reason.change or (
        "Pass it to the compiled function in that layout, so that it is copied once and not in "
        "each call."
    )
    return Finding(
        kind="layout copy",
        text=f"An input is copied into another memory layout{where}: {cost}.",
        urgency="slow",
        severity="notice",
        topic="kernels",
        place=_place(reader, copy, node),
        view="decisions",
        explanation=copy.reason.text,
        remedies=(Remedy(change),),
        count=copy.count,
    )


def _place(reader: SessionReader, copy: Explained, node: model.Node) -> Place | None:
    return place_of_kernel(reader, copy.kernel) or place_of_node(reader, node)
