"""Compare a changed program, compiled, with the original, run without torch.compile
(``CaptureRequest.verify``).

Four processes build the target and make the same calls in the same order:

- the original without torch.compile;
- the changed program as it is captured; its graphs are run by PyTorch's own operators unless
  they are built (``--build``);
- the changed program without torch.compile (``uncompiled.py``);
- the changed program with its code built (``built.py``). Where it differs, a fifth process builds
  the original too.

Where something differs, the original runs once more (``OriginalAgain``): what is another value in that
run varies by itself, whatever is changed.

All but the second are children of the worker, forked before anything of the user's is imported, so
they share nothing but the seeds.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, Protocol

from fx_explorer.model import CaptureRequest, Verification
from fx_explorer.worker.target import calling
from fx_explorer.worker.target.place import TargetPlace
from fx_explorer.worker.target.target import Target
from fx_explorer.worker.users.users_code import users_code
from fx_explorer.worker.verify.beyond_example import never_tried, planned_calls
from fx_explorer.worker.verify.built import BuiltProgram, recompiling_often
from fx_explorer.worker.verify.comparing_calls import (
    CallsOfTheOriginal,
    add_built,
    add_uncompiled,
)
from fx_explorer.worker.verify.observed.observing import Observation, Observer
from fx_explorer.worker.verify.programs import OtherPrograms

COMPILES_LONG_S = 30.0
"""Seconds. A program that took longer to compile is not compiled anew for other sizes,
gradients or modes.
"""


class VerifyingJob(calling.CallingJob, Protocol):
    """The job that a comparison is made for."""

    place: TargetPlace


def call_and_verify(
    target: Target, job: VerifyingJob, programs: OtherPrograms, stop_recording: Callable[[], None]
) -> Verification:
    """Call the compiled target as ``calling.call_target`` does, then with other inputs, and compare
    each call.

    Only the first call is recorded: graphs and breaks are counted for the example inputs, as in any
    capture.
    """
    request = job.request
    target, train = calling.prepared(target, request)
    job.describe(target, train)
    observer = Observer(target, train, request.train is not False, users_code(job.place, request))
    before = programs.original.result()
    if "problem" in before:
        return nothing_compared(before["problem"])
    programs.uncompiled.begin()
    programs.built.begin()
    # What the original compiles by itself is left to the changed program too, which may compile
    # another part of it.
    compiled = target.callable if before["is_compiled"] else calling.compile_target(target, job)
    observer.set_state(before["state"])
    first, *others = planned_calls(target.arguments, before["ways"])
    job.say(
        f"calling {target.name} with {target.arguments.describe()} from {target.arguments.origin}"
    )
    began = time.monotonic()
    seen: list[Observation | None] = [observer.first(compiled, first.words, first.arguments)]
    takes_long = time.monotonic() - began > COMPILES_LONG_S
    stop_recording()
    with _as_captured(request):
        for call, one in zip(others, before["seen"][1:], strict=True):
            if one is None or (takes_long and call.compiled_anew_for):
                observer.leave_out()
                seen.append(None)
                continue
            job.say(f"comparing: calling {target.name} with {call.words}")
            seen.append(observer.again(compiled, call))
    words = [call.unlike_example or call.words for call in (first, *others)]
    kinds = [call.compiled_anew_for for call in (first, *others)]
    observed = [one.plain() if one else None for one in seen]
    original = CallsOfTheOriginal(before, words, [again.result for again in programs.again])
    comparison = original.compared(observed, observer.names_at_first, is_built=request.build)
    # One difference decides the verdict: then the other programs need not be waited for.
    if not comparison.differences:
        add_uncompiled(comparison, original, programs.uncompiled.result())
    if not comparison.differences:
        job.say("comparing: waiting for the built code")
        add_built(
            comparison,
            original,
            programs.built.result(),
            kinds,
            lambda: _begun(job, programs.built_original),
        )
    comparison.not_tried[:0] = never_tried(target, request.train is not False)
    return comparison.row([one.call for one in seen if one])


def _begun(job: VerifyingJob, built_original: BuiltProgram) -> dict[str, Any]:
    job.say("comparing: building the original too")
    built_original.begin()
    return built_original.result()


def nothing_compared(problem: str) -> Verification:
    """Return a verification that compared nothing, and says why."""
    return Verification(0, False, False, (), {}, 0.0, "", (), (), (), problem)


def _as_captured(request: CaptureRequest) -> AbstractContextManager[object]:
    """Compile what is compiled inside the block as the first call was, without recording it."""
    stack = contextlib.ExitStack()
    stack.enter_context(recompiling_often())
    if not request.build:
        from fx_explorer.capture.inspecting import inspecting

        stack.enter_context(inspecting())
    return stack


def users_modules(place: TargetPlace, request: CaptureRequest) -> list[ModuleType]:
    """Return the user's modules that are imported now, and those of the target and of the changed
    files.
    """
    return users_code(place, request).modules()
