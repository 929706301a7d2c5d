"""Holding a changed program, compiled, against the original one, run without torch.compile (``CaptureRequest.verify``).

The original runs in a child of the worker, forked before anything of the user's is imported: so the two share nothing but
the seeds. Both build the target, and make the same calls in the same order, each from the same state.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any, Protocol

import torch

from fx_explorer.model import CaptureRequest, Verification
from fx_explorer.worker import calling
from fx_explorer.worker.comparing import BUILT_FACTOR, Comparison
from fx_explorer.worker.explaining import one_line
from fx_explorer.worker.fresh_inputs import fresh_inputs
from fx_explorer.worker.inputs import Arguments
from fx_explorer.worker.observing import Observation, Observer, seed
from fx_explorer.worker.original import OriginalProcess
from fx_explorer.worker.place import Place
from fx_explorer.worker.target import Target, find_target

LONGER, LONG_S = 10, 5.0
"""A call may take this many times as long as the first one, and so many seconds."""


class Verifier(calling.Caller, Protocol):
    """The job this is done for."""

    place: Place


class Original(OriginalProcess):
    """The target as its files have it, called without torch.compile."""

    def __init__(self, place: Place, request: CaptureRequest) -> None:
        super().__init__(request, lambda: _original_result(place, request))

    def seed(self) -> None:
        """Before the changed program is built: the original was, with the same random numbers."""
        seed(0)

    def result(self) -> dict[str, Any]:
        """Waits for the child. ``problem`` says why there is nothing to compare with."""
        status = self.wait()
        if status:
            return {"problem": f"the original program ended with status {status} when it ran without torch.compile"}
        try:
            result: dict[str, Any] = torch.load(self.file, weights_only=True)
        except Exception as error:  # noqa: BLE001 - ours; the changed program must not be blamed
            return {"problem": f"what the original program gave cannot be read: {one_line(error)}"}
        return result


def _original_result(place: Place, request: CaptureRequest) -> dict[str, Any]:
    torch.compiler.set_stance("force_eager")
    try:
        seed(0)
        target, train = calling.prepared(find_target(place, request, lambda activity: None), request)
        observer = Observer(target, train, request.train is not False, users_modules(place, request))
        state = observer.state_at_first
        first, *others = fresh_inputs(target.arguments)
        began = time.monotonic()
        seen: list[Observation | None] = [observer.first(target.callable, *first)]
        limit_s = LONGER * (time.monotonic() - began) + LONG_S
        seen += [_unless_endless(observer, target, inputs, limit_s) for inputs in others]
    except Exception as error:  # noqa: BLE001 - the user's program may raise anything; it is told
        return {"problem": f"the original program raises when it runs without torch.compile: {one_line(error)}"}
    return {"state": state, "seen": [one and one.plain() for one in seen], "is_compiled": calling.is_compiled(target.callable)}


def _unless_endless(observer: Observer, target: Target, inputs: tuple[str, Arguments], limit_s: float) -> Observation | None:
    """None when it takes much longer than the example inputs did: a loop that waits for a value may wait for ever."""
    with _stopped_after(limit_s):
        return observer.again(target.callable, *inputs)
    return None


class _TooLong(BaseException):
    """Not an Exception, so that the program does not catch it."""


@contextlib.contextmanager
def _stopped_after(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with contextlib.suppress(_TooLong):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def call_and_verify(target: Target, job: Verifier, original: Original, stop_recording: Callable[[], None]) -> Verification:
    """Call the compiled target as ``calling.call_target`` does, then with other inputs, and compare each call.

    Only the first call is recorded: graphs and breaks are counted for the example inputs, as in any capture.
    """
    request = job.request
    target, train = calling.prepared(target, request)
    job.describe(target, train)
    observer = Observer(target, train, request.train is not False, users_modules(job.place, request))
    before = original.result()
    if "problem" in before:
        return nothing_compared(before["problem"])
    # What the original compiles by itself is left to the changed program too, which may compile another part of it.
    compiled = target.callable if before["is_compiled"] else calling.compile_target(target, job)
    observer.set_state(before["state"])
    first, *others = fresh_inputs(target.arguments)
    job.say(f"calling {target.name} with {target.arguments.describe()} from {target.arguments.origin}")
    seen = [observer.first(compiled, *first)]
    stop_recording()
    with _as_captured(request):
        for (words, inputs), one in zip(others, before["seen"][1:], strict=True):
            if one is None:
                observer.leave_out()
                continue
            job.say(f"comparing: calling {target.name} with {words}")
            seen.append(observer.again(compiled, words, inputs))
    comparison = Comparison(BUILT_FACTOR if request.build else 1.0)
    comparison.not_compared += [
        f"a call with {words}, which the original did not end in time"
        for (words, _), one in zip(others, before["seen"][1:], strict=True)
        if one is None
    ]
    for one, other in zip(filter(None, before["seen"]), seen, strict=True):
        comparison.add(one, other.plain())
    return comparison.row([one.call for one in seen])


def nothing_compared(problem: str) -> Verification:
    return Verification(0, False, False, (), {}, 0.0, "", (), (), (), problem)


@contextlib.contextmanager
def _as_captured(request: CaptureRequest) -> Iterator[None]:
    """What a call compiles anew is compiled as the first was, only unrecorded."""
    if request.build:
        yield
        return
    from fx_explorer.capture.inspecting import inspecting

    with inspecting():
        yield


def users_modules(place: Place, request: CaptureRequest) -> list[ModuleType]:
    """The target's and those that are changed, with what lies beside them."""
    target = place.file or getattr(sys.modules.get(place.module), "__file__", None)
    folders = {os.path.dirname(os.path.realpath(path)) for path in [*request.overlay, *([target] if target else [])]}
    files = ((module, getattr(module, "__file__", None)) for module in list(sys.modules.values()))
    return [module for module, file in files if file and os.path.dirname(os.path.realpath(file)) in folders]
