"""This module leaves out work of torch's that a capture does not need: its caches of compiled
graphs, requests for new pieces of Python's stack, texts that are not read, and garbage collection.

The caches are off while a capture records, and as the program has them where it must have them: of
a graph that comes from a cache there would be nothing to see.

The other work has no effect on what is generated. Each part is left out by itself. Shares of a
12-layer Llama training step, torch 2.13, main process, CPU time: garbage collection 20 %, page
faults of the stack 15 to 20 %, texts of graphs 3 %, names of functions for a log 2 % (``python -m
benchmarks.capture_cost``). What torch answers is never answered in its place: such code would have
to follow every release.

A compile leaves garbage. Collecting all of it takes a tenth of the compile; leaving it would keep
alive what the program has released. Compiling makes millions of objects, and the garbage among
those of a 12-layer Llama takes 150 MB. Little of it holds objects of the program's: the values that
Dynamo traced, which its side effects keep, and frames that have ended, in tracebacks of the
exceptions with which Dynamo cuts a graph. (A frame that outlives its call holds the frame that
called it, down to the program's, and those keep their variables when they have returned.) So these
few objects are emptied. Garbage is collected, as torch would, only where that does not free all
that Dynamo knew of the program. All other objects are moved to the oldest generation, which Python
visits at its next full collection.

GPT-2 of 12 layers for an H100, torch 2.11, Python 3.12: 0.66 s for all of 1.1 million objects, 0.1
to 0.2 s for these.

Tried and not kept: a forked process that lowers the forward while the parent lowers the backward (a
tenth on the CPU; on a GPU a fork cannot use CUDA, which Inductor asks while it lowers); options
kept as attributes of their module until they are written (another thread may have other options);
indices of buffers (0.05 s). Left in torch: code of graph modules that nobody runs (1.9 %; a graph
that is changed afterwards would run the old code), fake tensors propagated again before lowering
(2.2 %), and patterns of attention registered where no two products are multiplied (1 %).
"""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import inspect
import itertools
import logging
import os
import sys
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import torch

from fx_explorer.capture.torch_compat.patching import configured, patched
from fx_explorer.capture.torch_compat.private_names import (
    dynamo_config,
    functorch_config,
    inductor_config,
)
from fx_explorer.capture.torch_compat.versions import known_options
from fx_explorer.stack_room import room_behind

CACHES_OFF: dict[str, Any] = {"fx_graph_cache": False, "fx_graph_remote_cache": False}
_AUTOGRAD_CACHE_OFF: dict[str, Any] = {"enable_autograd_cache": False}
_OFF = (inductor_config, CACHES_OFF), (functorch_config, _AUTOGRAD_CACHE_OFF)

_as_before: list[list[tuple[Any, dict[str, Any]]]] = []
"""(config module, the program's values), for each capture that has the caches off."""


class _Recording(Protocol):
    def unavailable(self, view: str, reason: str) -> None:
        """Record a view that is not shown, with the reason."""


@contextlib.contextmanager
def caches_off(recording: _Recording) -> Iterator[None]:
    """Turn torch's caches off inside the block, so that everything is lowered: a graph from a cache
    would leave nothing to see. Options that this torch release lacks are named in the session.
    """
    before: list[tuple[Any, dict[str, Any]]] = []
    with contextlib.ExitStack() as stack:
        for config, values in _OFF:
            for name, value in values.items():
                if not hasattr(config, name):
                    reason = f"{config.__name__} has no option {name}"
                    recording.unavailable("graphs that are in a compile cache", reason)
                    continue
                before.append((config, {name: getattr(config, name)}))
                stack.enter_context(configured(config, {name: value}))
        _as_before.append(before)
        stack.callback(_as_before.remove, before)
        yield


@contextlib.contextmanager
def caches_as_before() -> Iterator[None]:
    """Restore the caches inside the block, within ``caches_off``, to the program's own values."""
    with contextlib.ExitStack() as stack:
        if _as_before:
            for config, values in _as_before[0]:
                stack.enter_context(configured(config, values))
        yield


