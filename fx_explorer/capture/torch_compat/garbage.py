"""A compile leaves garbage over. To look through all of it takes a tenth of the compile; to leave
it would keep alive what the program has let go of.

Compiling makes millions of objects, and the garbage among those of a 12-layer Llama takes 150 MB.
Little of it holds objects of the program's: the values that Dynamo traced, which its side effects
keep, and frames that have ended, in tracebacks of the exceptions with which Dynamo cuts a graph. (A
frame that outlives its call holds the frame that called it, down to the program's, and those keep
their variables when they have returned.) So these few are emptied, and the garbage is looked for,
as torch would, only where that does not free all that Dynamo knew of the program. All that stays
becomes old: it is looked at when Python, or the program, next collects everything.

GPT-2 of 12 layers for an H100, torch 2.11, Python 3.12: 0.66 s for all of 1.1 million objects, 0.1
to 0.2 s for these.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import inspect
import itertools
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from fx_explorer.capture.torch_compat.patching import configured, patched
from fx_explorer.capture.torch_compat.versions import options_there

_COMPILING_THRESHOLDS = (2_000_000, 1_000, 1_000)

_FROZEN_BY_PYTHON = 10_000
"""Python 3.12 begins with 375 frozen objects. A program that freezes its own freezes torch's
160,000, too.
"""

_FRAMES_ARE_TRACKED_WHEN_THEY_END = sys.version_info >= (3, 11)

_NOT_THE_PROGRAMS = tuple(
    f"{folder}{os.sep}" for folder in (Path(torch.__file__).parent, Path(__file__).parents[2])
)

_RESUMABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@contextlib.contextmanager
def collected_rarely(_: object) -> Iterator[None]:
    """Collect garbage rarely while Dynamo or Inductor compiles, and let go of the program's objects
    when a compile ends. The user's own program keeps the thresholds it has. Raises ImportError or
    AttributeError in a torch release that lacks a name of this: later, inside a compile of the
    program's, none is asked for.
    """
    from torch._dynamo import config, convert_frame
    from torch._dynamo.callback import CompilationCallbackHandler

    compiles = _Compiles(_kinds())
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            patched(convert_frame, "compile_lock", lambda lock: _Locked(compiles, lock))
        )
        # torch collects the young after each function that it compiles.
        stack.enter_context(
            configured(config, dict.fromkeys(options_there(config, "run_gc_after_compile"), False))
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
    """Dynamo's lock, which it holds while it looks at a function. When it is released, exceptions
    that Dynamo suppresses are past. (A function around Dynamo's own would be seen: torch counts the
    frames above it.)
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
    """The compiles that have begun and not ended, one within the other."""

    def __init__(self, kinds: _Kinds) -> None:
        self._kinds = kinds
        self._begun: list[tuple[tuple[int, int, int], int]] = []
        """(thresholds, collections that there had been) of each."""

    def begun_by(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run_start_callbacks(*args: Any, **kwargs: Any) -> Any:
            self.begin()
            return original(*args, **kwargs)

        return run_start_callbacks

    def ended_by(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Where a backward is compiled when it first runs, the callbacks run; those of Dynamo
        run before it ends.
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
    """Empty what may hold the program's objects, among the objects of these generations. Return
    whether that has freed all that Dynamo knew of the program.
    """
    if not _FRAMES_ARE_TRACKED_WHEN_THEY_END:
        return False
    frames, known = _emptied(generations, kinds)
    return _nobody_holds(frames) and all(reference() is None for reference in known)


def _emptied(
    generations: tuple[int, ...], kinds: _Kinds
) -> tuple[list[FrameType], list[weakref.ref[Any]]]:
    """Empty what may hold the program's objects. Return the frames that have ended, and all that is
    to be freed.
    """
    holding, knowing = kinds.holding, kinds.knowing()
    found = _objects(generations, {FrameType} | holding | knowing)
    frames = [frame for frame in found if type(frame) is FrameType]
    known = [weakref.ref(one) for one in found if type(one) in knowing]
    for one in found:
        if type(one) in holding:
            vars(one).clear()
    for frame in frames:
        _clear(frame)
    return frames, known


@dataclass(frozen=True, slots=True)
class _Kinds:
    """Types of objects that torch makes while it traces a program."""

    holding: set[type]
    """Those that hold objects of the program's."""
    known: tuple[type, ...]
    """What torch knows of the program, which is to be freed, with all subclasses."""
    kept: tuple[type, ...]
    """Those of them that are kept for the next compile, and hold nothing of the program's."""

    def knowing(self) -> set[type]:
        """Return all types of what torch knows. Classes are made while a program runs, too."""
        known = set[type]().union(*map(_with_subclasses, self.known))
        return known.difference(*map(_with_subclasses, self.kept))


def _kinds() -> _Kinds:
    from torch._dynamo import output_graph, side_effects, symbolic_convert, variables
    from torch._dynamo.variables import base, dicts

    holding: set[type] = {side_effects.SideEffects, output_graph.SubgraphTracer}
    if hasattr(dicts, "SideEffectsProxyDict"):
        holding.add(dicts.SideEffectsProxyDict)
    return _Kinds(
        holding,
        (
            output_graph.OutputGraph,
            symbolic_convert.InstructionTranslatorBase,
            base.VariableTracker,
        ),
        (variables.BuiltinVariable, variables.ConstantVariable),
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
    """Return whether nothing but one another, and this list, holds these frames: they are freed
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
    """Return whether more than half of the GPU's memory is in use, by whomever."""
    if not torch.cuda.is_initialized():
        return False
    free, whole = torch.cuda.mem_get_info()
    return free < whole / 2


def _collections() -> int:
    return sum(of_generation["collections"] for of_generation in gc.get_stats())


def _make_all_old() -> None:
    """Move every object to the oldest generation without looking through any: a collection of the
    young would begin at once, and take as long as all those that were left out.
    """
    if gc.get_freeze_count() <= _FROZEN_BY_PYTHON:  # else the program has frozen objects itself
        gc.freeze()
        gc.unfreeze()
