"""This module has the state of a capture that the hooks share while it runs: the writer, the
compilation in progress, and its records so far.

The hooks (dynamo/, aot/, inductor/, trace.py) see torch; this file turns what they see into rows. A
fault of ours must never become a fault of the user's compile: every hook does its recording inside
``noting``. Compiles that are ours, not the program's, are recorded by nobody (``unrecorded``).
"""

from __future__ import annotations

import contextlib
import time
import traceback
import types
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch

from fx_explorer.capture.compile_time import Phases
from fx_explorer.capture.recording import fx_graphs
from fx_explorer.capture.recording.boundary import Boundary, StraightThrough
from fx_explorer.capture.recording.compilation_state import (
    CompilationState,
    RecordedGraph,
    Segment,
    ThisThread,
)
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.dynamo_code import DynamoBytecode, ResumeCode
from fx_explorer.capture.recording.function_names import GivenCallables
from fx_explorer.capture.recording.live_guards import LiveGuards
from fx_explorer.capture.recording.meta_texts import MetaTexts, graph_meta
from fx_explorer.capture.recording.noting import (
    AheadOfTime,
    BackendError,
    CallAgain,
    DynamoAndOverridesOff,
    DynamoOff,
    Noting,
    Published,
    RecompileNotes,
)
from fx_explorer.capture.recording.sources import Sources
from fx_explorer.capture.torch_compat.private_names import torch_guards
from fx_explorer.errors import SessionWriteError
from fx_explorer.model import (
    STAGES,
    Artifact,
    ArtifactKind,
    CaptureRequest,
    Compilation,
    Direction,
    Failure,
    Graph,
    NodeMeta,
    Notice,
    OptionInForce,
    Stage,
)
from fx_explorer.model.library_call import LibraryCall
from fx_explorer.session.bounds import MAX_TRACEBACK, shortened
from fx_explorer.session.writer import IN_MEMORY, SessionWriter
from fx_explorer.torch_texts.reports import error_of_frame

Notify = Callable[[Notice], None]


AUTOGRAD_WHILE_INSPECTING = (
    "graphs run in eager mode while inspecting, so eager autograd's backward is compiled; with "
    "--build, the backward of the compiled graphs is compiled"
)


