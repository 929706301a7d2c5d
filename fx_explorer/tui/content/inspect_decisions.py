"""This module gives the inspector what Inductor decided about a kernel, a library call, or the
kernels of a node or a line, and which kernels it did not fuse with one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_kernel
from fx_explorer.analysis.kernel_documents import kernel_of
from fx_explorer.instruments.decisions.figures import (
    Explained,
    decisions_of_kernel,
    decisions_of_node,
)
from fx_explorer.instruments.fusion.figures import distinct_pairs_of_kernel
from fx_explorer.instruments.fusion.loop_nest_reasons import pairs_in_kernel
from fx_explorer.instruments.fusion.pair_words import row_key
from fx_explorer.instruments.fusion.unfused_reasons import Cause
from fx_explorer.instruments.fusion.view import describe_missed, describe_missed_nests
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import kernels_called_on_line
from fx_explorer.tui.content.destinations import Entry, RowOfView

MOST = 12
"""Maximum number of decisions that are listed for a place."""

MAY_CHANGE = "What may change it: "


def why_entries(reader: SessionReader, place: Place, node: model.Node | None) -> list[Entry]:
    """Return the decisions about the kernels of a place."""
    decisions = _distinct(decisions_at(reader, place, node))
    entries: list[Entry] = []
    for explained in decisions[:MOST]:
        entries += _entries(reader, explained, place)
    if len(decisions) > MOST:
        more = f"{len(decisions) - MOST} more: v z lists all"
        entries.append(Entry("why so", more, row=RowOfView("decisions", ())))
    return entries


def _distinct(decisions: Iterable[Explained]) -> list[Explained]:
    """Return the decisions without those that say the same of the same kernel again, which are
    about another line.
    """
    distinct: dict[tuple[int, str, str], Explained] = {}
    for explained in decisions:
        reason = explained.reason
        distinct.setdefault((explained.kernel.artifact, reason.text, reason.change), explained)
    return list(distinct.values())


MOST_FUSIONS = 6
"""Maximum number of missed fusions that are listed for a kernel."""


def fusion_entries(reader: SessionReader, place: Place) -> list[Entry]:
    """Return the missed fusions of the kernels at a place, those first that would save most. Each
    leads to its row in the view of missed fusions.
    """
    if not reader.has(model.UnfusedPair):
        return []
    entries = []
    for kernel in _kernels_at(reader, place):
        for pair, count in distinct_pairs_of_kernel(reader, kernel):
            text = describe_missed(pair, kernel, count)
            entries.append(_fusion_entry(text, pair.cause, pair.pair))
        entries += [
            _fusion_entry(describe_missed_nests(nests), nests.cause, nests.pair)
            for nests in pairs_in_kernel(reader, kernel)
        ]
    shown = entries[:MOST_FUSIONS]
    if len(entries) > MOST_FUSIONS:
        more = f"{len(entries) - MOST_FUSIONS} more: v y lists all"
        shown.append(replace(entries[MOST_FUSIONS], text=more, note=""))
    return shown


def _fusion_entry(text: str, cause: Cause, row: model.UnfusedPair) -> Entry:
    return Entry("not fused", text, note=cause.text, row=RowOfView("fusion", (row_key(row),)))


def _kernels_at(reader: SessionReader, place: Place) -> list[int]:
    """Return the kernel that a place is in, or those that its line of the generated code calls."""
    if place.document.stage == "kernel":
        kernel = kernel_of(reader, place.document)
        return [kernel.id] if kernel else []
    if place.document.stage == "output_code":
        return list(kernels_called_on_line(reader, place.document.id, place.line + 1))
    return []


def decisions_at(reader: SessionReader, place: Place, node: model.Node | None) -> list[Explained]:
    """Return what was decided about the kernels of a place, or of a node."""
    if not reader.has(model.KernelDecision):
        return []
    if node is not None:
        return decisions_of_node(reader, node.id)
    decisions = []
    for kernel in _kernels_at(reader, place):
        decisions += decisions_of_kernel(reader, kernel)
    return decisions


def _entries(reader: SessionReader, explained: Explained, here: Place) -> list[Entry]:
    reason = explained.reason
    kernel = place_of_kernel(reader, explained.kernel)
    is_here = kernel is not None and kernel.document == here.document
    note = explained.decision.check
    entries = [Entry("why so", reason.text, None if is_here else kernel, note=note)]
    if reason.change:
        entries.append(Entry("", MAY_CHANGE + reason.change))
    return entries
