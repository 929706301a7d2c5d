"""This module tells the outcome of fusions that were asked for. The variants of a session say which
kernels were to be one, whether Inductor fused them, and why it did not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fx_explorer import model
from fx_explorer.analysis.lineage import root_name
from fx_explorer.instruments.fusion.figures import Unfused, unfused_in
from fx_explorer.session import SessionReader
from fx_explorer.session.reader import answered_once

Asked = tuple[model.Compilation, model.FusionChange]
"""The variant that was compiled for it, and two kernels that were to be one."""


def describe_tried(reader: SessionReader, pair: Unfused) -> str:
    """Return the outcome of having Inductor fuse this pair, or kernels with the same buffers, the
    last time that it was asked; empty where it was not.
    """
    (own,) = reader.by_ids(model.Compilation, [pair.first.kernel.compilation])
    for variant, change in reversed(_asked_together(reader)):
        if root_name(variant.name) != root_name(own.name):
            continue
        if change.direction not in ("", pair.first.kernel.direction):
            continue
        if _is_about(pair, change, in_parts=variant.id == own.id):
            return _describe_outcome(reader, pair, variant, change)
    return ""


def _describe_outcome(
    reader: SessionReader, pair: Unfused, variant: model.Compilation, change: model.FusionChange
) -> str:
    tried = f"Tried, as [{variant.name}]:"
    if variant.status != "ok":
        return f"{tried} compiling it failed: {variant.error}"
    reason = why_still_apart(reader, variant, [change])
    if not reason:
        return f"{tried} Inductor made one kernel of them."
    if are_same_reason(reason, pair.cause.text):
        return f"{tried} Inductor refused, for this reason."
    return f"{tried} Inductor refused: {reason}"


def are_same_reason(reason: str, other: str) -> bool:
    """Return whether two reasons are the same but for the numbers of the kernels."""
    return _NUMBER.sub("#", reason) == _NUMBER.sub("#", other)


_NUMBER = re.compile(r"#\d+")
"""Matches the number of a kernel, which a variant has numbers of its own for."""


@answered_once
def _asked_together(reader: SessionReader) -> list[Asked]:
    """Return the pairs of kernels that were to be one, in the order in which that was asked."""
    asked: list[Asked] = []
    for variant in reader.rows(model.Compilation):
        if not variant.variant_of or variant.status == "running":
            continue
        changes = model.Changes.from_json(variant.changes or {})
        asked += [(variant, change) for change in changes.fusions if change.kind == "together"]
    return asked


def _is_about(pair: Unfused, change: model.FusionChange, *, in_parts: bool) -> bool:
    """Return whether a pair is that of a change: its kernels compute the same buffers and maybe
    more; or, ``in_parts``, some of them.
    """
    first, second = set(change.first), set(change.second)
    sides = set(pair.pair.first_buffers), set(pair.pair.second_buffers)
    for of_first, of_second in (sides, sides[::-1]):
        if of_first >= first and of_second >= second:
            return True
        if in_parts and of_first & first and of_second & second:
            return True
    return False


def why_still_apart(
    reader: SessionReader, variant: model.Compilation, changes: Sequence[model.FusionChange]
) -> str:
    """Return why the variant does not have one kernel for both everywhere; empty where it has."""
    computed = _computed_together(reader, variant.id)
    pairs = unfused_in(reader, variant)
    apart = []
    for change in changes:
        both = {*change.first, *change.second}
        reason = _reason_between(pairs, change)
        if reason or not any(buffers >= both for buffers in computed):
            apart.append(reason or _OTHER_KERNELS)
    if not apart:
        return ""
    if len(apart) < len(changes):
        return f"At {len(apart)} of {len(changes)} places: {apart[0]}"
    return apart[0]


@answered_once
def _computed_together(reader: SessionReader, variant: int) -> list[set[str]]:
    """Return the buffers that each call of a variant's kernels computes."""
    kernels = {row.id for row in reader.rows(model.Kernel, compilation=variant)}
    return [set(row.buffers) for row in reader.rows(model.KernelCall) if row.kernel in kernels]


_OTHER_KERNELS = "Inductor made other kernels, none of which computes both."

_IN_PARTS = "Inductor fused parts of them, not all: {names} stay separate. {reason}"


def _reason_between(pairs: Iterable[Unfused], change: model.FusionChange) -> str:
    """Return why these two, or parts of them, are apart; empty where no pair is about them."""
    first, second = set(change.first), set(change.second)
    for pair in pairs:
        sides = set(pair.pair.first_buffers), set(pair.pair.second_buffers)
        for of_first, of_second in (sides, sides[::-1]):
            if not (of_first & first and of_second & second):
                continue
            if of_first >= first and of_second >= second:
                return pair.cause.text
            names = f"{pair.first.kernel.name} and {pair.second.kernel.name}"
            return _IN_PARTS.format(names=names, reason=pair.cause.text)
    return ""
