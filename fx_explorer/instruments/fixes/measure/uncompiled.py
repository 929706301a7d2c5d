"""This module runs the programs of a comparison without torch.compile: the original, and the
changed program.

The changed program must be right without torch.compile too.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from types import FrameType
from typing import Any

import torch

from fx_explorer.capture.compiled_inside import is_compiled
from fx_explorer.instruments.fixes.measure.beyond_example import Way, planned_calls, ways_beyond
from fx_explorer.instruments.fixes.measure.branch_coverage import BranchCoverage
from fx_explorer.instruments.fixes.measure.child_program import (
    ChildProgram,
    CountTold,
    ShowCall,
    ignore_call,
    ignore_count,
)
from fx_explorer.instruments.fixes.measure.observing import Lookups, Observation, Observer
from fx_explorer.instruments.fixes.measure.outside import (
    AS_LONG_AS_COMPILING_S,
    HiddenCalls,
    take_free_places,
)
from fx_explorer.model import CaptureRequest
from fx_explorer.program import calling, loading
from fx_explorer.program.calling import without_compiling
from fx_explorer.program.explaining import one_line
from fx_explorer.program.exported_program import find_any_target
from fx_explorer.program.fresh_inputs import PlannedCall
from fx_explorer.program.inputs import Arguments
from fx_explorer.program.place import TargetPlace, users_code
from fx_explorer.program.seeds import seed
from fx_explorer.program.target import Target

LONGER, LONG_S = 10, 5.0
"""Limit of a call's time: this many times as long as the first call, plus so many seconds."""

LONGEST_S = 200.0
"""Seconds that all calls of the changed program may take together."""


class OriginalProgram(ChildProgram):
    """The target as it is in its files, run without torch.compile."""

    def __init__(self, place: TargetPlace, request: CaptureRequest) -> None:
        super().__init__(request, lambda: _original_result(place, request, self.progress.show_call))

    def seed(self) -> None:
        """Seed random numbers before the changed program is built, as was done before the original
        was.
        """
        seed(0)

    def result(self, tell: CountTold = ignore_count) -> dict[str, Any]:
        """Wait for the child and return its observations. ``problem`` says why the comparison
        cannot be made. ``tell`` is called with its progress.
        """
        status = self.wait(tell)
        if status:
            return {
                "problem": (
                    f"the original program ended with status {status} when it ran without "
                    "torch.compile"
                )
            }
        return read_result(self, "the results of the original program")


class OriginalAgain(ChildProgram):
    """The original run once more under other conditions, to find what varies from run to run: it
    reads its clocks later, and its objects lie elsewhere in memory.
    """

    def __init__(
        self, place: TargetPlace, request: CaptureRequest, original: OriginalProgram
    ) -> None:
        super().__init__(
            request,
            lambda: _again_result(place, request, read_result(original, "the original")),
            waits=True,
        )

    def result(self) -> dict[str, Any]:
        """Run the original and return the observations of each call; ``problem`` says why there are
        none.
        """
        self.begin()
        if not self.wait_for(LONGEST_S):
            return {"problem": f"its calls took longer than {LONGEST_S:.0f} s"}
        if self.status:
            return {"problem": f"the process ended with status {self.status}"}
        return read_result(self, "the results of a second run of the original")


class UncompiledProgram(ChildProgram):
    """The changed program, run without torch.compile.

    It begins when the original has ended, and runs beside the capture of the changed program.
    """

    def __init__(
        self, place: TargetPlace, request: CaptureRequest, original: OriginalProgram
    ) -> None:
        self.is_needed = bool(request.overlay)
        """Whether it is run: not where only options of the compiler are changed."""
        super().__init__(
            request,
            lambda: _changed_result(
                place, request, read_result(original, "the original"), self.progress.show_call
            ),
            waits=True,
        )

    def begin(self) -> None:
        if self.is_needed:
            super().begin()

    def result(self, tell: CountTold = ignore_count) -> dict[str, Any]:
        """Return the observations of each call, or ``failed`` (how it failed) or ``problem`` (why
        nothing is known). ``tell`` is called with its progress.

        The result is empty where only options of the compiler are changed.
        """
        if not self.is_needed:
            return {}
        if not self.wait_for(LONGEST_S, tell):
            return {"problem": f"its calls took longer than {LONGEST_S:.0f} s"}
        if self.status:
            return {"failed": f"the process ended with status {self.status}"}
        return read_result(self, "the results of the changed program")


def read_result(child: ChildProgram, what: str) -> dict[str, Any]:
    """Load what ``child`` returned. An unreadable file becomes a ``problem`` that names
    ``what``.
    """
    try:
        result: dict[str, Any] = torch.load(child.file, weights_only=True)
    except Exception as error:  # noqa: BLE001 - ours; the changed program must not be blamed
        return {"problem": f"{what} cannot be read: {one_line(error)}"}
    return result


