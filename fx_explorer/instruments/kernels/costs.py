"""This module computes the cost of each kernel, and finds its part of the user's program: its line,
module, bytes and time, and the version of the function. ``source_heat`` is the reverse: the kernels
that compute a line of the source, and the line's share of the time of all kernels.

The time of a kernel is the sum of all its calls. It comes from a joined profile (over all steps
that it recorded, and only for kernels that ran in them), else from the ledger of a call, else from
a bench of the kernel alone, else from the data sheet of the GPU, as the least possible time. A
kernel of several lines counts for each by the number of its operations that are the line's, as in
the ledger.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Literal, TypeVar

from fx_explorer import model
from fx_explorer.analysis.function_versions import Version, versions
from fx_explorer.analysis.lineage import in_use
from fx_explorer.instruments.kernels.candidates import estimate
from fx_explorer.instruments.kernels.counts import KernelUse, kernel_uses
from fx_explorer.instruments.kernels.gpu_limits import card, roofline
from fx_explorer.instruments.kernels.launched import profiled_kernels
from fx_explorer.instruments.kernels.line_heat import LineHeat, Measure, SourceHeat
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import source_paths
from fx_explorer.session.queries.kernels import (
    call_counts,
    kernel_origins,
    last_kernel,
    lines_of_calls,
    operations_by_line,
)

TimeKind = Literal["in a profile", "in a call", "alone", "estimated", ""]
"""How the time of a kernel was obtained; empty without a time."""

ItemT = TypeVar("ItemT")

Line = tuple[str, int]
"""File and line, from 1."""


@dataclass(frozen=True, slots=True)
class KernelCost:
    """A kernel with its time, bytes, line and modules."""

    use: KernelUse
    version: Version | None
    """The version of the function; None where the session does not have the compilation."""
    lines: tuple[Line, ...]
    """The user's lines of its nodes, most frequent first."""
    modules: tuple[str, ...]
    """The user's modules, most frequent first: ``layers.0.up``."""
    size_bytes: int
    """Bytes that all of its calls read and write; -1 where they are not known."""
    time_s: float
    """Seconds of all of its calls; 0 where they are not known."""
    time_kind: TimeKind
    runs: float = 1.0
    """How often each call ran in that time: several times in a profile, otherwise once."""

    @property
    def line_label(self) -> str:
        """Return ``model.py:31``, or ``model.py:31 +2`` for three lines."""
        return _first_of([in_file(file, line) for file, line in self.lines])

    @property
    def module_label(self) -> str:
        """Return ``layers.0.up``, ``layers.*.up ×12`` for alike layers, or the first of several."""
        alike = {_NUMBERS.sub("*", module) for module in self.modules}
        if len(alike) == 1 and len(self.modules) > 1:
            return f"{alike.pop()} ×{len(self.modules)}"
        return _first_of(self.modules)


_NUMBERS = re.compile(r"(?<![^.])\d+(?![^.])")


def _first_of(names: Iterable[str]) -> str:
    first, *rest = [*names] or [""]
    return f"{first} +{len(rest)}" if rest else first


def kernel_costs(reader: SessionReader, compilation: int | None = None) -> list[KernelCost]:
    """Return the kernels of one compilation, or of all variants in use, in the order they run."""
    with reader.snapshot():
        uses = kernel_uses(reader, compilation)
        by_compilation, origins = versions(reader), kernel_origins(reader, compilation)
        paths = source_paths(reader)
        times = KernelTimes(reader)
        costs = []
        for use in uses:
            kernel = use.kernel
            version = by_compilation.get(kernel.compilation)
            places = origins.get(kernel.id, ())
            of_files = [(file, line) for file, line, _ in places if file in paths and line]
            lines = _frequent((paths[file], line) for file, line in of_files)
            modules = _frequent(module for _, _, module in places if module)
            size_bytes = kernel.estimated_bytes * use.calls if kernel.estimated_bytes >= 0 else -1
            runs = times.runs_of(use)
            costs.append(KernelCost(use, version, lines, modules, size_bytes, *times.of(use), runs))
        return costs


def _frequent(items: Iterable[ItemT]) -> tuple[ItemT, ...]:
    """Return each item once, the most frequent first."""
    return tuple(item for item, _ in Counter(items).most_common())


