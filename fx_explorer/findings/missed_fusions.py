"""Kernels that could be one: pairs that access the same memory, that Inductor kept apart for a
reason which the user can change, and which cost something.

Most pairs are apart for good reasons (a reduction in between, peak memory), and are no finding; all
of them stand in the view.
"""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer.analysis.documents import Place, place_of_kernel, place_of_source
from fx_explorer.analysis.words import share, size
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.instruments.fusion.figures import (
    TIME_FROM_DATA_SHEET,
    Unfused,
    distinct_pairs,
    unfused_pairs,
)
from fx_explorer.instruments.fusion.view import describe_pair
from fx_explorer.instruments.kernels.gpu_limits import microseconds
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

LEAST_BYTES = 1_000_000
"""Bytes below which two kernels are no finding: they stay in the caches of the machine."""

LEAST_SHARE = 0.1
"""Another order is a finding from this fraction of the estimated time of all kernels on."""

MOST_FINDINGS = 3


def find_missed_fusions(reader: SessionReader) -> Iterator[Finding]:
    pairs = [pair for pair in unfused_pairs(reader) if _can_be_changed(pair)]
    if not pairs:
        return
    # Few sessions have such a pair, and the first screen does without the rest.
    from fx_explorer.instruments.kernels.costs import kernel_costs

    whole_s = 0.0
    for cost in kernel_costs(reader):
        whole_s += cost.time_s
    count = 0
    for pair, times in distinct_pairs(pairs):
        by_setting = bool(pair.cause.settings)
        saved_s = pair.saved_s * times
        # What the memory bandwidth of a processor says is no ground for a finding: its caches may
        # hold the tensors.
        is_known = bool(whole_s) and pair.time_from == TIME_FROM_DATA_SHEET
        if not by_setting and (not is_known or saved_s < LEAST_SHARE * whole_s):
            continue
        yield _finding(reader, pair, times, whole_s)
        count += 1
        if count == MOST_FINDINGS:
            return


def _can_be_changed(pair: Unfused) -> bool:
    if pair.pair.state != "refused" or pair.pair.saved_bytes < LEAST_BYTES:
        return False
    return bool(pair.cause.settings) or (
        pair.cause.kind == "other order" and pair.pair.is_dependent
    )


def _finding(reader: SessionReader, pair: Unfused, times: int, whole_s: float) -> Finding:
    line = pair.second.line or pair.first.line
    where = f" ({in_file(*line)})" if line else ""
    saved = size(pair.pair.saved_bytes * times)
    cost = f"{saved} of reads and writes"
    if pair.saved_s:
        saved_s = pair.saved_s * times
        part = f", {share(saved_s, whole_s)} of all kernels" if whole_s else ""
        cost = f"{saved}, about {microseconds(saved_s)} {pair.time_from}{part}"
    often = f", {times} times" if times > 1 else ""
    return Finding(
        kind="missed fusion",
        text=f"{describe_pair(pair)}{where} are not fused{often}: one kernel would save {cost}.",
        urgency="minor",
        severity="notice",
        topic="kernels",
        place=_place(reader, pair),
        view="fusion",
        explanation=pair.cause.text,
        remedies=(Remedy(pair.cause.change, changes=_changes(pair)),),
        count=times,
    )


def _place(reader: SessionReader, pair: Unfused) -> Place | None:
    for call in (pair.second, pair.first):
        if call.line is not None:
            return place_of_source(reader, call.file, call.line[1])
    return place_of_kernel(reader, pair.second.kernel)


def _changes(pair: Unfused) -> dict[str, object]:
    return {"settings": dict(pair.cause.settings)} if pair.cause.settings else {}
