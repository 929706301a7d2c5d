"""The same program is captured once more with something changed, by a worker of its own, and held
against the session at hand.

``recapture`` is the one way to do it: a capture is started, waited for, looked at, and gone. Each
instrument's trial says what is changed, what is looked for, and what the result means; here is the
one that times graph breaks, which the command line and two instruments use.
"""

from __future__ import annotations

import asyncio
import atexit
import re
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from fx_explorer.analysis.worker_steps import describe_plan, describe_step
from fx_explorer.client.capture import Capture, temporary_capture
from fx_explorer.client.forked_workers import ForkServer, fork_server
from fx_explorer.client.session_files import copy_session, session_file
from fx_explorer.errors import SessionWriteError, UsageError
from fx_explorer.folders import temporary_folder
from fx_explorer.model import BreakTime, CallTime, CaptureRequest, GraphBreak, Outcome
from fx_explorer.session import SessionReader, SessionWriter

TIMEOUT_S = 300.0

CAPTURES_PER_TRIAL = 6
"""A trial may take as long as this number of captures of the program: it runs the program in eager
mode, captured and built, twice each.
"""

LONGEST_TRIAL_S = 3600.0
"""Maximum limit in seconds: a capture that waited long at a pause has taken long, too."""

FoundT = TypeVar("FoundT")

Look = Callable[[SessionReader], FoundT]
"""A function that reads the result of a trial from the new session. It runs in a thread, and the
session is removed afterwards.
"""

Told = Callable[[str], object]
"""A function that receives messages about what the worker is doing."""


Attend = Callable[[Capture], Awaitable[Outcome]]
"""A function that attends the worker's capture to its end, and returns how it ended."""


@dataclass(frozen=True, slots=True)
class TrialWorker:
    """The interpreter that trials run in, and how long they may take."""

    python: str = sys.executable
    """The path of the interpreter."""
    timeout_s: float | None = None
    """The limit for one trial; None for the limit of each kind of trial."""
    fork_server: ForkServer | None = None
    """The server that has imported torch and forks the workers of trials; None where each worker
    starts afresh.
    """
    capture_s: float = 0.0
    """Seconds that the capture of the program took before; 0 where that is not known."""

    def after_capture(self, reader: SessionReader) -> TrialWorker:
        """Return the worker for trials of a session's program, which take the longer the longer
        its capture took.
        """
        return replace(self, capture_s=float(reader.meta("finished") or 0))

    def limit_s(self, least_s: float) -> float:
        """Return the limit in seconds for a trial of a kind whose limit is ``least_s``, where the
        program's own capture was quick.
        """
        if self.timeout_s:
            return self.timeout_s
        return max(least_s, min(CAPTURES_PER_TRIAL * self.capture_s, LONGEST_TRIAL_S))


def forking_worker(python: str, timeout_s: float | None) -> TrialWorker:
    """Return the worker of a command that tries: its trials are forks of one process, where they
    can be.
    """
    return TrialWorker(python, timeout_s, fork_server())


HERE = TrialWorker()
"""The interpreter that fx-explorer itself runs in, with the limit of each kind of trial."""


def ignore_message(*said: object) -> None:
    """Ignore a message, for callers that need no progress."""


@dataclass(frozen=True, slots=True)
class Recapture(Generic[FoundT]):
    """The result of one recapture: its outcome, and what was looked up in the new session."""

    outcome: Outcome
    found: FoundT
    took_s: float

    @property
    def is_whole(self) -> bool:
        """Return whether the program came to its end."""
        return self.outcome.kind == "finished"


def straight_through(request: CaptureRequest, **changes: Any) -> CaptureRequest:
    """Return ``request`` without a pause and without what is recorded on demand only, then with
    ``changes``, fields of a CaptureRequest.
    """
    plain = replace(
        request,
        session="",
        pause="",
        stay=False,
        measure_breaks=False,
        ledger=False,
        workspaces=False,
        record_bytecode=False,
        record_trace=False,
        record_patterns=False,
        front_ends=(),
    )
    return replace(plain, **changes)


async def to_its_end(capture: Capture, tell: Told = ignore_message) -> Outcome:
    """Wait for a capture, and tell what the worker is doing meanwhile: ``step 4 of 4 · building
    kernel 2 of 19``, ``step 1 of 4 · call 3 of 7 · running the original in eager mode``.
    """
    plan = activity = ""
    async for notice in capture.notices():
        plan = describe_plan(notice) or plan
        if notice.kind == "worker":
            activity = notice.text
        if step := describe_step(notice):
            of_calls = activity if notice.text == "call" else ""
            tell(" · ".join(filter(None, (plan, step, of_calls))))
    return await capture.wait()


