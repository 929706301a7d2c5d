"""This module reads the compilations of a log: when they began, how they ended, and how long their
phases took.

DDPOptimizer cuts a graph into buckets (torch/_dynamo/backends/distributed.py). torch writes
``optimize_ddp_split_child`` for each of them, then compiles their forwards one after the other
under the id of the whole compilation. No record says of which bucket it is: that the next one has
begun is seen by a record that one bucket has only once, or earlier.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fx_explorer.model import (
    Artifact,
    ArtifactKind,
    Compilation,
    Direction,
    Failure,
    Frame,
    Metric,
    Span,
    Stage,
    Status,
    bucket_label,
)
from fx_explorer.model.rows.observation import CACHE_OFF
from fx_explorer.readers.torch_trace.option_records import OptionRecords
from fx_explorer.readers.torch_trace.places import Places
from fx_explorer.readers.torch_trace.records import NOWHERE, Record
from fx_explorer.session import SessionWriter
from fx_explorer.torch_texts.reports import OF_BACKWARD, error_of_frame, failed_stage
from fx_explorer.torch_texts.torch_names import LARGE_METRICS, STAGE_OF_EVENT

_CUT = "optimize_ddp_split_child"

_ORDER = (
    "before_pre_grad_graph",
    "after_pre_grad_graph",
    "inductor_pre_grad_graph",
    "aot_joint_graph",
    "aot_inference_graph",
    "aot_forward_graph",
    "aot_backward_graph",
)
"""Records that a bucket has once each, in this order, when its forward is compiled."""


@dataclass(slots=True)
class _Cut:
    count: int = 0
    number: int = 0
    """Number of the bucket that is being compiled, from 1."""
    reached: int = 0


class Buckets:
    """Follows which of DDPOptimizer's buckets each compilation is at, record by record."""

    def __init__(self) -> None:
        self._cuts: dict[str, _Cut] = {}

    def follow(self, record: Record) -> str | None:
        """Return the bucket that begins with this record; empty if none begins here or later, None
        if nothing changes.

        A backward is compiled after the compilation has ended, when it first runs.
        """
        if record.name == _CUT:
            self._cuts.setdefault(record.compilation, _Cut()).count += 1
        elif record.name in ("dynamo_output_graph", "compilation_metrics"):
            if self._cuts.pop(record.compilation, None):
                return ""
            return None
        elif record.name in _ORDER and record.compilation in self._cuts:
            return self._next(self._cuts[record.compilation], _ORDER.index(record.name))
        return None

    def _next(self, cut: _Cut, place: int) -> str | None:
        begins = not cut.number or place <= cut.reached
        cut.reached = place
        if not begins or cut.number >= cut.count:
            return None
        cut.number += 1
        return bucket_label(cut.number, cut.count)


NOT_IN_LOG = "the log has no record of it"

WITHOUT_FRAME = "no frame"
"""Name of a compilation without Dynamo: by torch.export, by AOTInductor, or by a call of Inductor's
own functions.
"""

_STAGES: tuple[Stage, ...] = (
    "joint",
    "forward",
    "backward",
    "pre_grad",
    "post_grad",
    "schedule",
    "output_code",
    "kernel",
)

_STAGE_OF_ERROR: dict[str, Stage] = {"LoweringException": "post_grad", "CppCompileError": "kernel"}
"""Error of a backward → its stage: torch writes no traceback of it into the log."""

_RUNS_IN_EAGER = ("Unsupported", "UserError", "SkipFrame")
"""Kinds of failures after which Dynamo leaves the frame to Python."""

_NUMBERS = re.compile(r"(?:!\d{1,9}/)?(?P<frame>\d{1,9})/(?P<recompile>\d{1,9})")


AUTOTUNING = "autotune_choices_stats"

FX_GRAPH_CACHE_OFF = "fx_graph_cache_disabled"
"""The event of a compile that does not ask Inductor's cache (torch/_inductor/compile_fx.py)."""

