"""What each line of the source costs: the kernels that compute it, and its share of what all kernels
take.

A kernel of several lines counts for each by the number of its operations that are the line's, as in
the ledger. Where no time is known, the shares are those of the bytes that kernels read and write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.kernels.costs import KernelTimes, TimeKind
from fx_explorer.analysis.kernels.counts import KernelUse
from fx_explorer.analysis.variants.lineage import in_use
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import call_counts, kernel_origins

Measure = Literal["measured time", "estimated time", "time, partly measured", "bytes moved", ""]
"""What the shares are shares of; empty where nothing is known but which kernels there are."""


@dataclass(frozen=True, slots=True)
class LineHeat:
    """The kernels of one line."""

    parts: tuple[tuple[int, float], ...]
    """Each kernel's id with the share of everything that it takes for this line, the dearest first."""

    @property
    def kernels(self) -> tuple[int, ...]:
        return tuple(kernel for kernel, _ in self.parts)

    @property
    def share(self) -> float:
        """Return the share of the line, from 0 to 1; 0 where nothing is measured by."""
        return sum(share for _, share in self.parts)


@dataclass(frozen=True, slots=True)
class SourceHeat:
    """The lines that kernels compute."""

    measure: Measure = ""
    files: Mapping[int, Mapping[int, LineHeat]] = field(default_factory=dict)
    """Id of a SourceFile → line (from 0) → its kernels."""

    def of_file(self, file: int) -> Mapping[int, LineHeat]:
        return self.files.get(file, {})


NO_HEAT = SourceHeat()


def source_heat(reader: SessionReader) -> SourceHeat:
    """Return the lines of all variants in use. It reads every kernel."""
    with reader.snapshot():
        used = in_use(reader)
        kernels = [row for row in reader.rows(model.Kernel) if used is None or row.id in used.kernels]
        measure, weights = _weights(reader, kernels)
        origins = kernel_origins(reader)
    whole = sum(weights.values())
    found: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for kernel in kernels:
        lines = Counter((file, line) for file, line, _ in origins.get(kernel.id, ()))
        count = lines.total()
        for at, operations in lines.items():
            if all(at):  # what torch added is of no line
                share = weights.get(kernel.id, 0.0) / whole * operations / count if whole else 0.0
                found.setdefault(at, []).append((kernel.id, share))
    files: dict[int, dict[int, LineHeat]] = {}
    for (file, line), parts in found.items():
        parts.sort(key=lambda part: (-part[1], part[0]))
        files.setdefault(file, {})[line - 1] = LineHeat(tuple(parts))
    return SourceHeat(measure, files)


def _weights(reader: SessionReader, kernels: list[model.Kernel]) -> tuple[Measure, dict[int, float]]:
    """Return what kernels are weighed by, and the weight of each."""
    times, calls = KernelTimes(reader), call_counts(reader)
    found: dict[int, float] = {}
    kinds: set[TimeKind] = set()
    for kernel in kernels:
        found[kernel.id], kind = times.of(KernelUse(kernel, (), calls.get(kernel.id, 1)))
        kinds |= {kind} if kind else set()
    if kinds == {"estimated"}:
        return "estimated time", found
    if kinds:
        return "time, partly measured" if "estimated" in kinds else "measured time", found
    bytes_ = {kernel.id: float(max(0, kernel.estimated_bytes)) * calls.get(kernel.id, 1) for kernel in kernels}
    return ("bytes moved" if any(bytes_.values()) else ""), bytes_
