"""This module records functions that torch leaves to Python without a graph break record, and where
a function was called from.

Hooks into torch/_dynamo/convert_frame.py, called when it has decided: ``format_error_msg`` (the
compile was given up: too often recompiled, a generator, an error that is suppressed) and
``CatchErrorsWrapper._handle_skip``. Nothing may be put around the callables that call them: torch
looks for its own frames above itself (``_nonrecursive_disable_wrapper_code``).
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import sys
import types
from collections.abc import Callable
from typing import Any

from torch._dynamo import compiled_autograd, convert_frame, exc

from fx_explorer.capture.dynamo.breaks.break_rows import completed
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.function_names import name_of_compiled
from fx_explorer.capture.recording.sources import Sources
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.model import Fallback, FallbackKind, Frame
from fx_explorer.torch_texts.reports import parse_break

_TOLD_ELSEWHERE = (
    "an error was suppressed",
    "compilation failed with",
    "frame is already Dynamo-generated code",
    "frame has already started executing",
)
"""Beginnings of reasons that a record or the other hook reports better, or that are about torch's
own code.
"""

_LIMIT = "GB0039"


def given_up_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def format_error_msg(
            error: Exception, code: types.CodeType, *args: Any, **kwargs: Any
        ) -> Any:
            with recording.noting("a function that runs in eager mode", "dynamo"):
                if not getattr(error, "logged", False) and not _is_called_by_autograd():
                    _add(
                        recording,
                        code,
                        *_given_up(error),
                        compilation=_compilation(recording, error),
                    )
            return original(error, code, *args, **kwargs)

        return format_error_msg

    return patched(convert_frame, "format_error_msg", make)


Why = tuple[FallbackKind, str, str, str, tuple[str, ...]]
"""Kind, registry id, reason, explanation, hints."""


def _given_up(error: Exception) -> Why:
    if not isinstance(error, exc.Unsupported | exc.UserError):
        return "failed", "", one_line(f"{type(error).__name__}: {error}"), "", ()
    report = completed(parse_break(str(error)))
    kind: FallbackKind = "limit" if report.registry_id == _LIMIT else "skipped"
    return kind, report.registry_id, report.reason, report.explanation, report.hints


def _compilation(recording: Recording, error: Exception) -> int:
    known = recording.of(str(getattr(error, "compile_id", ""))).row
    return known.id if known else 0


def skip_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Record what torch skips; nothing in a release that gives no reasons for it (2.11)."""
    if not hasattr(convert_frame.CatchErrorsWrapper, "_handle_skip"):
        return contextlib.nullcontext()

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def _handle_skip(self: Any, result: Any, frame: Any) -> Any:
            with recording.noting("a function that was skipped", "dynamo"):
                reason, code = result.skip_reason, frame.f_code
                is_told = (
                    not reason
                    or result.guarded_code is not None
                    or reason.startswith(_TOLD_ELSEWHERE)
                )
                if not is_told and recording.sources.is_users(code.co_filename):
                    _add(recording, code, "skipped", "", reason, "", ())
            return original(self, result, frame)

        return _handle_skip

    return patched(convert_frame.CatchErrorsWrapper, "_handle_skip", make)


def _is_called_by_autograd() -> bool:
    """Return whether compiled autograd calls the function while it collects the backward. Dynamo
    looks at all that it calls, down to torch's own dependencies, and gives most of it up; that says
    nothing about the program.
    """
    frame: types.FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename != compiled_autograd.__file__:
        frame = frame.f_back
    return frame is not None


def _add(
    recording: Recording,
    code: types.CodeType,
    kind: FallbackKind,
    registry_id: str,
    reason: str,
    explanation: str,
    hints: tuple[str, ...],
    compilation: int = 0,
) -> None:
    function = name_of_compiled(code)
    stack = recording.sources.stack(callers(recording.sources))
    recording.sources.file(code.co_filename)
    where = (function, code.co_filename, code.co_firstlineno)
    recording.writer.add(
        Fallback(0, compilation, kind, *where, registry_id, reason, explanation, hints, stack)
    )


def callers(sources: Sources) -> tuple[Frame, ...]:
    """Return where Python called the function that torch looks at now, outermost first, without
    torch's own frames.

    The frames are read off the stack itself: the stack in torch's ``dynamo_start`` records lacks
    the two innermost callers (2.13; it counts frames of its own that are no longer there).
    """
    frames: list[Frame] = []
    frame: types.FrameType | None = sys._getframe()
    is_outside = False
    while frame is not None:
        file = frame.f_code.co_filename
        is_dynamo = file == convert_frame.__file__
        if is_outside and not is_dynamo and not sources.is_torch(file):
            code = linecache.getline(file, frame.f_lineno).strip()
            frames.append(Frame(file, frame.f_lineno, frame.f_code.co_name, code))
        is_outside = is_outside or is_dynamo
        frame = frame.f_back
    return tuple(reversed(frames))
