"""This module records torch's structured trace inside the process: the records that TORCH_TRACE
would write to a log.

From here come compilations and how they ended, graph breaks, recompiles, the guard tree, symbols
and times (torch's own events, ``dynamo_timed``, torch/_dynamo/utils.py); graphs and kernels come
from live objects (other files). Records that are of no use here are never evaluated
(trace_calls.py).
"""

from __future__ import annotations

import contextlib
import json
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fx_explorer.capture.compile_time import LineClock
from fx_explorer.capture.dynamo.failed_guards import count_failed
from fx_explorer.capture.dynamo.fallbacks import add_break, callers
from fx_explorer.capture.dynamo.symbol_rows import RECORDS, add_record
from fx_explorer.capture.recording import stage_events
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.function_names import being_compiled, is_wrapper, qualified_name
from fx_explorer.capture.recording.noting import FailedGuard, GuardedValue
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.private_names import INTERN_TABLE
from fx_explorer.capture.torch_compat.trace_calls import ARTIFACT, TraceCall, observed_trace_calls
from fx_explorer.model import (
    Artifact,
    Failure,
    Frame,
    Metric,
    Notice,
    PhaseLine,
    Recompile,
    Span,
    Stage,
    Status,
)
from fx_explorer.model.rows.observation import CALLS_BEFORE, INSTANCES
from fx_explorer.torch_texts.reports import error_of_frame, parse_reason, parse_stack
from fx_explorer.torch_texts.torch_names import LARGE_METRICS, STAGE_OF_EVENT


@contextlib.contextmanager
def trace_records(recording: Recording) -> Iterator[None]:
    """Listen while the block runs. A handler of the user's (TORCH_TRACE) continues as before."""
    records = _Records(recording)
    recording.flush = records.spans.flush
    with observed_trace_calls(records.take_call):
        yield
    records.spans.flush()
    with recording.noting("code from torch's cache"):
        records.add_cached_code()


Handle = Callable[[str, Any, Callable[[], Any]], None]
"""A function that handles a record. It takes the compilation's name, the record's content, and a
function that evaluates the payload.
"""