def describe_timeout(outcome: Outcome) -> str:
    """Return that a trial timed out, so that nothing is known of what was tried, and what gives it
    more time: the command's ``--timeout``, in the app too.
    """
    limit = re.match(r"stopped after (?P<seconds>\S+ s)", outcome.message)
    after = f" after {limit['seconds']}" if limit else ""
    return f"timed out{after} (not verified); start with a longer --timeout to verify it"


async def recapture(
    request: CaptureRequest,
    worker: TrialWorker,
    look: Look[FoundT],
    *,
    attend: Attend = to_its_end,
    limit_s: float = TIMEOUT_S,
    environment: Mapping[str, str] | None = None,
) -> Recapture[FoundT]:
    """Capture the program once more, look at the session, and remove it.

    ``limit_s`` is for a worker without one of its own, and longer after a long capture;
    ``environment`` is added to the worker's.

    Raises SessionWriteError when there is no room for a session, and nothing for what the user's
    program does. Whoever is cancelled while waiting ends the worker.
    """
    began = time.monotonic()
    async with temporary_capture(
        request, worker.python, worker.limit_s(limit_s), environment, worker.fork_server
    ) as capture:
        outcome = await attend(capture)
        found = await asyncio.to_thread(_looked_at, capture.session_path, look)
    return Recapture(outcome, found, time.monotonic() - began)


def _looked_at(path: Path, look: Look[FoundT]) -> FoundT:
    with SessionReader(path) as reader:
        return look(reader)


@cache
def folder_of_trials() -> Path:
    """Return the temporary folder for sessions of trials that are looked at later, which is removed
    when Python ends. Raises SessionWriteError when it cannot be made.
    """
    until_the_end = ExitStack()
    atexit.register(until_the_end.close)
    return until_the_end.enter_context(temporary_folder())


def keep_session(reader: SessionReader, place: Path) -> Path:
    """Copy the session of a trial, which is removed after it, to ``place``, and return that.
    Raises SessionWriteError when there is no room.
    """
    try:
        copy_session(reader.path, session_file(place))
    except (OSError, sqlite3.Error, UsageError) as error:
        raise SessionWriteError(f"the session of the trial cannot be kept: {error}") from error
    return place


BREAK_TIMES_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class BreakTimes:
    """The measured times of a call and its graph breaks, independent of any session."""

    call: CallTime
    at_breaks: tuple[tuple[tuple[str, int, str], BreakTime], ...]
    """The times at breaks, by ``GraphBreak.cause``."""


def why_not_measured(request: CaptureRequest | None) -> str:
    """Say why breaks cannot be measured; empty when nothing is known to be in the way."""
    if request is None:
        return (
            "The session does not record how it was captured. Open its target: fx-explorer TARGET."
        )
    if request.as_script:
        return (
            "A script cannot be called repeatedly: give the function or module it compiles as a "
            "target, FILE:OBJECT."
        )
    if request.gpu:
        return "Nothing can run on a virtual GPU."
    return ""


async def measure_breaks(
    request: CaptureRequest, tell: Told = ignore_message, worker: TrialWorker = HERE
) -> BreakTimes:
    """Measure how long the program spends at its breaks. ``request`` is what the session of the
    breaks was captured with. Raises UsageError when there is nothing to measure, or the program
    does not come through.
    """
    problem = why_not_measured(request)
    if problem:
        raise UsageError(problem)
    measured = straight_through(request, verify=False, build=True, measure_breaks=True)
    again = await recapture(
        measured,
        worker,
        _read_break_times,
        attend=partial(to_its_end, tell=tell),
        limit_s=BREAK_TIMES_TIMEOUT_S,
    )
    if again.found is None or not again.is_whole:
        raise UsageError(
            f"Its breaks could not be measured: {again.outcome.message or 'nothing was compiled'}"
        )
    return again.found


def _read_break_times(reader: SessionReader) -> BreakTimes | None:
    calls = reader.rows(CallTime)
    causes = {hit.id: hit.cause for hit in reader.rows(GraphBreak)}
    if calls:
        return BreakTimes(
            calls[-1], tuple((causes[row.graph_break], row) for row in reader.rows(BreakTime))
        )
    return None


def add_break_times(session: Path, times: BreakTimes) -> int:
    """Add the times to the session that they were measured for. Returns how many breaks of it were
    measured. Raises SessionWriteError.
    """
    with SessionReader(session) as reader:
        first = {hit.cause: hit.id for hit in reversed(reader.rows(GraphBreak))}
    known = [(first[cause], row) for cause, row in times.at_breaks if cause in first]
    with SessionWriter(session) as writer, writer.transaction():
        call = writer.add(replace(times.call, id=0))
        writer.add_all(replace(row, id=0, call=call, graph_break=hit) for hit, row in known)
    return len(known)