class Recording:
    """The state of one capture in progress."""

    def __init__(self, writer: SessionWriter, request: CaptureRequest, notify: Notify) -> None:
        self.writer = writer
        self.request = request
        self.notify = notify
        self.sources = Sources(writer)
        self.node_rows = fx_graphs.NodeRows(self.sources, self._source_from_the_start)
        self.meta_texts = MetaTexts()
        self.started = time.time()
        self.waited_s = 0.0
        """Seconds that the compiler waited for the user at gates. They do not count as compile
        time.
        """
        self.phases = Phases(lambda: time.time() - self.started - self.waited_s)
        """The phases that torch is timing, and the user's lines that they are at."""
        self.boundary: Boundary = StraightThrough()
        """The Boundary that the hooks of each stage hand their work to."""
        self.with_pythons_own: Callable[[], contextlib.AbstractContextManager[object]] = (
            contextlib.nullcontext
        )
        """Returns a context manager inside which Python's own functions are restored, in case the
        program has replaced them.
        """
        self.describe_replaced: Callable[[], str] = lambda: ""
        """Names the functions that the program has replaced, which may be why a record failed;
        empty without any.
        """
        self.flush: Callable[[], None] = lambda: None
        """Writes the rows that a hook has buffered."""
        self.forward_ended: Callable[[object], None] = lambda loss: None
        """Called when the program has called the compiled target, while the result (with its loss)
        is alive.
        """

        self._states: dict[str, CompilationState] = {}
        """Compilation → its state; restarted when torch reuses a name."""

        # what hooks leave for each other
        self.live_guards = LiveGuards()
        self.dynamo_bytecode = DynamoBytecode()
        self.recompiles = RecompileNotes()
        self.ahead_of_time = AheadOfTime()
        self.given = GivenCallables()
        self.output_codes: set[int] = set()
        """Text ids of the output codes that were generated here."""
        self.library_calls: dict[int, LibraryCall] = {}
        """Id of a library's KernelCall → how to repeat the call alone. Empty unless that was
        requested, for a GPU.
        """
        self.counters: dict[str, Counter[str]] = {}
        """Group → torch's counts during the capture, such as ``counters["graph_break"]``."""
        self.options_in_force: list[OptionInForce] = []
        """The options shown in the console, with every value they had."""
        self.process_groups: set[str] = set()
        """Names of the process groups that are in the session."""
        self.published = Published()
        self.call_again: CallAgain | None = None
        """Repeats the captured call; None before the first call, and for a script."""

        self._resets: dict[str, int] = {}
        self._attempts: dict[str, int] = {}
        self._direct_calls = 0
        self.here = ThisThread()
        self._broken = False
        self._told_unavailable: set[tuple[str, str]] = set()
        self._told_of_autograd = False

    def begin_in_fork(self) -> None:
        """Start again in a child that the program forked: its compilations are not the parent's,
        and it is not stepped through.

        The writer begins a session of its own with the first row.
        """
        self._states.clear()
        for known in (
            self.recompiles.functions,
            self.recompiles.receivers,
            self.recompiles.failed_guards,
            self.output_codes,
            self.process_groups,
            self.counters,
            self.options_in_force,
        ):
            known.clear()
        self.published = Published()
        self._resets.clear()
        self._attempts.clear()
        self._told_unavailable.clear()
        self.sources = Sources(self.writer)
        self.node_rows = fx_graphs.NodeRows(self.sources, self._source_from_the_start)
        self.boundary = StraightThrough()
        self.notify = lambda notice: None
        self._broken = False

    # which compilation, which direction

    def compilation_name(self) -> str:
        """Return the name of the compilation torch is in, ``0/0``; empty outside any."""
        context = getattr(torch_guards, "CompileContext", None)
        compile_id = context.current_compile_id() if context else None
        if compile_id is None:
            return self.here.ahead or ""
        return str(compile_id)

    def latest(self) -> str:
        """Return the name of the compilation that torch is running now, on any thread; empty when
        there is none.
        """
        for name, state in reversed(self._states.items()):
            if state.row and state.row.status == "running":
                return name
        return ""

    def next_direct_number(self) -> int:
        """Return a number for a compilation that the program requests without Dynamo
        (given_directly.py).
        """
        self._direct_calls += 1
        return self._direct_calls - 1

    @contextlib.contextmanager
    def within(self, name: str) -> Iterator[None]:
        """Assign records inside the block to the compilation ``name``."""
        if self.compilation_name() == name:
            yield
            return
        with self.here.compiling_ahead():
            self.here.stay_in(name)
            yield

    def of(self, name: str) -> CompilationState:
        """Return the state of a compilation; an empty one for an unknown name."""
        return self._states.setdefault(name, CompilationState())

    def row(self, name: str) -> Compilation:
        """Return the row as it was added to the session."""
        row = self.of(name).row
        if row is None:
            raise KeyError(name)
        return row

    def resume_code(self, code: types.CodeType) -> ResumeCode:
        """Return the ResumeCode of a resume function; for any other function a ResumeCode whose
        arguments have their own names.
        """
        return self.dynamo_bytecode.resume_codes.get(code) or ResumeCode(code)

    def _source_from_the_start(self, source: str) -> str:
        """Return a source of a resume function in the names of the original function. Any other
        source is returned unchanged.
        """
        made = self.of(self.compilation_name()).resume_code
        if not made:
            return source
        return made.original(source)

    def compilation_id(self, name: str | None = None) -> int:
        """Return the row of the compilation (default: the current one); 0 outside of any. The row
        is added if torch has not announced the compilation.
        """
        name = self.compilation_name() if name is None else name
        if not _is_a_frame(name):
            return 0
        if self.of(name).row is None:
            self.add_compilation(name, Compilation(0, name, *_frame_numbers(name), "", "", 0))
        return self.row(name).id

    def variant_id(self, name: str | None = None) -> int:
        """Return the row to which results after Dynamo belong: the variant being compiled, else the
        compilation itself.
        """
        name = self.compilation_name() if name is None else name
        return self.of(name).variant or self.compilation_id(name)

    def add_compilation(self, name: str, row: Compilation) -> None:
        row = replace(row, start_s=self.elapsed())
        self.of(name).row = replace(row, id=self.writer.add(row))
        if name.startswith("!") and not self.request.build and not self._told_of_autograd:
            self._told_of_autograd = True
            self.unavailable("compiled autograd", AUTOGRAD_WHILE_INSPECTING)
        self.notify(Notice("compilation", compilation=name))

    def change_compilation(self, name: str, **changes: object) -> None:
        self.compilation_id(name)
        self.of(name).row = row = replace(self.row(name), **changes)  # type: ignore[arg-type]
        self.writer.update(row)
        self.notify(Notice("compilation", compilation=name))

    def begin_again(self, name: str) -> None:
        """Begin a new compilation under a used ``name``: torch numbers its frames again after
        ``torch._dynamo.reset()``.
        """
        self._resets[name] = self._resets.get(name, 1) + 1
        self._states.pop(name, None)
        row = Compilation(0, f"{name}#{self._resets[name]}", *_frame_numbers(name), "", "", 0)
        self.add_compilation(name, row)

    def set_aside(self, name: str, reason: str) -> None:
        """Give the current attempt a row of its own, because Dynamo restarts the compilation after
        a graph was compiled.
        """
        whole = self.row(name)
        attempt = self._attempts[name] = self._attempts.get(name, -1) + 1
        row = replace(whole, id=0, name=f"{whole.name}_{attempt}", status="restarted", error=reason)
        self.writer.move_compilation(whole.id, self.writer.add(row))
        state = self.of(name)
        state.segment, state.seen_stages = None, set()
        self.boundary.set_aside(name, row.name)
        if whole.status == "left":
            self.change_compilation(name, status="running", error="")
        self.notify(Notice("compilation", compilation=row.name))

    def restart_reason(self, name: str) -> str:
        raised = self.take_error(name)
        if raised:
            return one_line(f"{type(raised.error).__name__}: {error_of_frame(str(raised.error))}")
        return "Dynamo started again"

    def take_error(self, name: str) -> BackendError | None:
        """Return and remove the error that a backend raised in the compilation."""
        state = self.of(name)
        raised, state.error = state.error, None
        return raised

    @property
    def stage(self) -> Stage | None:
        """Return the last stage that the current compilation reached."""
        seen = self.of(self.compilation_name()).seen_stages
        for stage in reversed(STAGES):
            if stage in seen:
                return stage
        return None

    def segment(self) -> Segment:
        if self.here.segment:
            return self.here.segment
        state = self.of(self.compilation_name())
        if state.segment is None:
            state.segment = Segment()
        return state.segment

    @contextlib.contextmanager
    def nothing_learnt(self) -> Iterator[None]:
        """Restore the state of each compilation after the block, so that the block changes nothing
        in it.
        """
        before = {name: state.copied() for name, state in self._states.items()}
        try:
            yield
        finally:
            self._states = before

    def elapsed(self) -> float:
        return time.time() - self.started

    # adding

    def add_graph(
        self,
        module: torch.fx.GraphModule,
        stage: Stage,
        direction: Direction = "",
        *,
        name: str = "",
        parent: int = 0,
        label: str = "",
        results: tuple[int, ...] = (),
    ) -> RecordedGraph:
        """Store a graph, and the nested graphs of its higher-order ops as graphs of their own.

        The nested compile regions of a joint graph have been stored already, each as a joint graph
        of its own.
        """
        live = list(module.graph.nodes)
        if stage == "dynamo":
            self.node_rows.forget()
            self.meta_texts.forget()
        rows = [self.node_rows.of(node) for node in live]
        calls = sum(node.op in fx_graphs.CALLS for node in live)
        if not label and self.here.segment is not None:
            label = self.here.segment.bucket
        graph = Graph(
            0,
            self.variant_id(),
            stage,
            direction,
            name,
            parent,
            call_count=calls,
            label=label,
            results=results,
        )
        placed = self.writer.add_graph(graph, rows, fx_graphs.edges(module.graph))
        ids = {node: placed.first_node + i for i, node in enumerate(live)}
        recorded = RecordedGraph(placed, module, ids, {node.name: row for node, row in ids.items()})
        self._add_meta(placed, live)
        for call, inner_name, inner in fx_graphs.nested_graphs(module):
            full_name = f"{name}.{inner_name}" if name else inner_name
            # A part of what a backend publishes is called as the whole is.
            if stage == "backend":
                inner_label = label
            else:
                inner_label = fx_graphs.region_label(call, inner, self.sources)
            region = self.segment().region_of(inner) if stage == "joint" else None
            if region is None:
                inside = self.add_graph(
                    inner, stage, direction, name=full_name, parent=placed.id, label=inner_label
                )
            else:
                inside = self._place_region(region, full_name, placed.id, inner_label)
            recorded.nested[inner_name] = inside
        self.saw(stage)
        return recorded

    def _add_meta(self, graph: Graph, nodes: Sequence[torch.fx.Node]) -> None:
        with self.noting("what node.meta holds", graph.stage):
            text = graph_meta(nodes, self.meta_texts)
            if text:
                frame = self.compilation_name().partition("/")[0]
                body = self.writer.text(text, like=f"{frame} node.meta")
                self.writer.add(NodeMeta(0, graph.id, body))

    def _place_region(
        self, region: RecordedGraph, name: str, parent: int, label: str
    ) -> RecordedGraph:
        """Add to a nested region's joint graph the graph that calls it, which is known only now.
        The forward and the backward of the region share the joint graph.
        """
        if not region.graph.parent:
            region.graph = replace(region.graph, parent=parent, label=label)
            for recorded in region.whole():
                recorded.graph = replace(
                    recorded.graph, name=f"{name}.{recorded.graph.name}".strip(".")
                )
                self.writer.update(recorded.graph)
        return region

    def add_option(self, row: OptionInForce) -> None:
        """Add a value that an option has. A repeated value is left out."""
        if row not in self.options_in_force:
            self.options_in_force.append(row)
            self.writer.add(row)

    def add_artifact(
        self,
        kind: ArtifactKind,
        stage: Stage,
        text: str,
        *,
        title: str,
        language: str,
        direction: Direction = "",
    ) -> int:
        lines = text.removesuffix("\n").count("\n") + 1
        if stage == "dynamo":
            owner = self.compilation_id()
        else:
            owner = self.variant_id()
        frame = self.compilation_name().partition("/")[0]
        # Texts of one frame are alike, and kept by what differs (session/elsewhere.py).
        body = self.writer.text(text, like=f"{frame} {kind} {direction}")
        row = Artifact(0, owner, kind, stage, direction, title, language, body, lines)
        artifact = self.writer.add(row)
        self.saw(stage)
        return artifact

    def saw(self, stage: Stage) -> None:
        """Note that something of ``stage`` is in the file for the current compilation."""
        name = self.compilation_name()
        self.of(name).seen_stages.add(stage)
        self.notify(Notice("artifact", stage=stage, compilation=name))

    # faults

    def noting(self, what: str, stage: Stage | None = None) -> Noting:
        """Record ``what`` inside the block. An error of ours in it does not affect the compile; it
        is stored and shown.
        """
        return Noting(self.add_fault, what, stage, DynamoAndOverridesOff())

    def noting_guards(self, what: str, stage: Stage | None = None) -> Noting:
        """Do as ``noting`` where guards are evaluated: they look at whether ``__torch_function__``
        is on.
        """
        return Noting(self.add_fault, what, stage, DynamoOff())

    def add_fault(self, what: str, stage: Stage | None, error: Exception) -> None:
        """Store that recording ``what`` failed, for a reason that is not the program's."""
        if isinstance(error, SessionWriteError):
            if not self._broken:
                self._broken = True
                self.notify(Notice("note", text=f"recording stopped: {error}"))
            return
        replaced = self.describe_replaced()
        with self.with_pythons_own():
            text = "; ".join(filter(None, (f"could not record {what}: {error}", replaced)))
            self.add_failure("recorder", stage, error, text)

    def add_failure(
        self, where: str, stage: Stage | None, error: BaseException, message: str
    ) -> None:
        text = shortened("".join(traceback.format_exception(error)), MAX_TRACEBACK)
        with contextlib.suppress(
            SessionWriteError
        ):  # reported by noting() at the first failed write
            row = Failure(
                0,
                self.variant_id(),
                where,
                stage,
                type(error).__name__,
                message,
                self.writer.text(text),
            )
            self.writer.add(row)
        self.notify(Notice("note", text=message, stage=stage))

    def note_of_backend(self, message: str, compilation: int, kind: str = "published") -> None:
        """Store, once, a problem with a backend's result or publication, or, with the kind
        ``remark``, a part of it that is not shown.
        """
        if message in self.published.messages:
            return
        self.published.messages.add(message)
        self.writer.add(Failure(0, compilation, "backend", "backend", kind, message))
        self.notify(Notice("note", text=message, stage="backend"))

    def unavailable(self, view: str, reason: str) -> None:
        """Record once that this torch release lacks a hook, so that the view stays empty with a
        reason.
        """
        if (view, reason) in self._told_unavailable:
            return
        self._told_unavailable.add((view, reason))
        with contextlib.suppress(
            SessionWriteError
        ):  # reported by noting() at the first failed write
            self.writer.add(Failure(0, 0, "recorder", None, "unavailable", f"{view}: {reason}"))


