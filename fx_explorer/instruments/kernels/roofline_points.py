"""This module places each kernel below the roof of the machine, by operations a byte and operations
a second. The roof is what bounds the kernels of a machine: the bytes it moves and the operations it
does in a second, from the data sheet of a GPU, or as they were measured of this machine.

A kernel that was timed stands where it was measured; one that was not stands on the roof itself,
which is the most it can do. What has no figures has no point, and the reason is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.analysis.whole_session import NO_PROGRAM, is_log
from fx_explorer.instruments.kernels.candidates import kind_of_inputs
from fx_explorer.instruments.kernels.card import card, not_described
from fx_explorer.instruments.kernels.costs import KernelCost, TimeKind, kernel_costs
from fx_explorer.model import CardCeiling, Gpu
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import lines_of_calls

NO_ROOF = "No roof yet: measure a call (x c), and with it what this processor can do."
NO_BANDWIDTH = "No roof: the memory bandwidth of {gpu} is not known."


@dataclass(frozen=True, slots=True)
class Roof:
    """The roof of one machine."""

    title: str
    """``NVIDIA H100 SXM 80 GB``, ``this CPU``."""
    bytes_per_s: float
    flops_per_s: Mapping[str, float]
    """Kind of number → operations a second: ``fp32``, ``bf16``."""
    origin: str
    """``data sheet``, ``measured``."""
    how: str = ""
    """What was run to measure it."""

    def flops_at(self, intensity: float, kind: str) -> float:
        """Return the most operations a second at so many operations a byte; 0 for a kind without a
        number.
        """
        return min(self.flops_per_s.get(kind, 0.0), intensity * self.bytes_per_s)

    def ridge(self, kind: str) -> float:
        """Return the operations a byte from which on arithmetic is the bound."""
        return self.flops_per_s.get(kind, 0.0) / self.bytes_per_s


def roof(reader: SessionReader) -> Roof | None:
    """Return the roof: of the virtual GPU; else what was measured here; else of the GPU's data
    sheet. None where nothing is known (``why_no_roof``).
    """
    virtual = session_gpu(reader)
    if virtual:
        return _of_data_sheet(virtual)
    measured = _measured(reader)
    gpu = card(reader)
    return measured or (_of_data_sheet(gpu) if gpu else None)


def why_no_roof(reader: SessionReader) -> str:
    """Return a sentence; only where ``roof`` finds none."""
    gpu = card(reader)
    if gpu:
        return NO_BANDWIDTH.format(gpu=gpu.title)
    return not_described(reader) or (f"No roof. {NO_PROGRAM}" if is_log(reader) else NO_ROOF)


def _of_data_sheet(gpu: Gpu) -> Roof | None:
    if not gpu.memory_bandwidth:
        return None
    return Roof(gpu.title, float(gpu.memory_bandwidth), gpu.peak_flops, "data sheet")


def _measured(reader: SessionReader) -> Roof | None:
    rows = reader.rows(CardCeiling)
    last: dict[str, CardCeiling] = {
        row.kind: row for row in rows if row.device == rows[-1].device and row.rate > 0
    }
    if "memory" not in last:
        return None
    device = last["memory"].device
    hows = dict.fromkeys(row.how for row in last.values())
    peaks = {kind: row.rate for kind, row in last.items() if kind != "memory"}
    return Roof(
        "this CPU" if device == "cpu" else device,
        last["memory"].rate,
        peaks,
        "measured",
        ", ".join(hows),
    )


NO_BYTES = "how many bytes it moves is not known"
NO_FLOPS = "no operations are counted (only those of matrix products and convolutions are)"
NO_TIME = "it was not timed, and nothing is known of the machine"
NO_PEAK = "nothing is known of the machine's arithmetic with {kind}"


MEASURED = ("in a profile", "in a call", "alone")


@dataclass(frozen=True, slots=True)
class KernelPoint:
    """A kernel with what it does, all of its calls together."""

    cost: KernelCost
    size_bytes: int
    """-1 where it is not known."""
    flops: int
    """0 or less where none are counted."""
    kind: str
    """Type of number, which says whose peak counts: ``fp32``, ``bf16``."""
    time_s: float
    time_kind: TimeKind
    most_flops_per_s: float
    """The roof above it; 0 where it is not known."""
    missing: str
    """Why it has no point; empty where it has one."""

    @property
    def is_measured(self) -> bool:
        return self.time_kind in MEASURED

    @property
    def intensity(self) -> float:
        """Return operations a byte; 0 where they are not known."""
        return self.flops / self.size_bytes if self.flops > 0 and self.size_bytes > 0 else 0.0

    @property
    def flops_per_s(self) -> float:
        """Return operations a second, as measured, else the most that the roof allows; 0 for
        neither.
        """
        if self.is_measured:
            return max(0, self.flops) / self.time_s if self.time_s > 0 else 0.0
        return self.most_flops_per_s

    @property
    def bytes_per_s(self) -> float:
        """Return bytes a second where it was measured; else 0."""
        if self.is_measured and self.time_s > 0:
            return max(0, self.size_bytes) / self.time_s
        return 0.0

    @property
    def of_roof(self) -> float:
        """Return which part of the roof it reaches; 0 where it was not measured. It may be above 1:
        what lies in caches is moved faster than memory moves it.
        """
        if self.is_measured and self.most_flops_per_s:
            return self.flops_per_s / self.most_flops_per_s
        return 0.0


@dataclass(frozen=True, slots=True)
class KernelRoofline:
    """All kernels, and the roof."""

    roof: Roof | None
    points: Sequence[KernelPoint]
    """Those with a point first, the most expensive first; then the others in the order they run."""

    @property
    def drawn(self) -> list[KernelPoint]:
        return [point for point in self.points if not point.missing]

    @property
    def reasons(self) -> dict[str, int]:
        """Return why kernels have no point → how many, the most frequent first."""
        return dict(Counter(point.missing for point in self.points if point.missing).most_common())

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of number that the points are of, whose roofs are drawn."""
        return list(dict.fromkeys(point.kind for point in self.drawn))