def _original_result(
    place: TargetPlace, request: CaptureRequest, show_call: ShowCall
) -> dict[str, Any]:
    """Call the original program under observation. Return its results and what a comparison cannot
    show, or the problem that kept it from running.
    """
    hidden, coverage, lookups = HiddenCalls(), BranchCoverage(request.overlay), Lookups()

    @contextlib.contextmanager
    def watched() -> Iterator[None]:
        with hidden.watched(), coverage.watched(), lookups.watched():
            yield

    try:
        target, observer = find_uncompiled_target(place, request, watched)
        state = observer.state_at_first
        ways = ways_beyond(target, request.train is not False)
        seen = call_all(target, observer, ways, show_call=show_call)
    except Exception as error:  # noqa: BLE001 - the user's program may raise anything; it is told
        return {
            "problem": (
                f"the original program raises when it runs without torch.compile: {one_line(error)}"
            )
        }
    unsupported = [position for position, call in enumerate(seen) if _is_unsupported(call)]
    for position in unsupported:
        seen[position] = None
    return {
        "state": state,
        "names": observer.names_at_first,
        "ways": ways,
        "seen": seen,
        "unsupported": unsupported,
        "hidden": list(hidden.found),
        "not reached": coverage.not_taken(),
        "lookups": lookups.count,
        "is_compiled": is_compiled(target.callable),
    }


def _again_result(
    place: TargetPlace, request: CaptureRequest, before: dict[str, Any]
) -> dict[str, Any]:
    take_free_places()
    try:
        target, observer = find_uncompiled_target(
            place, request, HiddenCalls(AS_LONG_AS_COMPILING_S).watched
        )
        observer.set_state(before["state"])
        return {"seen": call_all(target, observer, before["ways"], before["seen"])}
    except Exception as error:  # noqa: BLE001 - as above
        return {"problem": f"it raises {one_line(error)}"}


def _is_unsupported(seen: Mapping[str, Any] | None) -> bool:
    """Return whether the original itself fails in such a call: an input that needs a gradient can
    neither be changed in place nor converted to NumPy. A change cannot break such a call.
    """
    return bool(seen and seen["is_unlike_example"] and seen["raised"])


def _changed_result(
    place: TargetPlace, request: CaptureRequest, before: dict[str, Any], show_call: ShowCall
) -> dict[str, Any]:
    if "problem" in before:
        return before
    loading.install_texts(request.overlay)
    try:
        lookups = Lookups()
        target, observer = find_uncompiled_target(place, request, lookups.watched)
        observer.set_state(before["state"])
        seen = call_all(target, observer, before["ways"], before["seen"], show_call=show_call)
        return {"seen": seen, "names": observer.names_at_first, "lookups": lookups.count}
    except Exception as error:  # noqa: BLE001 - as above
        return {"failed": f"it raises {one_line(error)}"}


def find_uncompiled_target(
    place: TargetPlace,
    request: CaptureRequest,
    watch: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
) -> tuple[Target, Observer]:
    """Find the target and make its observer. ``watch`` is entered around each call."""
    without_compiling()
    seed(0)
    target, train = calling.prepared(
        find_any_target(place, request, lambda activity: None), request
    )
    return target, Observer(
        target, train, request.train is not False, users_code(place, request), watch
    )


def call_all(
    target: Target,
    observer: Observer,
    ways: list[Way],
    before: list[Any] | None = None,
    change_arguments: Callable[[Arguments], Arguments] = lambda arguments: arguments,
    show_call: ShowCall = ignore_call,
) -> list[dict[str, Any] | None]:
    """Make all calls and return the observations of each; None for a call that took too long, here
    or in ``before``. ``change_arguments`` is applied to the arguments of each; ``show_call`` is
    called before each.
    """
    first, *others = [
        replace(call, arguments=change_arguments(call.arguments))
        for call in planned_calls(target.arguments, ways)
    ]
    began = time.monotonic()
    planned = 1 + len(others)
    show_call(0, planned)
    seen: list[dict[str, Any] | None] = [
        observer.first(target.callable, first.words, first.arguments).plain()
    ]
    limit_s = LONGER * (time.monotonic() - began) + LONG_S
    for position, call in enumerate(others, 1):
        if before and before[position] is None:
            observer.leave_out()
            seen.append(None)
        else:
            show_call(position, planned)
            observation = _unless_endless(observer, target, call, limit_s)
            plain = observation.plain() if observation else None
            seen.append(plain)
    return seen


def _unless_endless(
    observer: Observer, target: Target, call: PlannedCall, limit_s: float
) -> Observation | None:
    """Make a call and return its observations; None if it takes much longer than the first call, as
    a loop that waits for a value may.
    """
    with _stopped_after(limit_s):
        return observer.again(target.callable, call)
    return None


class _TooLong(BaseException):
    """Raised when a call takes too long. It is not an ``Exception``, so that the program does not
    catch it.
    """


@contextlib.contextmanager
def _stopped_after(seconds: float) -> Iterator[None]:
    """Leave the block when ``seconds`` have passed, by SIGALRM."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with contextlib.suppress(_TooLong):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
