"""This module calls the compiled target several times, to measure the time a call spends at each
graph break (``measure_breaks``).

Every call is made with the same example inputs, in the grad mode of the capture; no backward is
run. What the program changes in its inputs and state stays changed, because this process ends
afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch

from fx_explorer.capture.dynamo.frame_clock import CallSeconds, FrameClock, spent
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.private_names import counters
from fx_explorer.errors import TargetError
from fx_explorer.model import BreakTime, CallTime, GraphBreak
from fx_explorer.program import calling
from fx_explorer.program.target import Target
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compilation_names
from fx_explorer.spread import interquartile_range

WARM_UP_CALLS = 3
"""Number of calls before anything is measured: the first compiles, and the second may compile again
for values that have changed.
"""

MEASURE_S = 2.0
MIN_CALLS = 5
MAX_CALLS = 1000


@dataclass(frozen=True, slots=True)
class MeasuredCall:
    took_s: float
    spent: CallSeconds


def call_and_time(
    target: Target,
    job: calling.CallingJob,
    recording: Recording,
    stop_recording: Callable[[], None],
) -> None:
    """Call the target, and record the times in the session.

    Raises whatever the target raises, and TargetError when it is recompiled at every call.
    """
    target, train = calling.prepared(target, job.request)
    job.describe(target, train)
    device = _accelerator(target)
    synchronize = torch.accelerator.synchronize if device else None
    clock = FrameClock(recording, synchronize)
    call = _call_of(target, job)
    with clock.installed():
        for number in range(1, WARM_UP_CALLS + 1):
            job.say(f"building it, and calling it to warm up ({number} of {WARM_UP_CALLS})")
            call()
    # What is measured must not hold the time that recording takes.
    stop_recording()
    job.say(f"measuring {target.name} on {target.arguments.describe()}")
    whole, at_breaks = _rows(
        _timed_calls(call, clock), _hits(clock, Path(job.request.session)), device or "cpu"
    )
    with recording.writer.transaction():
        number = recording.writer.add(whole)
        recording.writer.add_all(replace(row, call=number) for row in at_breaks)


def _call_of(target: Target, job: calling.CallingJob) -> Callable[[], object]:
    compiled, arguments = calling.compile_target(target, job), target.arguments

    def call() -> object:
        with calling.grad_mode(job.request):
            return compiled(*arguments.args, **arguments.keywords)

    return call


def _timed_calls(call: Callable[[], object], clock: FrameClock) -> list[MeasuredCall]:
    """Call the target several times, and return the calls that ran compiled code and compiled
    nothing.
    """
    calls: list[MeasuredCall] = []
    until, tries = time.perf_counter() + MEASURE_S, 0
    while tries < MIN_CALLS or (tries < MAX_CALLS and time.perf_counter() < until):
        tries += 1
        # The ticks of what ran before belong to no timed call.
        clock.take()
        compiled, began = _compiled(), time.perf_counter()
        call()
        took_s = time.perf_counter() - began
        ticks = clock.take()
        if ticks and _compiled() == compiled:
            calls.append(MeasuredCall(took_s, spent(ticks, clock.frames)))
    if not calls:
        raise TargetError(
            "It recompiles at every call, or did until torch gave up, so there is no steady run "
            "time to measure. To see what changes, call it twice in a program: each change is a "
            "row with ↻ in the view of breaks."
        )
    return calls


def _compiled() -> int:
    """Return how often torch has compiled a frame, or tried to."""
    return int(counters["frames"]["total"])


def _rows(
    calls: list[MeasuredCall], hits: dict[int, int], device: str
) -> tuple[CallTime, list[BreakTime]]:
    took = [call.took_s for call in calls]
    whole = CallTime(
        0,
        median(took),
        interquartile_range(took),
        median(call.spent.graphs_s for call in calls),
        len(calls),
        device,
    )
    at_breaks = [_by_break(call.spent, hits) for call in calls]
    rows = []
    for hit in sorted(set().union(*at_breaks)):
        times = [at_break.get(hit, 0.0) for at_break in at_breaks]
        rows.append(BreakTime(0, 0, hit, median(times), interquartile_range(times)))
    return whole, rows


def _by_break(call_seconds: CallSeconds, hits: dict[int, int]) -> dict[int, float]:
    """Return seconds by GraphBreak. A break that cuts its callers too has a frame of each."""
    seconds: dict[int, float] = {}
    for frame, passed_s in call_seconds.at_cuts_s.items():
        if frame in hits:
            seconds[hits[frame]] = seconds.get(hits[frame], 0.0) + passed_s
    return seconds


def _hits(clock: FrameClock, session: Path) -> dict[int, int]:
    """Return frame → the first GraphBreak of the line and cause that cuts it."""
    with SessionReader(session) as reader:
        rows = reader.rows(GraphBreak)
        names = compilation_names(reader)
    # Reversed, so that of each cause the first hit stays.
    first = {hit.cause: hit.id for hit in reversed(rows)}
    by_compilation: dict[str, list[GraphBreak]] = {}
    for hit in rows:
        # Restarts (``0/0_1``) are of the same compilation.
        compilation = names.get(hit.compilation, "").partition("_")[0]
        by_compilation.setdefault(compilation, []).append(hit)
    break_of_frame: dict[int, int] = {}
    for frame, cut in clock.cuts.items():
        of_frame = by_compilation.get(clock.frames[frame].compilation, [])
        candidates = of_frame or rows
        at_line = [hit for hit in candidates if (hit.file, hit.line) == (cut.file, cut.line)]
        nearest = at_line or of_frame
        if nearest:
            break_of_frame[frame] = first[nearest[-1].cause]
    return break_of_frame


def _accelerator(target: Target) -> str:
    """Return the name of the accelerator that the target computes on; empty if there is none."""
    tensors = [*target.parameters(), *target.arguments.tensors()]
    device = next((tensor.device for tensor in tensors if tensor.device.type != "cpu"), None)
    if device is None:
        return ""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return str(device)
