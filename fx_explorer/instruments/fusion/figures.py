"""This module finds the pairs of kernels that access the same memory and were not fused, with the
user's lines of both, and estimates what one kernel would save.

The time saved is an estimate from the data sheet of the GPU: the time of both, less that of one
kernel that moves the bytes of both but those that both would not move. On a processor it is the
time for the saved bytes at the memory bandwidth that was measured here. Without either there is
none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fx_explorer import model
from fx_explorer.analysis.lineage import in_use
from fx_explorer.analysis.words import listed
from fx_explorer.instruments.fusion.unfused_reasons import (
    ANOTHER_KERNEL,
    ONE_BETWEEN,
    Cause,
    cause_of,
)
from fx_explorer.instruments.kernels.gpu_limits import card, measured_bandwidth, roofline
from fx_explorer.model import Gpu
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import source_paths
from fx_explorer.session.queries.kernels import lines_of_nodes, nodes_of_calls
from fx_explorer.session.reader import answered_once

Line = tuple[str, int]
"""File and line, from 1."""


@dataclass(frozen=True, slots=True)
class CallOfKernel:
    """One call of a kernel, with what it computes."""

    call: int
    """Id of the KernelCall; a kernel may be called several times."""
    kernel: model.Kernel
    nodes: tuple[int, ...]
    """The post-grad nodes that it computes, by id."""
    line: Line | None
    """The user's line of most of its nodes; None where they have none."""
    file: int
    """Id of that line's SourceFile; 0 without one."""


@dataclass(frozen=True, slots=True)
class Unfused:
    """Two calls of kernels that were not fused."""

    pair: model.UnfusedPair
    first: CallOfKernel
    second: CallOfKernel
    cause: Cause
    saved_s: float
    """Estimate of the seconds that one kernel for both would save; 0 where there is none."""
    time_from: str = ""
    """Source of the estimate: ``by the data sheet of the GPU``, ``at the 21 GB/s measured here``;
    empty where there is none.
    """

    @property
    def is_of_library(self) -> bool:
        """Return whether one of them is a library call, into which Inductor fuses nothing."""
        return "extern" in (self.first.kernel.language, self.second.kernel.language)

    @property
    def has_one_between(self) -> bool:
        """Return whether a kernel between needs one of them and is needed by the other, so that
        these two alone cannot be one.
        """
        return self.cause.kind == ONE_BETWEEN


TIME_FROM_DATA_SHEET = "by the data sheet of the GPU"


@answered_once
def unfused_pairs(reader: SessionReader) -> list[Unfused]:
    """Return the pairs of all variants in use: first those of generated kernels, then those that
    cannot be fused alone, because a kernel runs between them, then those of library calls. In each,
    those are first of which one kernel would save most.
    """
    used = in_use(reader)
    pairs = _pairs(reader)
    if used is not None:
        pairs = [pair for pair in pairs if pair.first.kernel.id in used.kernels]
    return sorted(
        pairs,
        key=lambda pair: (
            pair.is_of_library,
            pair.has_one_between,
            -pair.saved_s,
            -pair.pair.saved_bytes,
            pair.pair.id,
        ),
    )


def unfused_in(reader: SessionReader, variant: model.Compilation) -> list[Unfused]:
    """Return the pairs of what one variant lowered, in use or not."""
    return [pair for pair in _pairs(reader) if pair.first.kernel.compilation == variant.id]


@answered_once
def _pairs(reader: SessionReader) -> list[Unfused]:
    # Two loop nests of one kernel are of loop_nests.py.
    rows = [row for row in reader.rows(model.UnfusedPair) if row.first != row.second]
    if not rows:
        return []
    calls = _calls(reader, rows)
    reductions = _reductions(reader, calls.values())
    between = _Dependencies(rows)
    gpu = card(reader)
    bytes_per_s = 0.0 if gpu else measured_bandwidth(reader)
    time_from = TIME_FROM_DATA_SHEET
    if bytes_per_s:
        time_from = f"at the {bytes_per_s / 1e9:,.0f} GB/s measured here"
    pairs = []
    for row in rows:
        first, second = calls.get(row.first), calls.get(row.second)
        if first is None or second is None:
            continue
        is_split = bool(reductions.intersection(first.nodes, second.nodes))
        cause = cause_of(row, first.kernel, second.kernel, is_split=is_split)
        if cause.text.startswith(ANOTHER_KERNEL):
            cause = _with_number(cause, [calls[call] for call in between.calls(row)])
        saved_s = _saved_s(gpu, row, first.kernel, second.kernel)
        if bytes_per_s:
            saved_s = max(0, row.saved_bytes) / bytes_per_s
        pairs.append(Unfused(row, first, second, cause, saved_s, time_from if saved_s else ""))
    return pairs


class _Dependencies:
    """The dependencies between calls that the pairs show: which call reads the result of
    another.
    """

    def __init__(self, rows: Iterable[model.UnfusedPair]) -> None:
        self._readers: dict[int, list[int]] = {}
        self._writers: dict[int, list[int]] = {}
        for row in rows:
            if row.is_dependent:
                self._readers.setdefault(row.first, []).append(row.second)
                self._writers.setdefault(row.second, []).append(row.first)

    def calls(self, row: model.UnfusedPair) -> list[int]:
        """Return the calls that need the first of a pair, and that the second needs."""
        after = _reached(self._readers, row.first, until=row.second)
        before = _reached(self._writers, row.second, until=row.first)
        return sorted(after & before)


