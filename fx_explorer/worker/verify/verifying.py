"""Holding a changed program, compiled, against the original one, run without torch.compile (``CaptureRequest.verify``).

Three processes build the target and make the same calls in the same order: the original, the changed program as it is
captured, whose graphs are run by PyTorch's own operators unless they are built (``--build``), and the changed program with its
code built (``built.py``); where that one differs, a fourth is the original with its code built. All but the second are children
of the worker, forked before anything of the user's is imported: so they share nothing but the seeds.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import FrameType, ModuleType
from typing import Any, Protocol

import torch

from fx_explorer.model import CaptureRequest, Verification
from fx_explorer.worker.ending.explaining import one_line
from fx_explorer.worker.target import calling
from fx_explorer.worker.target.fresh_inputs import Call, calls
from fx_explorer.worker.target.place import Place
from fx_explorer.worker.target.target import Target, find_target
from fx_explorer.worker.users_code import users_code
from fx_explorer.worker.verify.comparing_calls import add_built, compared
from fx_explorer.worker.verify.observed.observing import Observation, Observer, seed
from fx_explorer.worker.verify.observed.outside import Hidden
from fx_explorer.worker.verify.observed.ways_taken import WaysTaken
from fx_explorer.worker.verify.original import ChildProgram

LONGER, LONG_S = 10, 5.0
"""A call may take this many times as long as the first one, and so many seconds."""

COMPILES_LONG_S = 30.0
"""A program that took so long to be compiled is not compiled anew for other sizes."""

MOST_RECOMPILES = 64
"""Calls with other inputs may each be compiled anew: behind the usual limit they would run without being compiled."""


class Verifier(calling.Caller, Protocol):
    """The job this is done for."""

    place: Place


class Built(Protocol):
    """The changed program, or the original, with its code built (built.py)."""

    def begin(self) -> None: ...

    def result(self) -> dict[str, Any]: ...


class Original(ChildProgram):
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
        return read_result(self, "what the original program gave")


def read_result(child: ChildProgram, what: str) -> dict[str, Any]:
    try:
        result: dict[str, Any] = torch.load(child.file, weights_only=True)
    except Exception as error:  # noqa: BLE001 - ours; the changed program must not be blamed
        return {"problem": f"{what} cannot be read: {one_line(error)}"}
    return result


def _original_result(place: Place, request: CaptureRequest) -> dict[str, Any]:
    torch.compiler.set_stance("force_eager")
    hidden, ways = Hidden(), WaysTaken(request.overlay)

    @contextlib.contextmanager
    def watched() -> Iterator[None]:
        with hidden.watched(), ways.watched():
            yield

    try:
        seed(0)
        target, train = calling.prepared(find_target(place, request, lambda activity: None), request)
        observer = Observer(target, train, request.train is not False, users_code(place, request), watched)
        state = observer.state_at_first
        first, *others = calls(target.arguments)
        began = time.monotonic()
        seen: list[Observation | None] = [observer.first(target.callable, first.words, first.arguments)]
        limit_s = LONGER * (time.monotonic() - began) + LONG_S
        seen += [_unless_endless(observer, target, call, limit_s) for call in others]
    except Exception as error:  # noqa: BLE001 - the user's program may raise anything; it is told
        return {"problem": f"the original program raises when it runs without torch.compile: {one_line(error)}"}
    return {
        "state": state,
        "names": observer.names_at_first,
        "seen": [one and one.plain() for one in seen],
        "hidden": list(hidden.found),
        "not reached": ways.not_taken(),
        "is_compiled": calling.is_compiled(target.callable),
    }


def _unless_endless(observer: Observer, target: Target, call: Call, limit_s: float) -> Observation | None:
    """None when it takes much longer than the example inputs did: a loop that waits for a value may wait for ever."""
    with _stopped_after(limit_s):
        return observer.again(target.callable, call.words, call.arguments, going_on=call.goes_on)
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


def call_and_verify(
    target: Target, job: Verifier, original: Original, built: Built, built_original: Built, stop_recording: Callable[[], None]
) -> Verification:
    """Call the compiled target as ``calling.call_target`` does, then with other inputs, and compare each call.
    ``built_original`` begins where the built code differs, to tell whether that of the original does too.

    Only the first call is recorded: graphs and breaks are counted for the example inputs, as in any capture.
    """
    request = job.request
    target, train = calling.prepared(target, request)
    job.describe(target, train)
    observer = Observer(target, train, request.train is not False, users_code(job.place, request))
    before = original.result()
    if "problem" in before:
        return nothing_compared(before["problem"])
    built.begin()
    # What the original compiles by itself is left to the changed program too, which may compile another part of it.
    compiled = target.callable if before["is_compiled"] else calling.compile_target(target, job)
    observer.set_state(before["state"])
    first, *others = calls(target.arguments)
    job.say(f"calling {target.name} with {target.arguments.describe()} from {target.arguments.origin}")
    began = time.monotonic()
    seen: list[Observation | None] = [observer.first(compiled, first.words, first.arguments)]
    takes_long = time.monotonic() - began > COMPILES_LONG_S
    stop_recording()
    with _as_captured(request):
        for call, one in zip(others, before["seen"][1:], strict=True):
            if one is None or (takes_long and call.has_other_sizes):
                observer.leave_out()
                seen.append(None)
                continue
            job.say(f"comparing: calling {target.name} with {call.words}")
            seen.append(observer.again(compiled, call.words, call.arguments, going_on=call.goes_on))
    words = [call.words for call in (first, *others)]
    observed = [one.plain() if one else None for one in seen]
    comparison = compared(before, observed, observer.names_at_first, words, is_built=request.build)
    if not comparison.differences:
        job.say("comparing: waiting for the built code")
        add_built(comparison, before, built.result(), words, lambda: _begun(job, built_original))
    return comparison.row([one.call for one in seen if one])


def _begun(job: Verifier, built_original: Built) -> dict[str, Any]:
    job.say("comparing: building the original too")
    built_original.begin()
    return built_original.result()


def nothing_compared(problem: str) -> Verification:
    return Verification(0, False, False, (), {}, 0.0, "", (), (), (), problem)


def _as_captured(request: CaptureRequest) -> AbstractContextManager[object]:
    """What a call compiles anew is compiled as the first was, only unrecorded."""
    stack = contextlib.ExitStack()
    stack.enter_context(recompiling_often())
    if not request.build:
        from fx_explorer.capture.inspecting import inspecting

        stack.enter_context(inspecting())
    return stack


def recompiling_often() -> AbstractContextManager[object]:
    from torch._dynamo import config

    limit: Any = config.recompile_limit
    return config.patch(recompile_limit=max(limit, MOST_RECOMPILES))


def users_modules(place: Place, request: CaptureRequest) -> list[ModuleType]:
    """The target's and those that are changed, with what lies beside them, and the user's other ones."""
    return users_code(place, request).modules()
