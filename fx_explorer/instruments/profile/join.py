"""This module adds a profile of torch.profiler to a session: the trace is read and joined, and its
rows are written. The same file is stored once.

Joining a trace assigns each time to its call of a kernel, or reports what else it was. This
includes the gaps in which the GPU is idle, with what the launching thread does meanwhile. The times
of all rows add up to those of the trace. The format of a trace is in ``readers/kineto_trace.py``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import careful_share, counted, listed
from fx_explorer.instruments.profile.event_names import (
    COMPILING,
    OPTIMIZER,
    GraphMarks,
    is_region,
    key_of_event,
    kind_of,
    kind_of_marks,
    line_of,
    operator_of,
    region_of,
)
from fx_explorer.instruments.profile.graph_calls import (
    US,
    Calls,
    CompiledGraph,
    LaunchFinder,
    ProfiledGraphCall,
    Ran,
    align,
    around,
    compiled_graphs,
    graph_calls,
    graphs_of,
)
from fx_explorer.readers.kineto_reading import read_trace
from fx_explorer.readers.kineto_trace import NONE, CpuThread, Trace
from fx_explorer.session import SessionReader, SessionWriter

SHORTEST_US = 1.0
"""Minimum length of a gap, in microseconds. Kernels that follow each other directly are less far
apart.
"""

MOST_GAPS = 100
"""Maximum number of gaps that are listed one by one; the others are added up."""

MOST_DOINGS = 6
MOST_CALLED = 12
"""Compiled graphs whose calls are counted one by one."""
MOST_STEPS = 20_000
"""Maximum number of events that are read for one gap; a gap with more is marked."""

PYTHON = "Python, or work that the profile does not record"
LATENCY = "already launched, but the GPU has not started it"
CUT = "more, which was not read"
COMPILES = "torch compiles"
"""Beginning of the phrase for it; the function may follow."""
GUARDS = "guards: looking up the compiled version that fits"
IN_FUNCTION = "Python in the compiled function"
"""Beginning of the phrase for it; the name of the compilation follows."""
BETWEEN_KERNELS = "generated code between its kernels"
AROUND_GRAPH = "around a compiled graph: bytecode, AOTAutograd"


@dataclass(frozen=True, slots=True)
class Gap:
    """Time between two pieces of work of one GPU, in seconds. ``start_s`` counts from its first
    work.
    """

    start_s: float
    seconds: float
    before: int
    after: int
    """Indices of the trace's GPU work."""
    doing: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """The times at which one GPU computed, and its gaps."""

    device: int
    span_s: float
    busy_s: float
    gap_count: int
    longest: tuple[Gap, ...]


def device_time(trace: Trace) -> DeviceTime | None:
    """Return the times of the GPU that works longest; None when none was used."""
    gpu = trace.gpu
    totals: Counter[int] = Counter()
    for device, duration in zip(gpu.device, gpu.durations, strict=True):
        totals[device] += duration  # type: ignore[assignment]  # Counter adds floats as well
    if not totals:
        return None
    device = max(totals, key=lambda number: (totals[number], -number))
    order = [at for at in range(len(gpu)) if gpu.device[at] == device]
    order.sort(key=lambda at: gpu.starts[at])
    begin, end, last = gpu.starts[order[0]], gpu.starts[order[0]], order[0]
    busy, gaps = 0.0, []
    for at in order:
        start, stop = gpu.starts[at], gpu.starts[at] + gpu.durations[at]
        if start > end:
            if start - end >= SHORTEST_US:
                gaps.append((start - end, end, last, at))
            busy += stop - start
        else:
            busy += max(0.0, stop - end)
        if stop >= end:
            end, last = stop, at
    gaps.sort(key=lambda gap: (-gap[0], gap[1]))
    launches = LaunchFinder(trace)
    longest = []
    for took, start, before, after in gaps[:MOST_GAPS]:
        doing = _doing(trace, launches, after, start, start + took)
        longest.append(Gap((start - begin) * US, took * US, before, after, doing))
    return DeviceTime(device, (end - begin) * US, busy * US, len(gaps), tuple(longest))


