"""How long ways run, where it was measured: two of them side by side, in words."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.session import SessionReader

Measurements = dict[model.Measured, model.Measurement]

_KINDS: dict[model.Measured, str] = {"forward": "running took, forward", "forward+backward": "running took, with backward"}


def measured(reader: SessionReader, way: model.Compilation) -> Measurements:
    """The last measurement of each kind; empty when nobody asked for one."""
    return {row.what: row for row in reader.rows(model.Measurement, compilation=way.id)}


def run_times(reader: SessionReader, left: model.Compilation, right: model.Compilation) -> list[tuple[str, str, str]]:
    """(what, left, right) of each kind that was measured of either."""
    sides = [measured(reader, way) for way in (left, right)]
    return [
        (words, _took(sides[0].get(what)), _took(sides[1].get(what))) for what, words in _KINDS.items() if _any(sides, what)
    ]


def _any(sides: list[Measurements], what: model.Measured) -> bool:
    return any(what in side for side in sides)


def _took(row: model.Measurement | None) -> str:
    """``1.23 ms ± 45 µs``: the median, and half the range of the middle half."""
    return "not measured" if row is None else f"{run_time(row.median_s)} ± {run_time(row.iqr_s / 2)}"


def run_time(duration_s: float) -> str:
    """Three digits of what may be short: ``12.3 µs``, ``1.23 ms``, ``0.123 s``."""
    scale, unit = (1e6, "µs") if duration_s < 1e-3 else (1e3, "ms") if duration_s < 0.1 else (1, "s")
    return f"{duration_s * scale:.3g} {unit}"