class _Records:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.spans = Spans(recording)
        self._errors: dict[str, str] = {}
        self._attempt = 0
        """Number of Dynamo's attempt at the frame that the record is about."""
        self._output_codes: list[tuple[str, str]] = []
        self._waited_before: dict[str, float] = {}
        """Compilation → seconds of waiting for the user before its frame began."""
        self._handles: dict[str, Handle] = {
            "dynamo_start": self._start,
            "compilation_metrics": self._end,
            "bwd_compilation_metrics": self._metrics,
            "dynamo_cpp_guards_str": self._guard_tree,
            **{kind: self._symbol(kind) for kind in RECORDS},
            "chromium_event": lambda name, _, payload: self.spans.add(name, payload()),
            "artifact:dynamo_graph_break_reason": lambda name, _, payload: add_break(
                recording, name, payload()
            ),
            "artifact:dynamo_error": self._error,
            "artifact:recompile_reasons": self._recompile,
            "artifact:fx_graph_cache_hit": self._cache_event,
            "artifact:fx_graph_cache_miss": self._cache_event,
            "artifact:fx_graph_cache_bypass": self._cache_event,
            "artifact:aotautograd_cache_hit": self._cache_event,
            "artifact:aotautograd_cache_miss": self._cache_event,
            "artifact:aotautograd_cache_bypass": self._cache_event,
        }
        if recording.request.use_caches:
            self._handles["inductor_output_code"] = self._output_code

    def take_call(self, call: TraceCall) -> None:
        if call.name != ARTIFACT and call.name not in self._handles:
            return
        with self._recording.noting(f"a {call.name} record"):
            handle = self._handles.get(call.kind)
            if handle is not None:
                self._attempt = call.attempt
                handle(call.compilation, call.content(), call.payload)

    # compilations

    def _start(self, name: str, content: dict[str, Any], _: object) -> None:
        """Note that Dynamo begins with a frame: which function it is, and who calls it."""
        recording = self._recording
        self._waited_before.setdefault(name, recording.waited_s)
        known = recording.of(name).row if name else None
        if not name or (known is not None and known.status == "running" and known.function):
            return
        if known is not None and known.status != "running":
            recording.begin_again(name)
        recording.ahead_of_time.captured.discard(name)
        where = _of_the_user(recording, _frames(content["stack"])[-1])
        recording.sources.file(where.file)
        recording.change_compilation(
            name,
            function=where.function,
            file=where.file,
            line=where.line,
            stack=recording.sources.stack(callers(recording.sources)),
            backend=recording.request.backend,
        )

    def _end(self, name: str, content: dict[str, Any], _: object) -> None:
        """Note how the compilation of a frame ended: its status, its error, its restarts and how
        long it took.
        """
        self._metrics(name, content, None)
        recording = self._recording
        if recording.boundary.is_outside:  # another variant, of a frame that Dynamo is through with
            self.spans.flush()
            return
        if (
            name in recording.ahead_of_time.captured
        ):  # such a record ends each part of it; how it went is recorded elsewhere
            self.spans.flush()
            return
        if not name:
            return
        recording.compilation_id(name)
        row = recording.row(name)
        status = self._status(name, content)
        if status == "left":
            error = row.error
        else:
            error = one_line(error_of_frame(content.get("fail_reason") or ""))
        if status == "failed":
            error = self._add_failure(name, content)
        restarts = tuple(
            sorted(_first_line(reason) for reason in content.get("restart_reasons") or ())
        )
        waited_s = recording.waited_s - self._waited_before.pop(name, recording.waited_s)
        code = recording.recompiles.functions.pop(name, None)
        if code and not row.function:  # refused at the recompile limit, before Dynamo began with it
            where = _of_the_user(
                recording, Frame(code.co_filename, code.co_firstlineno, qualified_name(code), "")
            )
            recording.change_compilation(
                name, function=where.function, file=where.file, line=where.line
            )
        if code and "_limit" in error:
            self._add_instances(name, code)
        recording.change_compilation(
            name,
            status=status,
            error=error,
            attempts=1 + len(restarts),
            restart_reasons=restarts,
            backend=recording.of(name).backend or row.backend,
            duration_s=max(
                0.0, float(content.get("entire_frame_compile_time_s") or 0.0) - waited_s
            ),
            missing_stages=stage_events.missing(recording, name, status, error),
        )
        self.spans.flush()

    def _add_instances(self, name: str, code: types.CodeType) -> None:
        """Add, for a method that was refused at the recompile limit, the object it was called on
        and how many objects of the class there are.
        """
        recording = self._recording
        instances = recording.live_guards.living_instances(code)
        if instances:
            recording.writer.add(
                Metric(0, recording.compilation_id(name), INSTANCES, json.dumps(instances))
            )
        receiver = recording.recompiles.receivers.pop(name, 0)
        if receiver:
            recording.change_compilation(name, receiver=receiver)

    def _add_failure(self, name: str, content: dict[str, Any]) -> str:
        """Store the error that ended the compilation, or a backend's own exception that caused it;
        returns it as one line.
        """
        recording = self._recording
        raised = recording.take_error(name)
        if raised:
            message = one_line(
                f"{type(raised.error).__name__}: {raised.error}"
            ) + self._after_stage(raised.stage)
            text, stage = "".join(traceback.format_exception(raised.error)), raised.stage
        else:
            message = one_line(f"{content['fail_type']}: {content.get('fail_reason') or ''}")
            text, stage = self._errors.get(name) or content.get("fail_reason") or "", "dynamo"
        recording.sources.stack(
            parse_stack(text.rpartition("from user code:")[2])
        )  # so that the user's files can be shown
        text_id, compilation = recording.writer.text(text), recording.compilation_id(name)
        recording.writer.add(
            Failure(0, compilation, "compiler", stage, content["fail_type"], message, text_id)
        )
        return message

    def _after_stage(self, stage: Stage | None) -> str:
        """Return a phrase on the stage that a backend published last before it raised; empty if it
        had published none.
        """
        published = self._recording.published.stages.get(self._recording.variant_id(), [])
        if stage == "backend" and published:
            return f" (after its stage {published[-1].name!r})"
        return ""

    def _error(self, name: str, _: object, payload: Callable[[], str]) -> None:
        self._errors[name] = payload()

    def _status(self, name: str, content: dict[str, Any]) -> Status:
        if self._recording.row(name).status == "left":
            return "left"
        if content.get("fail_type"):
            if content["fail_type"] in ("Unsupported", "UserError", "SkipFrame"):
                return "skipped"
            return "failed"
        if not content.get("has_guarded_code", True):
            return "running" if _is_ending() else "skipped"
        if self._recording.of(name).has_broken:
            return "broke"
        return "ok"

    def _metrics(self, name: str, content: dict[str, Any], _: object) -> None:
        small = {key: value for key, value in content.items() if key not in LARGE_METRICS}
        kept = {key: value for key, value in small.items() if not _says_nothing(value)}
        if content.get("is_forward") is not False:
            label = "compilation_metrics"
        else:
            label = "bwd_compilation_metrics"
        self._recording.writer.add(
            Metric(0, self._recording.compilation_id(name), label, json.dumps(kept, default=str))
        )

    # what happened in them

    def _recompile(self, name: str, _: object, payload: Callable[[], Any]) -> None:
        known = self._recording.of(name).row
        if known is not None and known.status != "running":
            self._recording.begin_again(name)
        add_recompiles(self._recording, name, payload)

    def _guard_tree(self, name: str, _: object, payload: Callable[[], str]) -> None:
        if name:
            self._recording.add_artifact(
                "guard_tree", "dynamo", payload().strip("\n"), title="guard tree", language="text"
            )

    def _symbol(self, kind: str) -> Handle:
        def add(name: str, content: dict[str, Any], _: object) -> None:
            add_record(
                self._recording,
                kind,
                name,
                self._attempt,
                content,
                _frames(content.get("user_stack") or ()),
            )

        return add

    def _output_code(self, name: str, _: object, payload: Callable[[], str]) -> None:
        """Add the code that torch's cache returned. No hook sees it, because no graph was lowered
        for it.
        """
        self._output_codes.append((name, payload()))
        self._recording.saw("output_code")

    def add_cached_code(self) -> None:
        writer = self._recording.writer
        for name, code in self._output_codes:
            text = writer.text(code)
            if text not in self._recording.output_codes:
                compilation, lines = (
                    self._recording.compilation_id(name),
                    code.removesuffix("\n").count("\n") + 1,
                )
                title = "output code, from torch's cache"
                writer.add(
                    Artifact(
                        0,
                        compilation,
                        "output_code",
                        "output_code",
                        "",
                        title,
                        "python",
                        text,
                        lines,
                    )
                )

    def _cache_event(self, name: str, content: dict[str, Any], payload: Callable[[], Any]) -> None:
        """Record a cache's answer, and store the key with its components, by which two runs are
        compared.
        """
        event = str(content["name"])
        self._recording.of(name).cache_events.append(event)
        compilation, writer = self._recording.compilation_id(name), self._recording.writer
        writer.add(Metric(0, compilation, "cache_event", json.dumps(event)))
        text = payload()
        if not isinstance(text, str):
            text = json.dumps(text, default=str)
        stage: Stage = "joint" if event.startswith("aotautograd") else "post_grad"
        body = writer.text(text, like=f"cache {event}")
        writer.add(
            Artifact(
                0, compilation, "listing", stage, "", event, "json", body, text.count("\n") + 1
            )
        )