def _doing(
    trace: Trace, launches: LaunchFinder, after: int, start: float, end: float
) -> tuple[tuple[str, float], ...]:
    """Return the activities from ``start`` to ``end`` with the seconds of each, the longest
    first.
    """
    thread, _ = launches.of(after)
    if thread == NONE:
        return ()
    launched = launches.time_of(after)
    took: Counter[str] = Counter()
    if launched < end:
        since = max(start, launched)
        took[LATENCY] += (end - since) * US  # type: ignore[assignment]
        end = since
    if end > start:
        for name, seconds in _own_times(trace, trace.threads[thread], start, end):
            took[name] += seconds  # type: ignore[assignment]
    return tuple(took.most_common(MOST_DOINGS))


def _own_times(
    trace: Trace, events: CpuThread, start: float, end: float
) -> list[tuple[str, float]]:
    """Return the time of each event itself, without those in it, between two moments."""
    first = events.at(start)
    inside = range(bisect_right(events.starts, start), bisect_left(events.starts, end))
    marks = [start, end]
    doings = []
    for event in inside[:MOST_STEPS]:
        marks.append(events.starts[event])
        if events.ends[event] < end:
            marks.append(events.ends[event])
    ends_around = [events.ends[event] for event in events.outwards(first)]
    marks += [moment for moment in ends_around if start < moment < end]
    marks = sorted(set(marks))
    for since, until in pairwise(marks):
        around = [*events.outwards(events.at((since + until) / 2))]
        names = [trace.name(events.names[event]) for event in around]
        doings.append((_describe_activity(names), (until - since) * US))
    if len(inside) > MOST_STEPS:
        return [*doings[:MOST_STEPS], (CUT, 0.0)]
    return doings


def _describe_activity(names: Sequence[str]) -> str:
    """Describe what the program is doing, by the events that are running, innermost first."""
    region = region_of(names)
    if any(name in COMPILING for name in names):
        if region:
            return f"{COMPILES}, called from [{region}]"
        return COMPILES
    if not names:
        return PYTHON
    if "TorchDynamo Cache Lookup" in names:
        return GUARDS
    if is_region(names[0]):
        name = f" [{region}]" if region else ""
        return f"{IN_FUNCTION}{name}, between its graphs"
    optimizers = (name.removeprefix(OPTIMIZER) for name in names if name.startswith(OPTIMIZER))
    optimizer = next(optimizers, "")
    if optimizer:
        operator = f": {names[0]}" if "::" in names[0] else ""
        return f"optimizer {optimizer}{operator}"
    if "Call CompiledFxGraph" in names[0]:
        return BETWEEN_KERNELS
    if names[0] in (
        "Pregraph bytecode",
        "AOTDispatcher Runtime Wrapper Prologue",
        "CompiledFunction",
    ):
        return AROUND_GRAPH
    return names[0]


CPU = "cpu"

NO_GPU = (
    "It has no GPU events: times are those of operators on the CPU. It has no generated C++ "
    "kernels, unless torch._inductor.config.cpp.enable_kernel_profile makes torch record them."
)
NO_GRAPHS = (
    "It has no call of a compiled graph: either no compiled code ran while it was recorded, or it "
    "was recorded without the CPU (ProfilerActivity.CPU), whose events name the launcher of each "
    "kernel."
)
ONLY_NAMES = (
    "It has no marks of compiled graphs: some releases of torch write none, and neither does a "
    "profile without the CPU (ProfilerActivity.CPU). Kernels that Inductor generated are "
    "recognized by their names and counted as compiled; other work of compiled graphs is not "
    "known."
)
OTHER_PROGRAM = (
    "None of its compiled graphs belongs to this session: it is a profile of another program, or "
    "of other code, and nothing was assigned."
)
OTHER_CODE = (
    "Some of the generated code that it ran differs from this session's, for example if torch "
    "chooses by timing. Kernels were matched by their names and order (≈); kernels without a "
    "counterpart are not assigned."
)

