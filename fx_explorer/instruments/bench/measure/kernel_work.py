"""This module measures the work of generated wrappers in a call: bytes of their tensors,
operations, the GPU's time for each part, and the share of kernels and library calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.flop_counter import FlopCounterMode

from fx_explorer.capture.inductor.wrapper_clock import PART, WRAPPER, WrapperClock
from fx_explorer.capture.torch_compat.shared_names import tree_leaves
from fx_explorer.capture.torch_flops import formulas
from fx_explorer.model.rows.measured import NOT_KNOWN

WARM_UP_CALLS, DEVICE_CALLS = 5, 30

_PART = "fx-explorer part "

Call = Callable[[], object]


@dataclass
class WrapperWork:
    """The work of one part of a wrapper in one call, added up over all its passes."""

    moved_bytes: int = 0
    flops: int = NOT_KNOWN


def work_of_parts(clock: WrapperClock, call: Call) -> dict[int, WrapperWork]:
    """Return part → its work, measured in one call."""
    by_part: dict[int, WrapperWork] = {}

    def seen(part: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> object:
        work = by_part.setdefault(part, WrapperWork())
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if _is_generated(function):  # a generated kernel: nothing that could be counted
            result = function(*args, **kwargs)
        else:
            with FlopCounterMode(display=False, custom_mapping=formulas()) as counter:
                result = function(*args, **kwargs)
            flops = counter.get_total_flops()
            if flops:
                work.flops = max(work.flops, 0) + flops
        made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        work.moved_bytes += _bytes([*given, *made])
        return result

    with clock.seeing(seen):
        call()
    return by_part


def _is_generated(function: object) -> bool:
    name = getattr(function, "__name__", "")
    return (
        hasattr(function, "autotune_to_one_config")
        or name in ("kernel", "kernel_call")
        or "cpp_fused" in name
    )


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of tensors, each place in memory counted once."""
    places = {
        (tensor.data_ptr(), tensor.shape): tensor.numel() * tensor.element_size()
        for tensor in tensors
    }
    return sum(places.values())


@dataclass(frozen=True, slots=True)
class DeviceTimes:
    """Seconds of a call on the GPU."""

    of_parts: dict[int, float]
    busy_s: float


def device_times(clock: WrapperClock, call: Call) -> DeviceTimes:
    """Return how long the GPU computes for each part, and in all, by torch's profiler."""

    def seen(part: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> object:
        with record_function(f"{_PART}{part}"):
            return function(*args, **kwargs)

    with clock.seeing(seen):
        for _ in range(WARM_UP_CALLS):
            call()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
            for _ in range(DEVICE_CALLS):
                call()
            torch.cuda.synchronize()
    parts: dict[str, list[float]] = {}
    kernels: dict[str, list[float]] = {}
    for event in profiled.events():
        is_part = event.name.startswith(_PART)
        if event.device_type == torch.autograd.DeviceType.CUDA:
            if not is_part:
                kernels.setdefault(event.name, []).append(event.time_range.elapsed_us() / 1e6)
        elif is_part:
            parts.setdefault(event.name, []).append(event.device_time_total / 1e6)
    of_parts = {
        int(name.removeprefix(_PART)): _of_a_call(times_s) for name, times_s in parts.items()
    }
    return DeviceTimes(of_parts, sum(map(_of_a_call, kernels.values())))


def _of_a_call(times_s: list[float]) -> float:
    """Return the median seconds of a call, because the first of many run at a lower clock rate."""
    return median(times_s) * len(times_s) / DEVICE_CALLS


CALLS, LEAST_CALLS, MAX_S = 40, 3, 10.0
"""Maximum and minimum number of calls, and the maximum time in seconds: fewer calls are made where
they take longer.
"""

Tick = tuple[float, str, int]
"""Seconds, kind, and position of the part."""


def kernel_seconds(call: Call, is_gpu: bool, call_s: float) -> float:
    """Return the seconds of a call in kernels and library calls; on a GPU, those in which it
    computes. -1 where the compiled program has no generated wrappers, or calls take too long for
    enough of them. ``call_s`` is the time of one call.
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
    times_s = []
    with clock.on():
        for _ in range(calls):
            ticks.clear()
            call()
            times_s.append(_in_calls(ticks, clock))
    return median(times_s) if any(times_s) else float(NOT_KNOWN)


def _in_calls(ticks: list[Tick], clock: WrapperClock) -> float:
    """Return the seconds between the ticks that begin a call and the ticks that follow them."""
    # A wrapper that another one calls begins right behind the call: what it does is its own.
    times_s = []
    for (earlier, kind, part), (later, following, _) in pairwise(ticks):
        is_call = kind == PART and clock.parts[part].kind == "call"
        if is_call and following != WRAPPER:
            times_s.append(later - earlier)
    return sum(times_s)