def _is_a_frame(name: str) -> bool:
    """Return whether the name belongs to a frame. A bare ``!2`` does not: there compiled autograd
    only captures the backward, which is compiled as ``!2/0/0``.
    """
    return "/" in name


def _frame_numbers(name: str) -> tuple[int, int]:
    """Return (frame, recompile): (0, 1) for ``0/1`` and ``!2/0/1``."""
    frame, recompile = name.split("/")[-2:]
    return int(frame), int(recompile)


# The recordings in progress, and the blocks that nobody records.


_observing: list[Recording] = []


@contextlib.contextmanager
def registered(recording: Recording) -> Iterator[None]:
    """Have torch report to ``recording`` inside the block."""
    _observing.append(recording)
    try:
        yield
    finally:
        _observing.remove(recording)


def recordings() -> tuple[Recording, ...]:
    """Return the recordings that are active now."""
    return tuple(_observing)


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """Hide the block from all recordings."""
    with contextlib.ExitStack() as stack:
        for recording in recordings():
            stack.enter_context(recording.nothing_learnt())
            stack.enter_context(unrecorded(recording))
        yield


@contextlib.contextmanager
def unrecorded(recording: Recording) -> Iterator[None]:
    """Record the block into a temporary session that is discarded."""
    # What was recorded before the block belongs into the real session.
    recording.flush()
    before = (
        recording.writer,
        recording.sources,
        recording.notify,
        recording.request,
        recording.published,
    )
    with SessionWriter(IN_MEMORY) as scratch:
        recording.writer, recording.sources, recording.published = (
            scratch,
            Sources(scratch),
            Published(),
        )
        recording.notify, recording.request = (
            lambda notice: None,
            replace(recording.request, build=True),
        )
        try:
            yield
        finally:
            # What was recorded inside must not be written into the real one later.
            recording.flush()
            (
                recording.writer,
                recording.sources,
                recording.notify,
                recording.request,
                recording.published,
            ) = before