SEVERAL_PROCESSES = (
    "It merges the traces of {processes} processes. Several of them used the same number for a "
    "launch, so the launch of {works} is unknown: export one trace for each process."
)


@dataclass(frozen=True, slots=True)
class Joined:
    """The rows of a profile, with ``profile`` still 0."""

    profile: model.Profile
    times: tuple[model.ProfileTime, ...]
    others: tuple[model.ProfileOther, ...]
    gaps: tuple[model.ProfileGap, ...]


def join(trace: Trace, graphs: list[CompiledGraph], file: str, *, is_alone: bool = False) -> Joined:
    """Join a trace to the graphs of a session. With ``is_alone`` there is no session: its calls of
    graphs are counted instead.
    """
    return _Joining(trace, graphs, graph_calls(trace), is_alone=is_alone).joined(file)


def describe_called_time(trace: Trace) -> str:
    """Return how long the calls of compiled graphs take on the threads that make them, of the time
    that the profile lasts.
    """
    kind = kind_of_marks(trace.names.all)
    took_us = 0.0
    begin, end = float("inf"), 0.0
    for thread in trace.threads:
        if not thread.starts:
            continue
        begin, end = min(begin, thread.starts[0]), max(end, *thread.ends)
        marks = GraphMarks(trace, thread, kind)
        for event, parent in enumerate(thread.parents):
            is_inside = parent != NONE and marks.graph[parent] != NONE
            if marks.graph[event] == event and not is_inside:
                took_us += thread.ends[event] - thread.starts[event]
    took_s, lasts_s = took_us * US, max(0.0, end - begin) * US
    return (
        f"These calls take {run_time(took_s)} on their threads ({careful_share(took_s, lasts_s)} "
        f"of the profile's {run_time(lasts_s)})."
    )


def _describe_calls(calls: Calls) -> str:
    """Return ``Calls of compiled graphs: [0/0] forward 2, [0/0] backward 2.``"""
    counts: Counter[str] = Counter()
    for call in calls.graphs:
        if call is not calls.unmarked:
            name = f"[{call.compilation}]" if call.compilation else "of a graph without a name"
            counts[f"{name} backward" if call.is_backward else name] += 1
    parts = [f"{name} {count:,}×" for name, count in counts.most_common()]
    return f"Calls of compiled graphs: {listed(parts, MOST_CALLED)}."


JoinedId = tuple[tuple[int, int], model.ProfileJoin]
"""A call that a piece of work may belong to: its kernel and number, and how it was found."""