def _of_the_user(recording: Recording, where: Frame) -> Frame:
    """Return the frame of the callable that the user passed to torch.compile, where Dynamo has
    torch's wrapper around it.
    """
    if not is_wrapper(where.file, where.function):
        return where
    given = recording.given.of(being_compiled())
    return Frame(given.file or where.file, given.line or where.line, given.name, "")


def _frames(stack: Any) -> tuple[Frame, ...]:
    """Return the frames of a structured stack; file names are numbers into torch's intern table."""
    names = {number: text for text, number in INTERN_TABLE.items()}
    frames = []
    for entry in stack:
        file = str(names.get(entry["filename"], entry["filename"]))
        frames.append(Frame(file, entry["line"], entry["name"], entry.get("loc") or ""))
    return tuple(frames)


def _is_ending() -> bool:
    """Return whether what ends the process (Ctrl-C, a signal, sys.exit) is on its way through the
    compiler: the compilation is then not over, and nothing is known of its end.
    """
    error = sys.exc_info()[1]
    return error is not None and not isinstance(error, Exception)


def _says_nothing(value: object) -> bool:
    """Return whether a figure is missing, or a count or a time of zero: of torch's hundred figures
    a compilation has about twenty.
    """
    if type(value) in (int, float):
        return not value
    return value in (None, [], "")


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


# Recompiles as rows: the guard that failed in torch's words, and what it looked at.


def add_recompiles(recording: Recording, name: str, payload: Callable[[], Any]) -> None:
    """Add rows for the failed guards that the hook recorded (failed_guards.py). Without them, add
    rows for torch's report: a text or a list of texts, returned by ``payload``.
    """
    noted = recording.recompiles.failed_guards.pop(name, None)
    if noted is None:
        noted = {}
        reasons = payload()
        if not isinstance(reasons, list):
            reasons = [reasons]
        for reason in reasons:
            count_failed(noted, str(reason), GuardedValue)
    for failed in noted.values():
        _add(recording, name, failed)
    calls = _calls_of_earlier_versions(recording, name)
    if calls:
        metric = Metric(0, recording.compilation_id(name), CALLS_BEFORE, json.dumps(calls))
        recording.writer.add(metric)


