"""How much of a call its kernels and library calls are, without accounting for the rest of it."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from fx_explorer.capture.inductor.wrapper_clock import PART, WRAPPER, WrapperClock
from fx_explorer.instruments.bench.measure.work import Call, device_times
from fx_explorer.model.rows.measured import NOT_KNOWN

CALLS, LEAST_CALLS, MAX_S = 40, 3, 10.0
"""So many calls, fewer where they would take longer."""

Tick = tuple[float, str, int]
"""Seconds, kind, and position of the part."""


def kernel_seconds(call: Call, is_gpu: bool, call_s: float) -> float:
    """Return the seconds of a call that kernels and library calls take, on a GPU those that it
    computes; -1 where the compiled program has no generated wrappers, or calls take too long to
    make enough of them. ``call_s`` is how long one takes.
    """
    ticks: list[Tick] = []
    clock = WrapperClock(ticks.append)
    if not any(part.kind == "call" for part in clock.parts):
        return float(NOT_KNOWN)
    calls = min(CALLS, int(MAX_S / max(call_s, 1e-7)))
    if calls < LEAST_CALLS or (is_gpu and calls < CALLS):
        return float(NOT_KNOWN)
    if is_gpu:
        return device_times(clock, call).busy_s
    found = []
    with clock.on():
        for _ in range(calls):
            ticks.clear()
            call()
            found.append(_in_calls(ticks, clock))
    return median(found) if any(found) else float(NOT_KNOWN)


def _in_calls(ticks: list[Tick], clock: WrapperClock) -> float:
    """Return the seconds between the ticks that begin a call and those behind them."""
    # A wrapper that another one calls begins right behind the call: what it does is its own.
    steps = (
        (later - earlier, part, following)
        for (earlier, kind, part), (later, following, _) in pairwise(ticks)
        if kind == PART
    )
    return sum(
        took_s
        for took_s, part, following in steps
        if clock.parts[part].kind == "call" and following != WRAPPER
    )