@dataclass(slots=True)
class _Work:
    """What the steps of one kernel in a ledger come to."""

    size_bytes: int = 0
    flops: int = 0


def kernel_roofline(reader: SessionReader) -> KernelRoofline:
    """Return the kernels of all variants in use."""
    found = roof(reader)
    done = _work_in_a_call(reader)
    points = [
        _point(reader, found, cost, done.get(cost.use.kernel.id)) for cost in kernel_costs(reader)
    ]
    drawn = sorted(
        (point for point in points if not point.missing), key=lambda point: -point.time_s
    )
    return KernelRoofline(found, [*drawn, *(point for point in points if point.missing)])


def _point(
    reader: SessionReader, found: Roof | None, cost: KernelCost, work: _Work | None
) -> KernelPoint:
    kernel, calls = cost.use.kernel, cost.use.calls
    size_bytes, flops = cost.size_bytes, kernel.estimated_flops * calls
    if work and cost.time_kind == "in a call":
        size_bytes, flops = work.size_bytes or size_bytes, work.flops or flops
    kind = kind_of_inputs(reader, kernel) if flops > 0 else "fp32"
    intensity = flops / size_bytes if flops > 0 and size_bytes > 0 else 0.0
    most = found.flops_at(intensity, kind) if found else 0.0
    time_s = cost.time_s / cost.runs
    is_measured = cost.time_kind in MEASURED and time_s > 0
    missing = _missing(
        size_bytes, flops, has_time=is_measured or most > 0, kind=kind if found else ""
    )
    return KernelPoint(cost, size_bytes, flops, kind, time_s, cost.time_kind, most, missing)


def _missing(size_bytes: int, flops: int, *, has_time: bool, kind: str) -> str:
    if size_bytes <= 0:
        return NO_BYTES
    if flops <= 0:
        return NO_FLOPS
    if not has_time:
        return NO_PEAK.format(kind=kind) if kind else NO_TIME
    return ""


def _work_in_a_call(reader: SessionReader) -> dict[int, _Work]:
    """Return what each kernel moved and did in the session's last ledger, by the id of the
    kernel.
    """
    calls = [row.id for row in reader.rows(model.LedgerCall) if row.call_s > 0]
    kernels = lines_of_calls(reader) if calls else {}
    found: dict[int, _Work] = {}
    for step in reader.rows(model.LedgerStep, call=calls[-1]) if calls else ():
        kernel = kernels.get((step.compilation, step.direction, step.line))
        if kernel and step.kind in ("kernel", "library"):
            work = found.setdefault(kernel, _Work())
            work.size_bytes += max(0, step.moved_bytes)
            work.flops += max(0, step.flops)
    return found
