"""What bounds the kernels of a machine: the bytes it moves and the operations it does in a second,
from the data sheet of a GPU, or as they were measured of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.analysis.whole_session import NO_PROGRAM, is_log
from fx_explorer.instruments.kernels.card import card, not_described
from fx_explorer.model import CardCeiling, Gpu
from fx_explorer.session import SessionReader

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
