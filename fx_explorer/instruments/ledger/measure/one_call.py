"""One call of the program with marks between its parts, and rounds of such calls."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from fx_explorer.instruments.bench.measure.calls import Caller
from fx_explorer.instruments.ledger.measure.timeline import (
    BACKWARD,
    CLEAR,
    FORWARD,
    LOSS,
    OVER,
    RELEASE,
    WAIT,
    RawTick,
)

Add = Callable[[RawTick], object]
Call = Callable[[], object]


def marked_call(caller: Caller, add: Add, is_gpu: bool) -> None:
    """Make one call, a training step where it trains, and add a tick between its parts."""
    now = time.perf_counter
    if caller.trains:
        add((now(), CLEAR, 0))
        caller.clear()
    add((now(), FORWARD, 0))
    output = caller.forward()
    if caller.trains:
        add((now(), LOSS, 0))
        loss = caller.loss(output)
        add((now(), BACKWARD, 0))
        loss.backward()
        del loss
    if is_gpu:
        add((now(), WAIT, 0))
        torch.cuda.synchronize()
    add((now(), RELEASE, 0))
    del output
    add((now(), OVER, 0))


def waited_for(caller: Caller, is_gpu: bool) -> Call:
    """Return a call without marks; on a GPU it is over when the GPU has finished."""

    def call() -> None:
        caller.call()
        torch.cuda.synchronize()

    return call if is_gpu else caller.call


def times_of(call: Call, calls: int) -> list[float]:
    """Return the seconds of each of some calls. Reading the clock takes a part of them that is about
    0.05 µs.
    """
    now = time.perf_counter
    found = []
    with without_collections():
        for _ in range(calls):
            began = now()
            call()
            found.append(now() - began)
    return found


@contextmanager
def without_collections() -> Iterator[None]:
    """Keep Python's garbage collector from running meanwhile, as ``timeit`` does."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