def _reached(edges: Mapping[int, Iterable[int]], start: int, *, until: int) -> set[int]:
    """Return the calls that are reached from ``start``, without it and without ``until``."""
    reached: set[int] = set()
    open_calls = [start]
    while open_calls:
        for call in edges.get(open_calls.pop(), ()):
            if call not in reached and call not in (start, until):
                reached.add(call)
                open_calls.append(call)
    return reached


def _with_number(cause: Cause, calls: Sequence[CallOfKernel]) -> Cause:
    """Return the cause with the number of the kernel between; as it is where none is known."""
    numbers = [f"#{number}" for number in dict.fromkeys(call.kernel.id for call in calls)]
    if not numbers:
        return cause
    if len(numbers) == 1:
        text = cause.text.replace(ANOTHER_KERNEL, numbers[0])
    else:
        text = (
            f"{listed(numbers, 3)} run between them: they need the result of the first, and the "
            "second needs theirs. So these two alone cannot become one kernel."
        )
    return replace(cause, text=text)


def pairs_of_kernel(reader: SessionReader, kernel: int) -> list[Unfused]:
    """Return the pairs with a call of this kernel."""
    return [
        pair
        for pair in unfused_pairs(reader)
        if kernel in (pair.first.kernel.id, pair.second.kernel.id)
    ]


def distinct_pairs(pairs: Iterable[Unfused]) -> list[tuple[Unfused, int]]:
    """Return the pairs of repeated layers once, with how often they occur: the same two kernels, or
    lines, for the same reason.
    """
    return [(group[0], len(group)) for group in _pairs_alike(pairs)]


def distinct_pairs_of_kernel(reader: SessionReader, kernel: int) -> list[tuple[Unfused, int]]:
    """Return those of ``distinct_pairs`` that stand for a pair with a call of this kernel."""
    groups = _pairs_alike(unfused_pairs(reader))
    return [(group[0], len(group)) for group in groups if _has_kernel(group, kernel)]


def _has_kernel(pairs: Iterable[Unfused], kernel: int) -> bool:
    return any(kernel in (pair.first.kernel.id, pair.second.kernel.id) for pair in pairs)


def _pairs_alike(pairs: Iterable[Unfused]) -> list[list[Unfused]]:
    """Return the pairs in groups: those of a group differ only in the layer."""
    groups: dict[tuple[object, ...], list[Unfused]] = {}
    for pair in pairs:
        key = (
            pair.first.kernel.direction,
            pair.first.kernel.name,
            pair.second.kernel.name,
            pair.first.line,
            pair.second.line,
            pair.cause.kind,
            pair.pair.saved_bytes,
        )
        groups.setdefault(key, []).append(pair)
    return list(groups.values())


def _calls(reader: SessionReader, rows: list[model.UnfusedPair]) -> dict[int, CallOfKernel]:
    """Return the calls that occur in pairs, by id."""
    wanted = {row.first for row in rows} | {row.second for row in rows}
    call_rows = [row for row in reader.rows(model.KernelCall) if row.id in wanted]
    kernels = {row.id: row for row in reader.by_ids(model.Kernel, {c.kernel for c in call_rows})}
    nodes_by_call: dict[int, list[int]] = {}
    nodes_by_kernel: dict[int, list[int]] = {}
    for kernel, call, nodes in nodes_of_calls(reader):
        if call:
            nodes_by_call.setdefault(call, []).extend(nodes)
        else:
            nodes_by_kernel.setdefault(kernel, []).extend(nodes)
    all_nodes: set[int] = set()
    for nodes in (*nodes_by_call.values(), *nodes_by_kernel.values()):
        all_nodes.update(nodes)
    lines = lines_of_nodes(reader, all_nodes)
    paths = source_paths(reader)
    calls = {}
    for row in call_rows:
        kernel_row = kernels[row.kernel]
        nodes = nodes_by_call.get(row.id) or nodes_by_kernel.get(row.kernel, [])
        file, number = _most_frequent(lines[node] for node in nodes if node in lines)
        line = (paths[file], number) if file in paths else None
        calls[row.id] = CallOfKernel(row.id, kernel_row, tuple(nodes), line, file)
    return calls


_REDUCTIONS = frozenset(
    ["sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "prod", "var", "var_mean",
     "std", "any", "all", "logsumexp", "linalg_vector_norm", "prepare_softmax_online"]
)  # fmt: skip
"""Operators that Inductor may split into two reductions (torch/_inductor/ir.py, Reduction)."""


def _reductions(reader: SessionReader, calls: Iterable[CallOfKernel]) -> set[int]:
    """Return those nodes of calls that are reductions."""
    nodes: set[int] = set()
    for call in calls:
        nodes.update(call.nodes)
    return {
        node.id
        for node in reader.by_ids(model.Node, nodes)
        if not _REDUCTIONS.isdisjoint(node.target.split("."))
    }


def _most_frequent(lines: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Return the (SourceFile, line) that occurs most often; zeros without any."""
    most = Counter(lines).most_common(1)
    return most[0][0] if most else (0, 0)


def _saved_s(
    gpu: Gpu | None, pair: model.UnfusedPair, first: model.Kernel, second: model.Kernel
) -> float:
    if gpu is None or pair.saved_bytes < 0:
        return 0.0
    if first.estimated_bytes < 0 or second.estimated_bytes < 0:
        return 0.0
    both = first.estimated_bytes + second.estimated_bytes
    apart_s = 0.0
    for kernel in (first, second):
        apart_s += roofline(gpu, kernel.estimated_bytes, kernel.estimated_flops).estimated_s
    flops = max(0, first.estimated_flops) + max(0, second.estimated_flops)
    fused_s = roofline(gpu, max(0, both - pair.saved_bytes), flops).estimated_s
    return max(0.0, apart_s - fused_s)