def is_cached() -> bool:
    """Return whether the present compilation is written to a cache: the program may have switched
    one on.
    """
    return any(_is_any_on(config, values) for config, values in _OFF)


def _is_any_on(config: Any, names: Iterable[str]) -> bool:
    return any(getattr(config, name, False) for name in names)


def ignoring_older_cache_entries() -> contextlib.AbstractContextManager[None]:
    """Cache compilations inside the block, but ignore older entries. Kernels that are built already
    are used.
    """
    manager: contextlib.AbstractContextManager[None] = torch.compiler.config.patch(
        cache_key_tag=uuid.uuid4().hex
    )
    return manager


# Work that nobody sees.


@contextlib.contextmanager
def room_on_the_stack(_: object) -> Iterator[None]:
    """Compile with a larger Python stack. The backward may be compiled on a thread of autograd's,
    beside Dynamo's.
    """
    from fx_explorer.capture.torch_compat.private_names import compile_fx, convert_frame

    with (
        room_behind(inspect.unwrap(convert_frame._compile)),
        room_behind(inspect.unwrap(compile_fx._compile_fx_inner)),
    ):
        yield


@contextlib.contextmanager
def no_function_names_for_logs(_: object) -> Iterator[None]:
    """Skip the names of functions for a debug log that is off: Dynamo parses each source file for
    the log's header (``get_line_of_code_header``).
    """
    from fx_explorer.capture.torch_compat.private_names import symbolic_convert

    names = ("trace_call_log", "trace_source_log")
    logs = [getattr(symbolic_convert, name) for name in names]

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def get_funcname(*args: Any) -> Any:
            if not any(log.isEnabledFor(logging.DEBUG) for log in logs):
                return None
            return original(*args)

        return get_funcname

    with patched(symbolic_convert, "get_funcname", make):
        yield


@contextlib.contextmanager
def no_printed_graphs(_: object) -> Iterator[None]:
    """Skip printing graphs for entries of caches that are off, and for a trace that is not written
    (``_log_joint_graph``, ``_log_fw_bw_graphs``, ``codegen_and_compile``; as in torch 2.13).
    """
    from torch.fx import graph_module

    from fx_explorer.capture.torch_compat.private_names import compile_fx, graph_compile, trace_log

    printing = (
        graph_compile._log_joint_graph,
        graph_compile._log_fw_bw_graphs,
        compile_fx._InProcessFxCompile.codegen_and_compile,
    )
    codes = {inspect.unwrap(function).__code__ for function in printing}

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def _print_readable(*args: Any, **kwargs: Any) -> Any:
            asked_by = sys._getframe(2).f_code  # above GraphModule.print_readable
            if asked_by in codes and not vars(trace_log)["handlers"] and not is_cached():
                return ""
            return original(*args, **kwargs)

        return _print_readable

    with patched(graph_module, "_print_readable", make):
        yield


# Looking for garbage.


_COMPILING_THRESHOLDS = (2_000_000, 1_000, 1_000)

_FROZEN_BY_PYTHON = 10_000
"""Maximum number of objects that Python itself freezes: 3.12 begins with 375. A program that
freezes its own objects also freezes torch's 160,000.
"""

_FRAMES_ARE_TRACKED_WHEN_THEY_END = sys.version_info >= (3, 11)

_NOT_THE_PROGRAMS = tuple(
    f"{folder}{os.sep}" for folder in (Path(torch.__file__).parent, Path(__file__).parents[2])
)

_RESUMABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@contextlib.contextmanager
def collected_rarely(_: object) -> Iterator[None]:
    """Collect garbage rarely while Dynamo or Inductor compiles, and drop the program's objects when
    a compile ends. The user's own program keeps its thresholds. Raises ImportError or
    AttributeError in a torch release that lacks a required name, so that no error occurs later
    inside a compile.
    """
    from fx_explorer.capture.torch_compat.private_names import (
        CompilationCallbackHandler,
        convert_frame,
    )

    compiles = _Compiles(_kinds())
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            patched(convert_frame, "compile_lock", lambda lock: _Locked(compiles, lock))
        )
        # torch collects the young after each function that it compiles.
        stack.enter_context(
            configured(
                dynamo_config,
                dict.fromkeys(known_options(dynamo_config, "run_gc_after_compile"), False),
            )
        )
        # Not by registering callbacks, which torch._dynamo.reset() forgets.
        stack.enter_context(
            patched(CompilationCallbackHandler, "run_start_callbacks", compiles.begun_by)
        )
        stack.enter_context(
            patched(CompilationCallbackHandler, "run_end_callbacks", compiles.ended_by)
        )
        yield


class _Locked:
    """Dynamo's lock, which it holds while it compiles a function. When it is released, exceptions
    that Dynamo suppresses are over. (A wrapper around Dynamo's own function would be noticed: torch
    counts the frames above it.)
    """

    def __init__(self, compiles: _Compiles, lock: Any) -> None:
        self._compiles = compiles
        self._lock = lock

    def __enter__(self) -> Any:
        entered = self._lock.__enter__()
        self._compiles.begin()
        return entered

    def __exit__(self, kind: type[BaseException] | None, *raised: Any) -> None:
        try:
            self._compiles.end(
                lets_go=kind is None
            )  # whoever sees an exception may look at its frames
        finally:
            self._lock.__exit__(kind, *raised)


