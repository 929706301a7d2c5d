"""This module writes measured times in words, and has the rule for when they say something.

Two times differ where an interval of their ratio or difference, round by round, does not hold "no
difference" (``instruments/bench/interval.py``): that takes 6 rounds. Two times that were each
measured once are never called better or worse. The parts of a whole are known only as well as they
add up to it: the difference may belong to any of them, so no part smaller than it is named. Where
that difference, or the range of the middle half, is more than ``MAX_SPREAD`` of the whole, no parts
are shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.session import SessionReader

Measurements = dict[model.Measured, model.Measurement]


def measured(reader: SessionReader, variant: model.Compilation) -> Measurements:
    """Return the last measurement of each kind; empty without any."""
    return {row.what: row for row in reader.rows(model.Measurement, compilation=variant.id)}


def with_spread(median_s: float, iqr_s: float) -> str:
    """Return ``1.23 ms ± 45 µs``: the median, and half the range of the middle half."""
    return f"{run_time(median_s)} ± {run_time(iqr_s / 2)}"


def run_time(duration_s: float) -> str:
    """Return three digits of a time that may be short: ``12.3 µs``, ``1.23 ms``, ``0.123 s``."""
    if duration_s < 1e-3:
        return f"{duration_s * 1e6:.3g} µs"
    if duration_s < 0.1:
        return f"{duration_s * 1e3:.3g} ms"
    return f"{duration_s:.3g} s"


MAX_SPREAD = 0.3
"""Largest share of a time that may vary from call to call, or be missing from the sum of its parts.
Above it, the parts are not shown.
"""

IDLE = "measure again when the machine is idle"


def parts_are_known(whole_s: float, parts_s: float, iqr_s: float) -> bool:
    """Return whether the parts of a measured time explain the whole: their sum ``parts_s`` is near
    ``whole_s``, and the whole is steady. ``iqr_s`` is the range of the middle half of its times.
    All are seconds.
    """
    return max(abs(whole_s - parts_s), iqr_s) <= MAX_SPREAD * whole_s


# at graph breaks


@dataclass(frozen=True, slots=True)
class RunTime:
    """The time of one call at a break, from leaving the graph before it to entering the next
    graph.
    """

    median_s: float
    iqr_s: float
    """Range of the middle half, in seconds."""
    call: model.CallTime
    """The calls in which it was measured."""

    @property
    def description(self) -> str:
        """Return ``4.43 ms ± 130 µs of a call of 34.6 ms (median of 55 calls on cpu)``."""
        whole = (
            f"a call of {run_time(self.call.median_s)} (median of {self.call.runs:,} calls on "
            f"{self.call.device})"
        )
        varies = f", of widely differing times: {IDLE}" if self.varies else ""
        return f"{with_spread(self.median_s, self.iqr_s)} of {whole}{varies}"

    @property
    def varies(self) -> bool:
        return self.iqr_s > MAX_SPREAD * self.median_s


def call_time(reader: SessionReader) -> model.CallTime | None:
    """Return the last measurement of calls; None if breaks were not measured."""
    return next(reversed(reader.rows(model.CallTime)), None)


def break_times(reader: SessionReader) -> dict[int, RunTime]:
    """Return GraphBreak → the time of calls there in the last measurement."""
    call = call_time(reader)
    if call is None:
        return {}
    rows = reader.rows(model.BreakTime, call=call.id)
    return {row.graph_break: RunTime(row.median_s, row.iqr_s, call) for row in rows}