def _calls_of_earlier_versions(recording: Recording, name: str) -> int:
    """Return how often what the earlier versions of a function made was called; 0 where one of them
    made nothing that is counted.
    """
    frame, _, number = name.partition("/")
    if not (frame.isdecimal() and number.isdecimal()):
        return 0
    calls: dict[int, int] = {}
    for entry in recording.published.entries:
        if entry.row.direction != "backward":
            row = entry.row.compilation
            calls[row] = max(calls.get(row, 0), entry.calls)
    earlier = [recording.compilation_id(f"{frame}/{i}") for i in range(int(number))]
    if not all(calls.get(row) for row in earlier):
        return 0
    return sum(calls[row] for row in earlier)


def _add(recording: Recording, name: str, guard: FailedGuard) -> None:
    """Add the row of a text ``0/0: CHECK  # CODE  # FILE:LINE in FUNCTION``, perhaps with the user
    stack below (torch/_dynamo/guards.py).
    """
    value, reason = guard.value, parse_reason(guard.reason)
    sources = recording.sources
    user = sources.user_frame(reason.frames)
    if user:
        file, line = (user.file, user.line)
    else:
        file, line = (sources.complete(reason.file), reason.line)
    compilation = recording.compilation_id(name)
    row = Recompile(
        0,
        compilation,
        reason.of,
        guard.reason,
        reason.guard,
        file,
        line,
        value.source,
        value.old,
        value.new,
        guard.times,
    )
    recording.writer.add(row)


# How long the stages take.


PASS = "pass."
"""Prefix of torch's names for passes (``GraphTransformObserver``,
torch/fx/passes/graph_transform_observer.py).
"""

SHORT_PASS_S = 0.0005
"""Seconds below which a pass counts as short. Half of the 50 events of a small compilation are
short, and together they take almost no time.
"""

EVERY_PASS_OF = 200
"""Number of compilations that get a row for every pass, and for every line of a phase. In later
ones a short pass has no row: its time counts for the enclosing event.
"""


class Spans:
    """Records spans of time, on a clock that stands still while the compiler waits for the user."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._ended: list[Span] = []
        self._lines: list[tuple[Span, LineClock]] = []
        """Phases that have ended, with the lines they were at."""

    def add(self, name: str, event: Mapping[str, Any]) -> None:
        """Record that an event begins or ends in the compilation called ``name``."""
        phase, event_name = event["ph"], event["name"]
        time_s = event["ts"] / 1e6 - self._recording.started - self._recording.waited_s
        phases = self._recording.phases
        stage = STAGE_OF_EVENT.get(event_name)
        if phase == "B":
            variant = self._recording.of(name).variant if name else 0
            phases.begin(event_name, time_s, variant)
            if stage:
                self._recording.notify(
                    Notice("phase", stage=stage, state="begin", compilation=name)
                )
        elif phase == "E" and (ended := phases.end(event_name, time_s)):
            start_s = ended.start_s
            if name:
                compilation = ended.variant or self._recording.compilation_id(name)
            else:
                compilation = 0
            is_short = event_name.startswith(PASS) and time_s - start_s < SHORT_PASS_S
            if not is_short or compilation <= EVERY_PASS_OF:
                span = Span(
                    0,
                    compilation,
                    event_name,
                    stage,
                    start_s,
                    time_s - start_s,
                    phases.depth,
                    phases.thread,
                )
                self._ended.append(span)
                if ended.lines.sums and compilation <= EVERY_PASS_OF:
                    self._lines.append((span, ended.lines))
            if stage:
                self._recording.notify(
                    Notice(
                        "phase",
                        stage=stage,
                        state="end",
                        compilation=name,
                        seconds=time_s - start_s,
                    )
                )

    def flush(self) -> None:
        """Write the events that have ended."""
        spans, self._ended = self._ended, []
        clocks, self._lines = self._lines, []
        with self._recording.noting("times"):
            self._recording.writer.add_all(spans)
            rows: list[PhaseLine] = []
            for span, lines in clocks:
                rows += self._rows(span, lines)
            self._recording.writer.add_all(rows)

    def _rows(self, span: Span, clock: LineClock) -> Iterator[PhaseLine]:
        for where, took_s in clock.sums.items():
            file = self._recording.sources.file(where.path)
            yield PhaseLine(
                0,
                span.compilation,
                span.name,
                span.start_s,
                file,
                where.line,
                where.module,
                took_s,
            )