class KernelTimes:
    """Finds the times of kernels, of whichever kind the session has."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        self._gpu = card(reader)
        self._profiled = profiled_kernels(reader)
        self._in_call = _ledger_times(reader)
        self._alone = {row.kernel: row.median_s for row in reader.rows(model.KernelTime)}

    def of(self, use: KernelUse) -> tuple[float, TimeKind]:
        """Return the seconds of all calls of a kernel, and how they are known."""
        kernel = use.kernel
        if self._profiled:  # a time of another kind beside it would be of another number of steps
            profiled_kernel = self._profiled.get(kernel.id)
            if profiled_kernel:
                return (profiled_kernel.seconds, "in a profile")
            return (0.0, "")
        if kernel.id in self._in_call:
            return self._in_call[kernel.id], "in a call"
        if kernel.id in self._alone:
            return self._alone[kernel.id] * use.calls, "alone"
        estimated_s = self._estimated_s(kernel)
        if not estimated_s:
            return (0.0, "")
        return estimated_s * use.calls, "estimated"

    def runs_of(self, use: KernelUse) -> float:
        """Return how often each call of a kernel ran in the time that ``of`` returns."""
        kernel = self._profiled.get(use.kernel.id)
        if kernel:
            return max(1.0, kernel.runs / max(1, use.calls))
        return 1.0

    def shares_of_calls(self, kernel: int) -> Mapping[int, float]:
        """Return KernelCall → its fraction of the kernel's time; empty if all calls take equally
        long.
        """
        profiled_kernel = self._profiled.get(kernel)
        if profiled_kernel and profiled_kernel.seconds:
            return {
                call: took_s / profiled_kernel.seconds
                for call, took_s in profiled_kernel.calls.items()
            }
        return {}

    def _estimated_s(self, kernel: model.Kernel) -> float:
        if self._gpu is None:
            return 0.0
        if kernel.estimated_flops > 0:
            return estimate(self._reader, kernel, self._gpu).estimated_s
        # Without operations, their type does not matter.
        return roofline(self._gpu, kernel.estimated_bytes, 0).estimated_s


def _ledger_times(reader: SessionReader) -> dict[int, float]:
    """Return the seconds of each kernel in the session's last ledger, by the id of the kernel."""
    calls = [row.id for row in reader.rows(model.LedgerCall) if row.call_s > 0]
    if not calls:
        return {}
    kernels = lines_of_calls(reader)
    times: dict[int, float] = {}
    for step in reader.rows(model.LedgerStep, call=calls[-1]):
        kernel = kernels.get((step.compilation, step.direction, step.line))
        if kernel and step.kind in ("kernel", "library"):
            took_s = step.device_s if step.device_s >= 0 else step.host_s
            times[kernel] = times.get(kernel, 0.0) + took_s
    return times


def time_kinds(costs: Iterable[KernelCost]) -> Mapping[TimeKind, int]:
    """Return how many kernels have a time of each kind."""
    return Counter(cost.time_kind for cost in costs if cost.time_kind)


ROWS_AT_ONCE = 5_000


def source_heat(reader: SessionReader) -> SourceHeat:
    """Return the lines of all variants in use. It reads every kernel, of which there may be
    100,000, but never all of their rows at once.
    """
    with reader.snapshot():
        measure, weights = kernel_weights(reader)
        whole = sum(weights.values())
        files: dict[int, dict[int, list[tuple[int, float]]]] = {}
        for kernel, file, line, part in _parts(reader, weights):
            share = weights[kernel] / whole * part if whole else 0.0
            files.setdefault(file, {}).setdefault(line - 1, []).append((kernel, share))
    heat: dict[int, dict[int, LineHeat]] = {}
    for file, lines in files.items():
        heat[file] = {line: _line_heat(parts) for line, parts in lines.items()}
    return SourceHeat(measure, heat)


def _line_heat(parts: list[tuple[int, float]]) -> LineHeat:
    """Return the (kernel, share) of a line, the largest share first."""
    return LineHeat(tuple(sorted(parts, key=lambda part: (-part[1], part[0]))))


def _parts(reader: SessionReader, kernels: Container[int]) -> Iterator[tuple[int, int, int, float]]:
    """Yield (kernel, file, line, part of the kernel's operations) for each line of these
    kernels.
    """
    for first in range(1, last_kernel(reader) + 1, ROWS_AT_ONCE):
        rows = operations_by_line(reader, range(first, first + ROWS_AT_ONCE))
        for kernel, lines in groupby(rows, key=itemgetter(0)):
            if kernel not in kernels:
                continue
            of_kernel = list(lines)
            count = sum(operations for *_, operations in of_kernel)
            for _, file, line, operations in of_kernel:
                if file and line:  # what torch added is of no line
                    yield kernel, file, line, operations / count


def kernel_weights(reader: SessionReader) -> tuple[Measure, dict[int, float]]:
    """Return the kind of weight, and the weight of each kernel in use: the time of all its calls,
    or the bytes they move where no time is known.
    """
    times, calls = KernelTimes(reader), call_counts(reader)
    weights: dict[int, float] = {}
    kinds: set[TimeKind] = set()
    for kernel in _kernels_in_use(reader):
        weights[kernel.id], kind = times.of(KernelUse(kernel, (), calls.get(kernel.id, 1)))
        if kind:
            kinds.add(kind)
    if kinds == {"in a profile"}:
        return "profiled time", weights
    if kinds == {"estimated"}:
        return "estimated time", weights
    if "estimated" in kinds:
        return "time, partly measured", weights
    if kinds:
        return "measured time", weights
    for kernel in _kernels_in_use(reader):
        weights[kernel.id] = float(max(0, kernel.estimated_bytes)) * calls.get(kernel.id, 1)
    if any(weights.values()):
        return "bytes moved", weights
    return "", weights


def _kernels_in_use(reader: SessionReader) -> Iterator[model.Kernel]:
    used = in_use(reader)
    for offset in range(0, reader.count(model.Kernel), ROWS_AT_ONCE):
        for kernel in reader.rows(model.Kernel, offset=offset, limit=ROWS_AT_ONCE):
            if used is None or kernel.id in used.kernels:
                yield kernel
