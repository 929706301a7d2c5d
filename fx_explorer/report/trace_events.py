"""This module writes a session for Perfetto (https://ui.perfetto.dev) and ``chrome://tracing``:
when each phase of each compilation ran, the steps of a call as the ledger measured them, and the
memory that a step holds.

The format is Google's "Trace Event Format": complete events (``X``), counters (``C``) and names
(``M``), with times in microseconds. All figures are those of the instruments. What has a clock of
its own is a process of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from fx_explorer import __version__, model
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable
from fx_explorer.instruments.compile_time.timing import (
    KINDS_IN_WORDS,
    MAIN_THREAD,
    CompilePart,
    CompileTime,
    compile_time,
)
from fx_explorer.instruments.ledger.figures import LedgerFigures, ledger_figures
from fx_explorer.instruments.ledger.flame_chart import describe_kind, flame
from fx_explorer.instruments.memory.report import MemoryReport, known_memory
from fx_explorer.instruments.memory.step import KINDS
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

SCHEMA = "fx-explorer/trace/1"

Event = dict[str, object]

COMPILING, CALL, MEMORY = 1, 2, 3
"""Numbers of the processes in the trace."""

LINES = "your lines, in µs"


def trace_text(reader: SessionReader, section: str = "") -> str:
    """Return the trace of a session, or of one section of ``SECTIONS``. Raises UsageError where
    there is nothing to write.
    """
    with reader.snapshot():
        events: list[Event] = []
        for name in [section] if section else SECTIONS:
            events += SECTIONS[name](reader)
        target = reader.meta("target") or {}
    if not events:
        raise UsageError(_why_nothing(section))
    about = {
        "schema": SCHEMA,
        "fx_explorer": __version__,
        "target": printable(str(target.get("name", ""))),
    }
    return json.dumps({"otherData": about, "displayTimeUnit": "ms", "traceEvents": events}) + "\n"


def _why_nothing(section: str) -> str:
    advice = (
        "fx-explorer capture TARGET -o s.fxs records compile times and the memory of a step, "
        "fx-explorer ledger TARGET -o s.fxs the steps of a call"
    )
    if section:
        return f"this session has nothing in its section {section}: {advice}"
    return f"this session has no compile time, no ledger and no memory of a step: {advice}"


# Compile time: a track for each compilation on each thread.


def compile_events(reader: SessionReader) -> Iterator[Event]:
    """Yield each phase at the time at which it ran. The time of a line is a sum over its phase, and
    so it stands beside the phase.
    """
    whole = compile_time(reader)
    if whole is None:
        return
    yield _name_of("process_name", COMPILING, 0, "compile time")
    starts = {row.name: row.start_s for row in reader.rows(model.Compilation)}
    thread, track = MAIN_THREAD, 0
    around: list[tuple[int, Event]] = []
    for part in whole.parts:
        frame = part.frame
        while around and around[-1][0] >= frame.depth:
            around.pop()
        enclosing = around[-1][1] if around else None
        if frame.kind == "thread":
            thread = frame.name
        elif frame.kind == "function":
            track += 1
            yield _name_of("thread_name", COMPILING, track, _track_name(part, thread))
            if not frame.children:
                yield _phase(part, starts.get(part.compilation, 0.0), track, None)
        elif part.span:
            event = _phase(part, part.span.start_s, track, enclosing)
            event["args"] = {**_about_phase(part), **_lines_in(whole, part)}
            around.append((frame.depth, event))
            yield event


def _track_name(part: CompilePart, thread: str) -> str:
    name = printable(part.frame.name)
    return name if thread == MAIN_THREAD else f"{name} · {printable(thread)}"


def _phase(part: CompilePart, start_s: float, track: int, around: Event | None) -> Event:
    """Return the event of a phase, which lies in the one around it to the nanosecond."""
    frame = part.frame
    event = _slice(
        frame.name, frame.kind, (start_s, start_s + frame.duration_s), (COMPILING, track)
    )
    if around:
        begin, end = (_nanoseconds(around, key) for key in ("ts", "dur"))
        end += begin
        first = min(max(_nanoseconds(event, "ts"), begin), end)
        last = min(first + _nanoseconds(event, "dur"), end)
        event["ts"], event["dur"] = first / 1000, (last - first) / 1000
    return event


def _nanoseconds(event: Event, key: str) -> int:
    value = event[key]
    assert isinstance(value, float)
    return round(value * 1000)


def _about_phase(part: CompilePart) -> Event:
    assert part.span
    return {
        "stage": KINDS_IN_WORDS.get(part.frame.kind, part.frame.kind),
        "compilation": part.compilation,
        "torch calls it": printable(part.span.name),
    }


def _lines_in(whole: CompileTime, part: CompilePart) -> Event:
    """Return the time of each line of the user's in a phase, without the phases inside it."""
    sums: dict[str, float] = {}
    steps = part.frame.steps
    position = steps.start + 1
    while position < steps.stop:
        inner = whole.parts[position]
        if inner.span:
            position = inner.frame.steps.stop
            continue
        if inner.frame.kind == "line":
            name = printable(inner.frame.name)
            sums[name] = sums.get(name, 0.0) + inner.frame.duration_s
        position += 1
    if not sums:
        return {}
    return {LINES: {name: round(took_s * 1e6, 3) for name, took_s in sums.items()}}