class _Joining:
    def __init__(
        self, trace: Trace, graphs: list[CompiledGraph], calls: Calls, *, is_alone: bool
    ) -> None:
        self._trace, self._graphs, self._calls = trace, graphs, calls
        self._is_alone = is_alone
        self._times: dict[tuple[int, int], model.ProfileTime] = {}
        self._others: dict[tuple[object, ...], model.ProfileOther] = {}
        self._kernel_of_work: dict[int, int] = {}
        self._joined_calls = 0
        self._has_other_code = False
        self._shared_runs = 0

    def joined(self, file: str) -> Joined:
        for call in self._calls.graphs:
            self._join_call(call)
        for work, thread, event in self._calls.outside:
            self._add_outside(work, thread, event)
        busy = device_time(self._trace)
        gaps = tuple(self._gaps(busy)) if busy else ()
        return Joined(
            self._profile(file, busy),
            tuple(self._times.values()),
            tuple(self._others.values()),
            gaps,
        )

    # compiled graphs

    def _join_call(self, call: ProfiledGraphCall) -> None:
        is_unmarked = call is self._calls.unmarked
        graphs = [] if is_unmarked else graphs_of(call, self._graphs)
        self._joined_calls += bool(graphs)
        named = [ran.named for ran in call.ran]
        matched = [(graph, align(named, graph.calls)) for graph in graphs]
        for at, ran in enumerate(call.ran):
            ids: list[JoinedId] = []
            for graph, of_graph in matched:
                if at in of_graph:
                    how = of_graph[at].how
                    ids += [(graph.ids[of_call], how) for of_call in of_graph[at].calls]
            if ids:
                self._join_ran(ran, ids)
                continue
            self._has_other_code |= bool(graphs)
            name, stacks = self._name_of(ran), self._stacks_of(ran)
            self._add_other("unjoined", name, call.compilation, ran.seconds, stacks)

    def _join_ran(self, ran: Ran, ids: Sequence[JoinedId]) -> None:
        """Add the measured time to the kernel calls that it may belong to. Several candidates share
        it.
        """
        if len(ids) == 1:
            ((kernel, kernel_call), how) = ids[0]
            self._add_time(kernel, kernel_call, how, ran.seconds, 1, 1)
            self._kernel_of_work.update(dict.fromkeys(ran.work, kernel))
            return
        # Several share the time, and one of them has the run.
        with_run = self._shared_runs % len(ids)
        for place, ((kernel, kernel_call), _) in enumerate(ids):
            runs = int(place == with_run)
            self._add_time(kernel, kernel_call, "shared", ran.seconds, len(ids), runs)
        self._shared_runs += 1

    def _add_time(
        self, kernel: int, call: int, how: model.ProfileJoin, seconds: float, among: int, runs: int
    ) -> None:
        part = seconds / among
        shared_s = part if among > 1 else 0.0
        self._has_other_code |= how == "similar"
        known = self._times.get((kernel, call)) or model.ProfileTime(
            0, 0, kernel, call, how, 0.0, 0
        )
        self._times[(kernel, call)] = replace(
            known,
            how=max(known.how, how, key=("order", "similar", "shared").index),
            seconds=known.seconds + part,
            runs=known.runs + runs,
            shared_s=known.shared_s + shared_s,
        )

    def _name_of(self, ran: Ran) -> str:
        if ran.operator[1] == NONE:
            return ran.named.key
        return self._name(*ran.operator)

    def _name(self, thread: int, event: int) -> str:
        return self._trace.name(self._trace.threads[thread].names[event])

    def _stacks_of(self, ran: Ran) -> Sequence[str]:
        thread, event = ran.operator
        stack = self._stack_around(thread, event)
        if stack:
            return [stack]
        stacks: list[str] = []
        for work in ran.work:
            stacks += self._trace.gpu_stacks.get(work, ())
        return stacks

    def _stack_around(self, thread: int, event: int) -> str:
        """Return the stack of an operator, or of the nearest enclosing one that has a stack; empty
        for none.
        """
        if thread == NONE:
            return ""
        events = self._trace.threads[thread]
        known = (
            self._trace.stacks.get((thread, events.starts[outer]))
            for outer in events.outwards(event)
        )
        return next((stack[0] for stack in known if stack and stack[0]), "")

    # elsewhere

    def _add_outside(self, work: int, thread: int, event: int) -> None:
        seconds = self._trace.gpu.durations[work] * US
        name = self._trace.name(self._trace.gpu.names[work])
        stacks: Sequence[str] = self._trace.gpu_stacks.get(work, ())
        if thread == NONE:
            self._add_other("not known", name, "", seconds, stacks)
            return
        names = [*around(self._trace, thread, event)]
        stack = self._stack_around(thread, event)
        if stack:
            stacks = [stack]
        is_known = self._calls.has_marks or self._calls.unmarked is None
        kind = kind_of(names)
        if kind == "eager" and not is_known:
            kind = "not known"
        self._add_other(kind, operator_of(names) or name, region_of(names), seconds, stacks)

    def _add_other(
        self,
        kind: model.OutsideKind,
        name: str,
        compilation: str,
        seconds: float,
        stacks: Sequence[str],
    ) -> None:
        file, line = line_of(stacks)
        key = (kind, name, compilation, file, line)
        known = self._others.get(key) or model.ProfileOther(
            0, 0, kind, name, compilation, 0.0, 0, file, line
        )
        self._others[key] = replace(known, seconds=known.seconds + seconds, runs=known.runs + 1)

    # the whole

    @property
    def _marked_calls(self) -> int:
        return len(self._calls.graphs) - (self._calls.unmarked is not None)

    def _profile(self, file: str, busy: DeviceTime | None) -> model.Profile:
        trace = self._trace
        compiled_s = sum(call.seconds for call in self._calls.graphs)
        has_gpu = bool(len(trace.gpu))
        work_s = sum(trace.gpu.durations) * US if has_gpu else compiled_s
        devices = [name for at, name in enumerate(trace.devices) if busy and at == busy.device]
        device = CPU
        if has_gpu:
            device = devices[0] if devices else "GPU"
        span_s, busy_s, gap_count = 0.0, 0.0, 0
        if busy:
            span_s, busy_s, gap_count = busy.span_s, busy.busy_s, busy.gap_count
        return model.Profile(
            0,
            file,
            trace.digest,
            device,
            has_gpu,
            trace.events,
            trace.skipped,
            trace.problem,
            self._marked_calls,
            self._joined_calls,
            work_s,
            compiled_s,
            sum(profile_time.seconds for profile_time in self._times.values()),
            sum(profile_time.shared_s for profile_time in self._times.values()),
            span_s,
            busy_s,
            gap_count,
            tuple(self._notes()),
        )

    def _notes(self) -> Iterator[str]:
        trace = self._trace
        if not len(trace.gpu):
            yield NO_GPU
        is_by_names = self._calls.unmarked is not None and not self._calls.has_marks
        if not self._calls.graphs:
            yield NO_GRAPHS
        elif is_by_names:
            yield ONLY_NAMES
        elif self._is_alone:
            yield _describe_calls(self._calls)
            yield describe_called_time(trace)
        elif not self._joined_calls:
            yield OTHER_PROGRAM
        elif self._joined_calls < (marked := self._marked_calls):
            yield (
                f"{marked - self._joined_calls} of {marked} calls of compiled graphs belong to no "
                "graph of this session."
            )
        if self._has_other_code:
            yield OTHER_CODE
        if trace.unclear:
            unclear = sum(launch in trace.unclear for launch in trace.gpu.correlation)
            yield SEVERAL_PROCESSES.format(
                processes=len({thread.process for thread in trace.threads}),
                works=counted(unclear, "GPU event"),
            )
        others = len({*trace.gpu.device} - {NONE}) - 1
        if others > 0:
            yield f"Idle times are for the GPU with the most work, of {others + 1}."

    def _gaps(self, busy: DeviceTime) -> Iterator[model.ProfileGap]:
        for position, gap in enumerate(busy.longest):
            names = [
                key_of_event(self._trace.name(self._trace.gpu.names[work]))
                for work in (gap.before, gap.after)
            ]
            kernels = [self._kernel_of_work.get(work, 0) for work in (gap.before, gap.after)]
            doing, doing_s = [name for name, _ in gap.doing], [took for _, took in gap.doing]
            yield model.ProfileGap(
                0,
                0,
                position,
                gap.start_s,
                gap.seconds,
                names[0],
                names[1],
                kernels[0],
                kernels[1],
                tuple(doing),
                tuple(doing_s),
            )


def joined_profile(
    session: Path, trace: Path, tell: Callable[[int], None] = lambda read: None
) -> Joined:
    """Read a trace, and join it to the session. Raises ProfileError for a file that is not a trace,
    SessionError for a session that cannot be read.
    """
    found = read_trace(trace, tell)
    with SessionReader(session) as reader, reader.snapshot():
        return join(found, compiled_graphs(reader), trace.name)


def add_profile(session: Path, joined: Joined) -> None:
    """Write a profile into the session, replacing an earlier copy of the same one. Raises
    SessionWriteError.
    """
    with SessionWriter(session) as writer, writer.transaction():
        writer.remove_profiles(joined.profile.digest)
        number = writer.add(joined.profile)
        for rows in (joined.times, joined.others, joined.gaps):
            writer.add_all(replace(row, profile=number) for row in rows)
