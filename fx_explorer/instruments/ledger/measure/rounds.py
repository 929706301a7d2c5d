"""Rounds of calls that take turns: without a clock, with clocks, uncompiled, and without guards."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median

import torch

from fx_explorer.capture.dynamo.breaks.frame_clock import FrameClock
from fx_explorer.capture.inductor.wrapper_clock import WrapperClock
from fx_explorer.instruments.bench.measure.calls import Caller
from fx_explorer.instruments.ledger.measure.one_call import (
    Call,
    marked_call,
    times_of,
    waited_for,
    without_collections,
)
from fx_explorer.instruments.ledger.measure.timeline import RawTick

ROUND_S = 0.04
MIN_ROUNDS, MAX_ROUNDS = 6, 30
MAX_S = 60.0
"""After so many seconds, and the least rounds, no further one begins."""

MAX_CALLS = 2000
"""Calls of each kind in a round."""

TRIED = 3


@dataclass
class Rounds:
    """Seconds of each call, round after round, and the ticks of the calls with clocks."""

    plain_s: list[list[float]] = field(default_factory=list)
    uncompiled_s: list[list[float]] = field(default_factory=list)
    unguarded_s: list[list[float]] = field(default_factory=list)
    clocked: list[list[RawTick]] = field(default_factory=list)


def calls_of(rounds: list[list[float]]) -> list[float]:
    """Return the seconds of all calls."""
    return [took_s for one in rounds for took_s in one]


def medians(rounds: list[list[float]]) -> tuple[float, ...]:
    """Return the median of each round."""
    return tuple(median(one) for one in rounds)


@dataclass(frozen=True)
class Clocks:
    """The clocks in Dynamo's bytecode and in generated wrappers."""

    frames: FrameClock
    wrappers: WrapperClock

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let both run; outside they stand still."""
        self.frames.is_running = True
        try:
            with self.wrappers.on():
                yield
        finally:
            self.frames.is_running = False
            self.frames.take_raw()


class TurnTaker:
    """Makes the rounds of one program."""

    def __init__(
        self,
        caller: Caller,
        plain: Caller,
        clocks: Clocks,
        is_gpu: bool,
        say: Callable[[str], object],
    ) -> None:
        """``plain`` calls the program as it is uncompiled."""
        self._caller = caller
        self._clocks = clocks
        self._is_gpu = is_gpu
        self._say = say
        self._call = waited_for(caller, is_gpu)
        self._uncompiled = waited_for(plain, is_gpu)

    def try_uncompiled(self) -> bool:
        """Call it uncompiled. Raises whatever it raises."""
        with torch.compiler.set_stance("force_eager"):
            for _ in range(TRIED):
                self._uncompiled()
        return True

    def try_unguarded(self) -> bool:
        """Call it without guards. Raises whatever it raises, as when torch would compile again."""
        with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
            self._call()
        return True

    def rounds(self, *, uncompiled: bool, unguarded: bool) -> Rounds:
        """Make the rounds, with calls of these kinds too."""
        found, calls = Rounds(), self._calls_of_a_round()
        until = time.perf_counter() + MAX_S
        for number in range(MAX_ROUNDS):
            if number >= MIN_ROUNDS and time.perf_counter() > until:
                break
            if number in (0, MIN_ROUNDS):
                self._say("measuring calls with and without clocks, and uncompiled ones")
            found.plain_s.append(times_of(self._call, calls))
            found.clocked += self._clocked(calls)
            if uncompiled:
                with torch.compiler.set_stance("force_eager"):
                    found.uncompiled_s.append(times_of(self._uncompiled, calls))
            if unguarded:
                with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
                    found.unguarded_s.append(times_of(self._call, calls))
        return found

    def _calls_of_a_round(self) -> int:
        last_s = min(times_of(self._call, TRIED))
        return max(1, min(MAX_CALLS, int(ROUND_S / max(last_s, 1e-7))))

    def _clocked(self, calls: int) -> list[list[RawTick]]:
        found, frames = [], self._clocks.frames
        with self._clocks.running(), without_collections():
            for _ in range(calls):
                marked_call(self._caller, frames.add, self._is_gpu)
                found.append(frames.take_raw())
        return found


def call_once(call: Call, clocks: Clocks) -> None:
    """Make a call with clocks, while the one in bytecode keeps the locals of each frame."""
    clocks.frames.is_looking = True
    try:
        with clocks.running():
            call()
    finally:
        clocks.frames.is_looking = False
