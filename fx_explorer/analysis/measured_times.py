"""Measured times in words: how long variants run, and what calls spend at graph breaks."""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.session import SessionReader

Measurements = dict[model.Measured, model.Measurement]


def measured(reader: SessionReader, variant: model.Compilation) -> Measurements:
    """Return the last measurement of each kind; empty when nothing was measured."""
    return {row.what: row for row in reader.rows(model.Measurement, compilation=variant.id)}


def with_spread(median_s: float, iqr_s: float) -> str:
    """Return ``1.23 ms ± 45 µs``: the median, and half the range of the middle half."""
    return f"{run_time(median_s)} ± {run_time(iqr_s / 2)}"


def run_time(duration_s: float) -> str:
    """Return three digits of a time that may be short: ``12.3 µs``, ``1.23 ms``, ``0.123 s``."""
    scale, unit = (
        (1e6, "µs") if duration_s < 1e-3 else (1e3, "ms") if duration_s < 0.1 else (1, "s")
    )
    return f"{duration_s * scale:.3g} {unit}"


# at graph breaks

MAX_SPREAD = 0.5
"""Share of the median. A wider middle half is reported."""


@dataclass(frozen=True, slots=True)
class RunTime:
    """The time one call spends at a break, from leaving the graph before it to entering the graph
    behind it.
    """

    median_s: float
    iqr_s: float
    """Range of the middle half, in seconds."""
    call: model.CallTime
    """The calls that it was measured in."""

    @property
    def in_words(self) -> str:
        """Return ``4.43 ms ± 130 µs of a call of 34.6 ms (median of 55 calls on cpu)``."""
        whole = f"a call of {run_time(self.call.median_s)} (median of {self.call.runs:,} calls on {self.call.device})"
        varies = (
            ", of widely differing times: measure again when the machine is idle"
            if self.varies
            else ""
        )
        return f"{with_spread(self.median_s, self.iqr_s)} of {whole}{varies}"

    @property
    def varies(self) -> bool:
        return self.iqr_s > MAX_SPREAD * self.median_s


def call_time(reader: SessionReader) -> model.CallTime | None:
    """Return the last measurement of calls; None when breaks were not measured."""
    return next(reversed(reader.rows(model.CallTime)), None)


def break_times(reader: SessionReader) -> dict[int, RunTime]:
    """Return GraphBreak → what calls spent there in the last measurement."""
    call = call_time(reader)
    rows = reader.rows(model.BreakTime, call=call.id) if call else []
    return {row.graph_break: RunTime(row.median_s, row.iqr_s, call) for row in rows} if call else {}
