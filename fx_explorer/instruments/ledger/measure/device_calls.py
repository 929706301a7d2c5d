"""Calls with clocks on the host, while torch's profiler notes when the GPU does what.

Only the GPU's side is recorded: to record the host's operators, too, would make the gaps several
times as long. Times of both sides are brought to one clock by reading both of the host's at once.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from fx_explorer.instruments.bench.measure.calls import Caller
from fx_explorer.instruments.ledger.measure.gaps import DeviceCall, DeviceWork
from fx_explorer.instruments.ledger.measure.one_call import marked_call, without_collections
from fx_explorer.instruments.ledger.measure.rounds import Clocks
from fx_explorer.instruments.ledger.measure.timeline import RawTick

WARM_UP_CALLS, CALLS = 5, 30

NO_WORK = ("sync", "event", "wait", "annotation", "request")
"""Words in the names of what the profiler shows on the GPU's side and is no work of its."""


def device_calls(caller: Caller, clocks: Clocks) -> list[DeviceCall]:
    """Return some calls with what the GPU does in each."""
    calls: list[list[RawTick]] = []
    with (
        clocks.running(),
        without_collections(),
        profile(activities=[ProfilerActivity.CUDA]) as profiled,
    ):
        zero_ns = _unix_of_zero_ns()
        for _ in range(WARM_UP_CALLS + CALLS):
            marked_call(caller, clocks.frames.add, True)
            calls.append(clocks.frames.take_raw())
    events = profiled.profiler.kineto_results.events() if profiled.profiler else []
    work = [_work(event, zero_ns) for event in events if _is_work(event)]
    return assigned(calls[WARM_UP_CALLS:], sorted(work, key=lambda work: work.begin_s))


def assigned(calls: list[list[RawTick]], work: list[DeviceWork]) -> list[DeviceCall]:
    """Give each work to the call in which it begins: a call ends when the GPU has finished."""
    begins = [ticks[0][0] for ticks in calls]
    of_call: list[list[DeviceWork]] = [[] for _ in calls]
    for device_work in work:
        at = bisect_right(begins, device_work.begin_s) - 1
        if at >= 0 and device_work.begin_s < calls[at][-1][0]:
            of_call[at].append(device_work)
    return [DeviceCall(ticks, own) for ticks, own in zip(calls, of_call, strict=True)]


def _unix_of_zero_ns() -> int:
    """Return the time of day, in nanoseconds, at which ``perf_counter`` was 0. Of several readings
    the closest: what comes between the two clocks makes it later.
    """
    return min(time.time_ns() - time.perf_counter_ns() for _ in range(20))


def _is_work(event: Any) -> bool:
    is_on_device = event.device_type() == torch.autograd.DeviceType.CUDA
    name = event.name().lower()
    return (
        is_on_device
        and event.duration_ns() > 0
        and not (" " in name and any(word in name for word in NO_WORK))
    )


def _work(event: Any, zero_ns: int) -> DeviceWork:
    begin_s = (event.start_ns() - zero_ns) / 1e9
    return DeviceWork(event.name(), begin_s, begin_s + event.duration_ns() / 1e9)