# A call: its steps in the frames around them.


def ledger_events(reader: SessionReader) -> Iterator[Event]:
    """Yield the frames of a call in the order in which they begin."""
    figures = ledger_figures(reader)
    if figures is not None:
        yield from events_of_call(figures)


def events_of_call(figures: LedgerFigures) -> Iterator[Event]:
    root = flame(figures)
    yield _name_of("process_name", CALL, 0, f"{printable(root.name)} (its times begin at 0)")
    yield _name_of("thread_name", CALL, 1, "ledger")
    for frame in root.frames():
        event = _slice(frame.name, frame.kind, (frame.began_s, frame.ended_s), (CALL, 1))
        about: Event = {"kind": describe_kind(figures, frame.kind)}
        if frame.line:
            about["line"] = printable(in_file(*frame.line))
        if frame.steps and not frame.children:
            step = figures.entries[frame.steps[0]].step
            measured = {
                "GPU, in µs": step.device_s * 1e6,
                "bytes": step.moved_bytes,
                "operations (FLOP)": step.flops,
            }
            about.update({name: value for name, value in measured.items() if value >= 0})
        event["args"] = about
        yield event


# Memory: a counter over the kernel calls of a step.


def memory_events(reader: SessionReader) -> Iterator[Event]:
    """Yield the bytes of each kind after each change, and the kernel calls below them."""
    report = known_memory(reader)
    if report is not None:
        yield from events_of_memory(report)


def events_of_memory(report: MemoryReport) -> Iterator[Event]:
    used = report.used
    title = f"memory of a step on {used.device} (in the order of the code; no times)"
    yield _name_of("process_name", MEMORY, 0, title)
    yield _name_of("thread_name", MEMORY, 1, "kernel calls")
    present = [kind for kind in KINDS if any(kind in point.by_kind for point in used.points)]
    for point in used.points:
        held: dict[str, int] = {kind: point.by_kind.get(kind, 0) for kind in present}
        yield _counter("bytes held", point.at, {"all": point.total_bytes})
        yield _counter("bytes by kind", point.at, held)
    stops = [*(moment.at for moment in used.step.moments[1:]), used.step.end]
    for (moment, point), stop in zip(used.at_moments(), stops, strict=True):
        node = moment.call.node
        event = _slice(
            moment.call.name, moment.direction, (moment.at / 1e6, stop / 1e6), (MEMORY, 1)
        )
        event["args"] = {
            "compilation": moment.compilation,
            "line": printable(report.line(node)),
            "module": printable(node.module) if node else "",
            "bytes held": point.total_bytes,
        }
        yield event


SECTIONS: Mapping[str, Callable[[SessionReader], Iterator[Event]]] = {
    "flame": compile_events,
    "ledger": ledger_events,
    "step_memory": memory_events,
}
"""Section of a report → its events."""


def _slice(name: str, kind: str, times_s: tuple[float, float], track: tuple[int, int]) -> Event:
    """Return a stretch of time on a track (process, thread). Both ends are whole nanoseconds, so
    that frames that touch do touch in the trace.
    """
    begin, end = (round(time_s * 1e9) for time_s in times_s)
    return {
        "name": printable(name),
        "cat": kind,
        "ph": "X",
        "ts": begin / 1000,
        "dur": (end - begin) / 1000,
        "pid": track[0],
        "tid": track[1],
        "args": {},
    }


def _counter(name: str, at: int, values: Mapping[str, int]) -> Event:
    return {"name": name, "ph": "C", "ts": float(at), "pid": MEMORY, "tid": 0, "args": dict(values)}


def _name_of(what: str, process: int, thread: int, name: str) -> Event:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