_LONGEST_SIZE = 19

SHORT = 256
"""Texts longer than this many characters stay in the log; the place of a shorter one would take as
much room as the text.
"""


@dataclass(slots=True)
class LogCompilation:
    """The state of one compilation while the log is read."""

    row: Compilation
    seen: set[Stage] = field(default_factory=set)
    attempt: int = 0
    graph_attempt: int = -1
    """The attempt with Dynamo's graph; -1 before there is one."""
    set_aside: int = 0
    has_broken: bool = False
    has_ended: bool = False
    cache_hits: set[str] = field(default_factory=set)
    error_text: str = ""
    called: str = ""
    """torch's own name of the compilation. After a reset torch reuses names."""
    put_off: list[Record] = field(default_factory=list)
    """Its records that are decoded later, without their texts."""


class Compilations:
    """Writes the compilations, and knows the ids of their rows by the names that records have."""

    def __init__(self, writer: SessionWriter, places: Places) -> None:
        self._writer = writer
        self._places = places
        self.options = OptionRecords(writer)
        self._states: dict[str, LogCompilation] = {}
        self._begun: dict[str, int] = {}
        """Name → how often it was used: torch numbers again after ``torch._dynamo.reset()``."""
        self._first_s: float | None = None
        self._events: dict[tuple[Any, Any, str], list[tuple[float, int]]] = {}
        """Unfinished events by process, thread and name: when they began, and for which
        compilation.
        """
        self._first_event_s: float | None = None
        self._hints: dict[int, dict[str, int]] = {}
        """Row of a compilation → symbol → its value."""
        self.environment: dict[str, object] = {}
        self.all: list[LogCompilation] = []
        """All compilations, in the order in which they began."""
        self.leaves_texts = False
        """Whether texts of records stay in the log."""
        self.parts: dict[int, str] = {}
        """Row of a compilation → name of the part of its graph that is being compiled, where parts
        are compiled by themselves.
        """
        self._buckets = Buckets()
        self._is_again = False
        """Whether deferred records are being read, whose buckets are known from the first time."""

    def handles(self) -> dict[str, Callable[[Record], None]]:
        return {
            "dynamo_start": self._start,
            "compilation_metrics": self._end,
            "bwd_compilation_metrics": self._end_of_backward,
            "aot_autograd_backward_compilation_metrics": self._metrics,
            "compilation_metrics_runtime": self._metrics,
            "bwd_compilation_metrics_runtime": self._metrics,
            "cudagraph_skip": self._metrics,
            "chromium_event": self._event,
            "dynamo_error": self._error,
            "torch_version": self._version,
        }

    def begun_by(self, record: Record) -> None:
        """Add a row for the compilation of a record, if it has none."""
        if self._first_s is None:
            self._first_s = record.seconds
        if record.compilation:
            state = self.of(record)
            state.attempt = record.attempt
            bucket = None if self._is_again else self._buckets.follow(record)
            if bucket:
                self.parts[state.row.id] = bucket
            elif bucket is not None:
                self.parts.pop(state.row.id, None)

    def of(self, record: Record) -> LogCompilation:
        """Return the compilation that a record is about."""
        known = self._states.get(record.compilation)
        return known or self._begin(record.compilation, record.seconds)

    def state(self, record: Record) -> LogCompilation | None:
        """Return the compilation of a record. A record without a frame belongs to the compilation
        without Dynamo, once that has begun; before, it has none.
        """
        if record.compilation:
            return self.of(record)
        return self._states.get("")

    def note_hint(self, compilation: int, symbol: str, value: object) -> None:
        """Note the value that a symbol had when the compilation began, if it is a size."""
        text = str(value)
        if text.isdecimal() and len(text) < _LONGEST_SIZE:
            self._hints.setdefault(compilation, {})[symbol] = int(text)

    def hints(self, compilation: int) -> Mapping[str, int]:
        """Return the values of symbols that are known of a compilation."""
        return self._hints.get(compilation, {})

    def id(self, record: Record) -> int:
        known = self.state(record)
        return known.row.id if known else 0

    def begin_without_frame(self, record: Record, name: str = WITHOUT_FRAME) -> LogCompilation:
        """Return the compilation of a record without a frame, and make it if there is none.
        ``name`` is its compiler, if only one has such records.
        """
        state = self._states.get("")
        if state is None:
            state = self._begin("", record.seconds)
            where = self._places.user_frame(self._places.frames(record.stack))
            if where:
                self._places.file(where.file)
                self.change(state, function=where.function, file=where.file, line=where.line)
        if state.row.name.startswith(WITHOUT_FRAME) and name != WITHOUT_FRAME:
            self.change(state, name=name + state.row.name.removeprefix(WITHOUT_FRAME))
        return state

    def end_without_frame(self) -> None:
        """Record that further records without a frame belong to another program."""
        self._states.pop("", None)

    def begin_again(self, name: str) -> LogCompilation:
        """Return a new compilation of this name, whatever other has it."""
        return self._begin(name, self._first_s or 0.0)

    def _begin(self, name: str, seconds: float) -> LogCompilation:
        times = self._begun[name] = self._begun.get(name, 0) + 1
        match = _NUMBERS.fullmatch(name)
        frame, recompile = 0, 0
        if match:
            frame, recompile = int(match["frame"]), int(match["recompile"])
        row_name = name or WITHOUT_FRAME
        if times > 1:
            row_name += f"#{times}"
        row = Compilation(
            0,
            row_name,
            frame,
            recompile,
            "",
            "",
            0,
            start_s=max(0.0, seconds - (self._first_s or 0.0)),
        )
        state = self._states[name] = LogCompilation(
            replace(row, id=self._writer.add(row)), called=name
        )
        self.all.append(state)
        return state

    @contextlib.contextmanager
    def again(self, state: LogCompilation) -> Iterator[None]:
        """Inside the block, assign records with the name of this compilation to it, though torch
        may have reused the name since.
        """
        latest = self._states.get(state.called)
        self._states[state.called] = state
        part, self._is_again = self.parts.pop(state.row.id, None), True
        try:
            yield
        finally:
            self._is_again = False
            if part is not None:
                self.parts[state.row.id] = part
            del self._states[state.called]
            if latest:
                self._states[state.called] = latest

    def change(self, state: LogCompilation, **fields: Any) -> None:
        row = replace(state.row, **fields)
        self._writer.update(row)  # which refuses what no session can hold
        state.row = row

    def add_artifact(
        self,
        record: Record,
        kind: ArtifactKind,
        stage: Stage,
        title: str,
        language: str,
        text: str,
        direction: Direction = "",
    ) -> int:
        """Add a text of a compilation as a document, and return its id. Where parts of a graph are
        compiled by themselves, the title names the part.
        """
        part = record.subgraph or self.parts.get(self.id(record), "")
        title = f"{title} · {part}" if part else title
        lines = text.removesuffix("\n").count("\n") + 1
        is_in_log = text is record.payload and record.place is not NOWHERE
        stays = self.leaves_texts and is_in_log and len(text) > SHORT
        if stays:
            text_id = self._writer.text_elsewhere(record.place)
        else:
            text_id = self._writer.text(text, like=f"{kind} {title}")
        return self._writer.add(
            Artifact(0, self.id(record), kind, stage, direction, title, language, text_id, lines)
        )

    def graph_of_attempt(self, record: Record) -> None:
        """Record that an attempt has a graph of Dynamo's. The results of an earlier attempt get a
        row of their own.
        """
        state = self.of(record)
        if state.graph_attempt >= 0 and record.attempt != state.graph_attempt:
            aside = replace(
                state.row, id=0, name=f"{state.row.name}_{state.set_aside}", status="restarted"
            )
            aside = replace(aside, id=self._writer.add(aside))
            self._writer.move_compilation(state.row.id, aside.id)
            left = LogCompilation(
                aside, graph_attempt=state.graph_attempt, called=state.called, put_off=state.put_off
            )
            self.all.append(left)
            state.put_off = []
            state.set_aside += 1
            state.seen.clear()
        state.graph_attempt = record.attempt
        state.seen.add("dynamo")

    # records

    def _start(self, record: Record) -> None:
        state = self.of(record)
        if state.has_ended and record.attempt == 0:
            self._states.pop(record.compilation)
            state = self._begin(record.compilation, record.seconds)
        if isinstance(record.content, dict):
            frames = self._places.frames(record.content.get("stack"))
        else:
            frames = ()
        if frames and not state.row.function:
            where = frames[-1]
            self._places.file(where.file)
            stack = self._places.stack(frames[:-1])
            self.change(
                state, function=where.function, file=where.file, line=where.line, stack=stack
            )

    def _end(self, record: Record) -> None:
        self._metrics(record)
        metrics = record.content if isinstance(record.content, dict) else {}
        state = self.state(record)
        if state is None:
            return
        state.has_ended = True
        self._note_end(state, metrics)
        self.options.add_metrics(metrics)

    def _note_end(self, state: LogCompilation, metrics: dict[str, Any]) -> None:
        reasons = [_first_line(str(reason)) for reason in metrics.get("restart_reasons") or ()]
        restarts = tuple(sorted(reasons))
        if state.called or metrics.get("fail_type"):
            status = _status(metrics, state.has_broken)
        else:
            status = "ok"
        reason = " ".join(error_of_frame(str(metrics.get("fail_reason") or "")).split())
        if status == "failed":
            reason = f"{metrics.get('fail_type')}: {reason}"
            traceback = state.error_text or str(metrics.get("fail_reason") or "")
            row = Failure(
                0,
                state.row.id,
                "compiler",
                failed_stage(traceback),
                str(metrics.get("fail_type")),
                reason[:400],
                self._writer.text(traceback),
            )
            self._writer.add(row)
        self.change(
            state,
            status=status,
            error=reason[:400],
            attempts=1 + len(restarts),
            restart_reasons=restarts,
            duration_s=_seconds(metrics.get("entire_frame_compile_time_s")),
            function=state.row.function or str(metrics.get("co_name") or ""),
            file=state.row.file or str(metrics.get("co_filename") or ""),
            line=state.row.line or int(_seconds(metrics.get("co_firstlineno"))),
        )
        for key, name in (("pytorch_version", "torch"), ("python_version", "python")):
            if metrics.get(key):
                self.environment[name] = str(metrics[key]).split()[0]

    def _end_of_backward(self, record: Record) -> None:
        """Store why a backward could not be compiled. The forward was compiled before."""
        self._metrics(record)
        metrics = record.content if isinstance(record.content, dict) else {}
        if not metrics.get("fail_type"):
            return
        reason = str(metrics.get("fail_reason") or "")
        message = f"{OF_BACKWARD}{' '.join(reason.split())}"[:400]
        kind = str(metrics["fail_type"])
        stage = _STAGE_OF_ERROR.get(reason.partition(":")[0])
        text = self._writer.text(f"{kind}: {reason}")
        self._writer.add(Failure(0, self.id(record), "compiler", stage, kind, message, text))

    def _metrics(self, record: Record) -> None:
        if not isinstance(record.content, dict):
            return
        kept = {
            key: value
            for key, value in record.content.items()
            if key not in LARGE_METRICS and value not in (None, [], "", 0, 0.0)
        }
        self._writer.add(Metric(0, self.id(record), record.kind, json.dumps(kept, default=str)))

    def _event(self, record: Record) -> None:
        event = json.loads(record.payload)
        phase, name, time_s = event["ph"], str(event["name"]), float(event["ts"]) / 1e6
        if self._first_event_s is None:
            self._first_event_s = time_s
        if phase == "E":
            self._autotuning(record, name, event.get("args"))
        elif name == FX_GRAPH_CACHE_OFF:
            self._writer.add(Metric(0, self.id(record), CACHE_OFF, json.dumps("fx_graph")))
        key = (event.get("pid"), event.get("tid"), name)
        began = self._events.setdefault(key, [])
        if phase == "B":
            began.append((time_s, self.id(record)))
        elif phase == "E" and began:
            start_s, compilation = began.pop()
            depth = sum(map(len, self._events.values()))
            stage = STAGE_OF_EVENT.get(name)
            start = max(0.0, start_s - self._first_event_s)
            self._writer.add(
                Span(0, compilation or self.id(record), name, stage, start, time_s - start_s, depth)
            )

    def _autotuning(self, record: Record, event: str, arguments: object) -> None:
        """Store the times that Inductor measured for the choices of one operation, from the event
        of the measurement.
        """
        if isinstance(arguments, dict):
            stats = arguments.get(AUTOTUNING)
        else:
            stats = None
        if stats is None:
            return
        choices = json.loads(stats) if isinstance(stats, str) else stats
        if not isinstance(choices, dict):
            raise ValueError("autotuning choices that are not an object")
        choices["operation"] = event.removesuffix("_template_autotuning")
        self._writer.add(Metric(0, self.id(record), AUTOTUNING, json.dumps(choices, default=str)))

    def _error(self, record: Record) -> None:
        self.of(record).error_text = record.payload

    def _version(self, record: Record) -> None:
        self.environment["torch"] = str(json.loads(record.payload)["pytorch_version"])

    def finish_text(self, *, raises_at_limit: bool = False, absent_because: str = "") -> None:
        """Finish the compilations of a text that does not say how they ended: all in it were
        compiled, except those refused at the limit. There an error was raised, or the function ran
        in eager mode.
        """
        for state in self.all:
            if not state.has_ended:
                status: Status = "broke" if state.has_broken else "ok"
                self.change(state, status=status, attempts=1 + state.attempt)
                state.has_ended = True
            elif raises_at_limit and state.row.status == "skipped":
                self.change(state, status="failed")
        self.finish(absent_because=absent_because)

    def name_after(self, record: Record, where: Frame | None) -> None:
        """Name the function of a compilation that no record has named, after a line that is in
        it.
        """
        state = self.state(record)
        if state and where and not state.row.function:
            self.change(state, function=where.function, file=where.file, line=where.line)

    def finish(self, *, is_over: bool = True, absent_because: str = "") -> None:
        """Record for each compilation which data the log lacks, and why; unless the log
        ``is_over``, only for those that have ended.
        """
        for state in self.all:
            if state.row.status == "restarted" or (state.row.status == "running" and not is_over):
                continue
            absent = [stage for stage in _STAGES if stage not in state.seen]
            if state.seen & {"post_grad", "output_code"}:
                backend = "inductor"
            else:
                backend = ""
            self.change(
                state,
                backend=backend,
                missing_stages=dict.fromkeys(absent, absent_because or _why_missing(state)) or None,
            )
            if not state.has_ended and not _NUMBERS.search(state.row.name):
                self.change(state, status="ok")


def _why_missing(state: LogCompilation) -> str:
    if state.cache_hits:
        return f"taken from torch's cache ({', '.join(sorted(state.cache_hits))})"
    if "dynamo" not in state.seen and _NUMBERS.search(state.row.name):
        return "Dynamo captured no tensor operation here"
    return NOT_IN_LOG


def _status(metrics: dict[str, Any], has_broken: bool) -> Status:
    if metrics.get("fail_type"):
        if metrics["fail_type"] in _RUNS_IN_EAGER:
            return "skipped"
        return "failed"
    if not metrics.get("has_guarded_code", True):
        return "skipped"
    return "broke" if has_broken else "ok"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float):
        return 0.0
    return max(0.0, float(value))
