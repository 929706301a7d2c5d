"""How much of what the machine can do a kernel reaches: bytes and operations per second."""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer.instruments.ledger.figures import LedgerEntry, LedgerFigures

GIGA, TERA = 1e9, 1e12


@dataclass(frozen=True, slots=True)
class Rate:
    """What a kernel or library call reaches."""

    bytes_per_s: float
    flops_per_s: float
    """0 where its operations are not counted."""
    of_memory: float
    """Part of the bytes per second of a plain copy on this machine; above 1 where the tensors lie
    in caches. 0 where the machine was not measured.
    """
    of_products: float
    """Part of the operations per second of a large float32 matrix product on this machine; above 1
    for smaller types, and where something else was running while that was measured.
    """

    @property
    def in_words(self) -> str:
        """Return ``12.3 GB/s (48 % of a copy), 0.9 TFLOP/s (85 % of a matrix product)``."""
        if self.bytes_per_s:
            parts = [f"{_three(self.bytes_per_s / GIGA)} GB/s{_of(self.of_memory, 'a copy')}"]
        else:
            parts = []
        if self.flops_per_s:
            rate = self.flops_per_s
            if rate >= TERA:
                shown = f"{_three(rate / TERA)} TFLOP/s"
            else:
                shown = f"{_three(rate / GIGA)} GFLOP/s"
            beyond = " (more than a float32 product reached when it was measured)"
            parts.append(
                shown
                + (beyond if self.of_products > 1 else _of(self.of_products, "a float32 product"))
            )
        return ", ".join(parts)


def rate(figures: LedgerFigures, entry: LedgerEntry) -> Rate | None:
    """Return what a step reaches; None for what moves nothing, or takes no time."""
    step, took_s = entry.step, entry.seconds
    if step.kind not in ("kernel", "library") or took_s <= 0 or step.moved_bytes <= 0:
        return None
    moved, operations = step.moved_bytes / took_s, max(0, step.flops) / took_s
    return Rate(
        moved, operations, _part(figures, "memory", moved), _part(figures, "fp32", operations)
    )


def _part(figures: LedgerFigures, kind: str, reached: float) -> float:
    ceiling = figures.ceilings.get(kind)
    return reached / ceiling.rate if ceiling else 0.0


def _of(part: float, what: str) -> str:
    return f" ({part:.0%} of {what})".replace("%", " %") if part else ""


def _three(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
