"""This module records captures ahead of time: ``Precompile`` and torch's own AOT compile capture a
function as one graph before any call of it.

Nothing runs under Dynamo then, so torch says neither which function it is nor that it went well.
Hook: ``_fullgraph_capture_frame`` (torch/_dynamo/convert_frame.py); what comes after Dynamo is told
by ``Precompile`` itself.

In a capture that is stepped through, Dynamo's graph waits inside ``Precompile.dynamo`` and the
later stages inside ``Precompile.aot_autograd``. Such a graph is never put off until the program has
ended, because its caller needs it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fx_explorer.capture.backends.asking import answerer
from fx_explorer.capture.backends.users_backend import backend_name
from fx_explorer.capture.dynamo.fallbacks import callers
from fx_explorer.capture.inspecting import building
from fx_explorer.capture.recording import stage_events
from fx_explorer.capture.recording.boundary import LoweringRequest
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.function_names import forward_of_call, qualified_name
from fx_explorer.capture.recording.given_directly import Compiler, given_directly, nobody_steps
from fx_explorer.capture.recording.state import Recording, recordings
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import convert_frame
from fx_explorer.capture.torch_compat.unseen_work import (
    caches_as_before,
    ignoring_older_cache_entries,
)
from fx_explorer.model import Compilation, Failure, Metric
from fx_explorer.model.rows.observation import GUARDS_IN_FILE

_NOT_LOWERED = "only Dynamo has been asked for so far"
_LOWERED = {"joint", "forward"}
"""Stages of which at least one has a graph when AOTAutograd has finished."""


def capture_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def capture(frame: Any, *args: Any, **kwargs: Any) -> Any:
            with recording.noting("a function that is captured ahead", "dynamo"):
                _announce(recording, frame)
                recording.here.stay_in(recording.compilation_name())
            with _part(recording, ""):
                captured = original(frame, *args, **kwargs)
            with recording.noting("guards that are built later", "dynamo"):
                output_graph = captured.graph_capture_output.output_graph
                name = recording.compilation_name()
                recording.ahead_of_time.traced.append((weakref.ref(output_graph), name))
            backend = recording.here.backend_of_file
            if backend is not None:
                with recording.noting("the backend of a function that is compiled ahead"):
                    _ask(recording, backend_name(backend), backend)
            return captured

        return capture

    return patched(convert_frame, "_fullgraph_capture_frame", make)


def _ask(recording: Recording, backend: str, compiler: Any) -> None:
    """Record the compiler of the graph, which can be asked what it supports."""
    recording.of(recording.compilation_name()).backend = backend
    recording.segment().answerer = answerer(backend, compiler)


@contextlib.contextmanager
def file_hook(recording: Recording) -> Iterator[None]:
    """Build the code that torch compiles for saving, even while inspecting, and cache it: torch
    takes the file's content from the cache.

    What it loads is built too: it has no graph that could run in the place of its kernels. Hooks:
    ``aot_compile_fullgraph``, behind ``torch.compile(…).aot_compile(…)``, and
    ``AOTCompiledFunction.deserialize`` (torch/_dynamo/aot_compile.py).
    """
    from fx_explorer.capture.torch_compat.private_names import aot_compile

    with (
        patched(
            aot_compile,
            "aot_compile_fullgraph",
            functools.partial(_compiling_for_a_file, recording),
        ),
        patched(aot_compile.AOTCompiledFunction, "deserialize", _loading_a_file),
    ):
        yield


def _compiling_for_a_file(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compile_to_save(*args: Any, **kwargs: Any) -> Any:
        backend = None
        for argument in (*args, *kwargs.values()):
            if hasattr(argument, "compiler_name"):
                backend = argument
                break
        before, recording.here.backend_of_file = recording.here.backend_of_file, backend
        name = "" if backend is None else backend_name(backend)
        try:
            with recording.here.compiling_ahead(), _for_a_file(), _whole(recording, name):
                made = original(*args, **kwargs)
                with recording.noting("that a function is built in order to be saved"):
                    compilation = recording.row(recording.compilation_name())
                    recording.ahead_of_time.built_to_save.add(compilation.name)
                return made
        finally:
            recording.here.backend_of_file = before

    return compile_to_save


def _loading_a_file(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def deserialize(*args: Any, **kwargs: Any) -> Any:
        with _for_a_file():
            return original(*args, **kwargs)

    return deserialize


@contextlib.contextmanager
def _for_a_file() -> Iterator[None]:
    with building(), caches_as_before(), ignoring_older_cache_entries():
        yield


@contextlib.contextmanager
def _whole(recording: Recording, backend: str) -> Iterator[None]:
    """Record the outcome of torch's own AOT compile. The hook in Dynamo records the outcome of
    Dynamo's part.
    """
    began_s = time.perf_counter()
    try:
        yield
    except Exception as error:
        name = recording.compilation_name()
        row = recording.of(name).row
        if row is not None and row.status != "failed":
            with recording.noting("how the compile of a function ahead of time ended"):
                _failed(recording, name, error, backend)
        raise
    with recording.noting("how the compile of a function ahead of time ended"):
        name = recording.compilation_name()
        recording.of(name).backend = backend
        missing = stage_events.missing(recording, name, "ok")
        spent_s = time.perf_counter() - began_s
        recording.change_compilation(
            name, backend=backend, duration_s=spent_s, missing_stages=missing
        )


@contextlib.contextmanager
def phase(backend: str = "", lowering: LoweringRequest | None = None) -> Iterator[None]:
    """Mark in every recording that a part of ``Precompile`` after Dynamo runs inside the block.
    ``backend`` is empty where nothing is lowered yet.
    """
    with contextlib.ExitStack() as stack:
        for recording in recordings():
            with recording.noting("a phase of Precompile"):
                _begin(recording, backend, lowering)
            stack.enter_context(_part(recording, backend))
        yield


def record_guards_again() -> None:
    """Record the guards again, replacing the earlier rows: lowering has added guards, so that torch
    builds all of them again.
    """
    for recording in recordings():
        with recording.noting("guards that are built again", "dynamo"):
            recording.writer.remove_guards(recording.compilation_id())


Recorded = tuple[tuple[Recording, Compilation], ...]
"""Each recording with its row of one compilation."""


def recorded() -> Recorded:
    """Return the compilation that torch is in as each recording has it, for ``note_saved``."""
    rows = []
    for recording in recordings():
        with recording.noting("which compilation a function belongs to"):
            rows.append((recording, recording.row(recording.compilation_name())))
    return tuple(rows)


def note_saved(compilations: Recorded, guards: int, dropped: Sequence[tuple[str, str]]) -> None:
    """Record that a function was built and saved: with how many guards, and without which
    (``(kind, source)``).
    """
    in_file = json.dumps({"guards": guards, "dropped": dropped})
    for recording, row in compilations:
        if recording not in recordings():
            continue
        with recording.noting("what is left out when a function is saved", "dynamo"):
            recording.ahead_of_time.built_to_save.add(row.name)
            recording.writer.add(Metric(0, row.id, GUARDS_IN_FILE, in_file))


@contextlib.contextmanager
def lowered_by_program(
    recording: Recording, compiler: Compiler, function: str, graph: Any, backend: str
) -> Iterator[None]:
    """Open a compilation for a graph that the program gives to a compiler itself. A graph that
    Dynamo captured ahead is compiled in the compilation it was captured in.
    """
    name = str(getattr(graph, "meta", {}).get("dynamo_compile_id", ""))
    if name not in recording.ahead_of_time.captured:
        with given_directly(recording, compiler, function):
            yield
        return
    with recording.within(name), nobody_steps(recording):
        with recording.noting("a captured graph that the program lowers"):
            _begin(recording, backend, None)
        with _part(recording, backend):
            yield


def guards_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Record guards that a program builds from an earlier capture, in the compilation of that
    capture. Hook: ``GraphCaptureOutput.build_guards`` (torch/_dynamo/convert_frame.py).
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def build_guards(self: Any, *args: Any, **kwargs: Any) -> Any:
            known = (
                name
                for graph, name in recording.ahead_of_time.traced
                if graph() is self.output_graph
            )
            name = next(known, "")
            if recording.compilation_name() or not name:
                return original(self, *args, **kwargs)
            with recording.within(name):
                with recording.noting("guards that are built again", "dynamo"):
                    recording.writer.remove_guards(recording.compilation_id())
                return original(self, *args, **kwargs)

        return build_guards

    return patched(convert_frame.GraphCaptureOutput, "build_guards", make)


def _announce(recording: Recording, frame: Any) -> None:
    name = recording.compilation_name()
    known = recording.of(name).row
    if known is not None and known.status != "running":
        recording.begin_again(name)
    forward = forward_of_call(frame.code, frame.locals)
    if forward is None:
        code, function = frame.code, qualified_name(frame.code)
    else:
        code, function = forward.__code__, forward.__qualname__
    recording.ahead_of_time.captured.add(name)
    recording.sources.file(code.co_filename)
    recording.change_compilation(
        name,
        function=function,
        file=code.co_filename,
        line=code.co_firstlineno,
        stack=recording.sources.stack(callers(recording.sources)),
    )


def _begin(recording: Recording, backend: str, lowering: LoweringRequest | None) -> None:
    name = recording.compilation_name()
    if (
        backend and _LOWERED & recording.of(name).seen_stages
    ):  # the graph is compiled again, by another compiler
        before, segment = recording.row(name), recording.of(name).segment
        recording.begin_again(name)
        recording.change_compilation(
            name,
            function=before.function,
            file=before.file,
            line=before.line,
            stack=before.stack,
            duration_s=0.0,
        )
        if segment is not None and segment.dynamo is not None:
            recording.segment().dynamo = recording.add_graph(segment.dynamo.module, "dynamo")
    elif lowering:  # only the first one: what is compiled again is a compilation of its own
        recording.boundary.lowered_ahead(name, lowering)
    if backend:
        _ask(recording, backend, lowering and lowering.users_compiler)


@contextlib.contextmanager
def _part(recording: Recording, backend: str) -> Iterator[None]:
    """Record how long one part took and how it ended."""
    name, began_s = recording.compilation_name(), time.perf_counter()
    try:
        yield
    except Exception as error:
        with recording.noting("how a phase of Precompile ended"):
            _failed(recording, name, error, backend)
        raise
    with recording.noting("how a phase of Precompile ended"):
        spent_s = recording.row(name).duration_s + time.perf_counter() - began_s
        missing = stage_events.missing(recording, name, "ok")
        if not _LOWERED & recording.of(name).seen_stages:
            missing = dict.fromkeys(missing or {}, _NOT_LOWERED) or None
        used = recording.of(name).backend if backend else ""
        recording.change_compilation(
            name, status="ok", error="", backend=used, duration_s=spent_s, missing_stages=missing
        )


def _failed(recording: Recording, name: str, error: Exception, backend: str) -> None:
    message = one_line(f"{type(error).__name__}: {error}")
    text = recording.writer.text("".join(traceback.format_exception(error)))
    row = Failure(
        0,
        recording.compilation_id(name),
        "compiler",
        recording.stage,
        type(error).__name__,
        message,
        text,
    )
    recording.writer.add(row)
    missing = stage_events.missing(recording, name, "failed")
    recording.change_compilation(
        name, status="failed", backend=backend, error=message, missing_stages=missing
    )
