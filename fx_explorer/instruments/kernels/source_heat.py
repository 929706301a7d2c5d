"""What each line of the source costs: the kernels that compute it, and its share of what all
kernels take.

A kernel of several lines counts for each by the number of its operations that are the line's, as in
the ledger. Where no time is known, the shares are those of the bytes that kernels read and write.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import groupby
from operator import itemgetter

from fx_explorer import model
from fx_explorer.analysis.lineage import in_use
from fx_explorer.instruments.kernels.costs import KernelTimes, TimeKind
from fx_explorer.instruments.kernels.counts import KernelUse
from fx_explorer.instruments.kernels.line_heat import LineHeat, Measure, SourceHeat
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import call_counts, last_kernel, operations_by_line

ROWS_AT_ONCE = 5_000


def source_heat(reader: SessionReader) -> SourceHeat:
    """Return the lines of all variants in use. It reads every kernel, of which there may be
    100,000: never all of their rows at once.
    """
    with reader.snapshot():
        measure, weights = _weights(reader)
        whole = sum(weights.values())
        files: dict[int, dict[int, list[tuple[int, float]]]] = {}
        for kernel, file, line, part in _parts(reader, weights):
            share = weights[kernel] / whole * part if whole else 0.0
            files.setdefault(file, {}).setdefault(line - 1, []).append((kernel, share))
    return SourceHeat(
        measure,
        {
            file: {
                line: LineHeat(tuple(sorted(parts, key=lambda part: (-part[1], part[0]))))
                for line, parts in lines.items()
            }
            for file, lines in files.items()
        },
    )


def _parts(reader: SessionReader, kernels: Container[int]) -> Iterator[tuple[int, int, int, float]]:
    """Yield (kernel, file, line, part of the kernel's operations) for each line of these
    kernels.
    """
    for first in range(1, last_kernel(reader) + 1, ROWS_AT_ONCE):
        found = operations_by_line(reader, range(first, first + ROWS_AT_ONCE))
        for kernel, lines in groupby(found, key=itemgetter(0)):
            if kernel not in kernels:
                continue
            of_kernel = list(lines)
            count = sum(operations for *_, operations in of_kernel)
            for _, file, line, operations in of_kernel:
                if file and line:  # what torch added is of no line
                    yield kernel, file, line, operations / count


def _weights(reader: SessionReader) -> tuple[Measure, dict[int, float]]:
    """Return what kernels are weighed by, and the weight of each that is in use."""
    times, calls = KernelTimes(reader), call_counts(reader)
    found: dict[int, float] = {}
    kinds: set[TimeKind] = set()
    for kernel in _kernels_in_use(reader):
        found[kernel.id], kind = times.of(KernelUse(kernel, (), calls.get(kernel.id, 1)))
        kinds |= {kind} if kind else set()
    if kinds == {"in a profile"}:
        return "profiled time", found
    if kinds == {"estimated"}:
        return "estimated time", found
    if kinds:
        return "time, partly measured" if "estimated" in kinds else "measured time", found
    for kernel in _kernels_in_use(reader):
        found[kernel.id] = float(max(0, kernel.estimated_bytes)) * calls.get(kernel.id, 1)
    return ("bytes moved" if any(found.values()) else ""), found


def _kernels_in_use(reader: SessionReader) -> Iterator[model.Kernel]:
    used = in_use(reader)
    for offset in range(0, reader.count(model.Kernel), ROWS_AT_ONCE):
        for kernel in reader.rows(model.Kernel, offset=offset, limit=ROWS_AT_ONCE):
            if used is None or kernel.id in used.kernels:
                yield kernel