class _Compiles:
    """The nested compiles that have begun and not ended."""

    def __init__(self, kinds: _Kinds) -> None:
        self._kinds = kinds
        self._begun: list[tuple[tuple[int, int, int], int]] = []
        """(thresholds, number of collections before) of each."""

    def begun_by(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run_start_callbacks(*args: Any, **kwargs: Any) -> Any:
            self.begin()
            return original(*args, **kwargs)

        return run_start_callbacks

    def ended_by(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap torch's end callbacks, which run when a compile ends: also that of a backward
        compiled at its first run. Dynamo's run before its compile has quite ended.
        """

        @functools.wraps(original)
        def run_end_callbacks(handler: Any, callback_args: Any) -> Any:
            try:
                return original(handler, callback_args)
            finally:
                is_dynamos = getattr(callback_args.callback_trigger, "name", "") == "DYNAMO"
                self.end(lets_go=not is_dynamos and sys.exc_info()[1] is None)

        return run_end_callbacks

    def begin(self) -> None:
        if not self._begun:
            # torch collects the young after a compile, also where the program has switched
            # collection off. Here it is done before: then all that is young at the end is of this
            # compile.
            gc.collect(1)
        self._begun.append((gc.get_threshold(), _collections()))
        if self._begun[0][0][0]:  # 0: the program has switched collection off
            gc.set_threshold(*_COMPILING_THRESHOLDS)

    def end(self, *, lets_go: bool) -> None:
        if not self._begun:  # it had begun before the recording
            return
        usual, before = self._begun.pop()
        if not self._begun:
            generations = (0,) if _collections() == before else (0, 1)
            is_freed = (
                lets_go
                and not _gpu_memory_is_short()
                and _let_go_of_the_program(generations, self._kinds)
            )
            if not is_freed:
                gc.collect(generations[-1])
            if lets_go:
                _make_all_old()
        gc.set_threshold(*usual)


def _let_go_of_the_program(generations: tuple[int, ...], kinds: _Kinds) -> bool:
    """Empty objects of these generations that may hold the program's objects. Return whether that
    has freed all of Dynamo's references to the program.
    """
    if not _FRAMES_ARE_TRACKED_WHEN_THEY_END:
        return False
    frames, known = _emptied(generations, kinds)
    return _nobody_holds(frames) and all(reference() is None for reference in known)


def _emptied(
    generations: tuple[int, ...], kinds: _Kinds
) -> tuple[list[FrameType], list[weakref.ref[Any]]]:
    """Empty objects that may hold the program's objects. Return the frames that have ended, and
    references to all objects that should be freed.
    """
    holding, knowing = kinds.holding, kinds.knowing()
    found = _objects(generations, {FrameType} | holding | knowing)
    frames = [frame for frame in found if type(frame) is FrameType]
    known = [weakref.ref(item) for item in found if type(item) in knowing]
    for item in found:
        if type(item) in holding:
            vars(item).clear()
    for frame in frames:
        _clear(frame)
    return frames, known


@dataclass(frozen=True, slots=True)
class _Kinds:
    """Types of objects that torch makes while it traces a program."""

    holding: set[type]
    """Types whose objects hold objects of the program."""
    known: tuple[type, ...]
    """Types, with all subclasses, of torch's objects about the program that should be freed."""
    kept: tuple[type, ...]
    """Types among ``known`` that are kept for the next compile, and hold no objects of the program.
    """

    def knowing(self) -> set[type]:
        """Return all types of torch's objects about the program. New classes may be made while a
        program runs.
        """
        known = set[type]().union(*map(_with_subclasses, self.known))
        return known.difference(*map(_with_subclasses, self.kept))


def _kinds() -> _Kinds:
    from fx_explorer.capture.torch_compat.private_names import (
        dynamo_variables,
        output_graph,
        side_effects,
        symbolic_convert,
        variables_base,
        variables_dicts,
    )

    holding: set[type] = {side_effects.SideEffects, output_graph.SubgraphTracer}
    if hasattr(variables_dicts, "SideEffectsProxyDict"):
        holding.add(variables_dicts.SideEffectsProxyDict)
    return _Kinds(
        holding,
        (
            output_graph.OutputGraph,
            symbolic_convert.InstructionTranslatorBase,
            variables_base.VariableTracker,
        ),
        (dynamo_variables.BuiltinVariable, dynamo_variables.ConstantVariable),
    )


def _with_subclasses(kind: type) -> set[type]:
    return {kind}.union(*map(_with_subclasses, type.__subclasses__(kind)))


def _objects(generations: tuple[int, ...], kinds: set[type]) -> list[Any]:
    """Return the objects of these types in these generations. A frame that runs, or waits to
    continue, is not known to the garbage collector (``take_ownership``, Python/frame.c).
    """
    found: list[Any] = []
    for generation in generations:
        objects = gc.get_objects(generation)
        found += itertools.compress(objects, map(kinds.__contains__, map(type, objects)))
    return found


def _clear(frame: FrameType) -> None:
    """Empty the variables of a frame of torch or of ours. That of a generator is left, which may
    have to continue.
    """
    code = frame.f_code
    if code.co_flags & _RESUMABLE or not code.co_filename.startswith(_NOT_THE_PROGRAMS):
        return
    with contextlib.suppress(RuntimeError):  # it runs
        frame.clear()
        # Until Python 3.12 a frame keeps a copy of its variables, which this makes again.
        frame.f_locals  # noqa: B018


def _nobody_holds(frames: list[FrameType]) -> bool:
    """Return whether only the frames themselves, and this list, hold these frames: they are freed
    with the list.
    """
    frames.append(_ended_frame())
    called = collections.Counter(id(frame.f_back) for frame in frames)
    references = [sys.getrefcount(frame) - called[id(frame)] for frame in frames]
    frames.clear()
    return max(references) == references[-1]


def _ended_frame() -> FrameType:
    return sys._getframe()


def _gpu_memory_is_short() -> bool:
    """Return whether more than half of the GPU's memory is in use, by any program."""
    if not torch.cuda.is_initialized():
        return False
    free, whole = torch.cuda.mem_get_info()
    return free < whole / 2


def _collections() -> int:
    return sum(of_generation["collections"] for of_generation in gc.get_stats())


def _make_all_old() -> None:
    """Move every object to the oldest generation without visiting any. Otherwise a collection of
    the young objects would begin at once, and take as long as all collections that were left out.
    """
    if gc.get_freeze_count() <= _FROZEN_BY_PYTHON:  # else the program has frozen objects itself
        gc.freeze()
        gc.unfreeze()
