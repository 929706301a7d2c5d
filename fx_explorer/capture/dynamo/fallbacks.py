"""This module records the code that torch runs in eager mode: the rest of a function at a graph
break, and functions without a graph break record, with the place of their call.

A graph break is made into a row out of three sources: torch's report, its list of breaks, and
Dynamo's state while it broke. While Dynamo writes a report, it knows more than the report says:
through which calls the break was reached, at which column, and in which module (break_hooks.py).
torch's list of graph breaks (``torch/_dynamo/graph_break_registry.json``) has what a report itself
leaves out. Its texts are templates, some with placeholders for what only the report knows; those
are not used.

Hooks for functions into torch/_dynamo/convert_frame.py, called when it has decided:
``format_error_msg`` (the compile was given up: too often recompiled, a generator, an error that is
suppressed) and ``CatchErrorsWrapper._handle_skip``. The callables that call them must not be
wrapped, because torch searches the stack above them for its own frames
(``_nonrecursive_disable_wrapper_code``).
"""

from __future__ import annotations

import contextlib
import functools
import json
import linecache
import sys
import types
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.function_names import name_of_compiled
from fx_explorer.capture.recording.sources import Sources
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import (
    compiled_autograd,
    convert_frame,
    dynamo_exc,
)
from fx_explorer.model import Fallback, FallbackKind, Frame, GraphBreak, Notice
from fx_explorer.torch_texts.reports import BreakReport, parse_break

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
"""(kind, registry id, reason, explanation, hints) of a fallback."""


def _given_up(error: Exception) -> Why:
    if not isinstance(error, dynamo_exc.Unsupported | dynamo_exc.UserError):
        return "failed", "", one_line(f"{type(error).__name__}: {error}"), "", ()
    report = completed(parse_break(str(error)))
    kind: FallbackKind = "limit" if report.registry_id == _LIMIT else "skipped"
    return kind, report.registry_id, report.reason, report.explanation, report.hints


def _compilation(recording: Recording, error: Exception) -> int:
    known = recording.of(str(getattr(error, "compile_id", ""))).row
    return known.id if known else 0


def skip_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Record the functions that torch skips; nothing in a release that gives no reasons (2.11)."""
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
    """Return whether compiled autograd calls the function while it captures the backward. Dynamo
    traces everything called there, down to torch's own dependencies, and skips most of it, which
    says nothing about the program.
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
    """Return the stack of Python's call of the function that torch compiles now, outermost first,
    without torch's own frames.

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


# Graph breaks.


class Extent(NamedTuple):
    """A stretch of source from ``column`` of a line to ``end_column`` of ``end_line``, both in it,
    in characters from 1; 0 where not known.
    """

    column: int = 0
    end_line: int = 0
    end_column: int = 0


@dataclass(frozen=True, slots=True)
class BreakContext:
    """Dynamo's state while it writes a graph break record."""

    chain: tuple[Frame, ...] = ()
    """The function that Python called, and the functions inlined into it down to the break."""
    extents: dict[tuple[str, int], Extent] = field(default_factory=dict)
    """The extents, by file and line."""
    module: str = ""
    """Path of the module that was being called."""

    def extent(self, file: str, line: int) -> Extent:
        return self.extents.get((file, line), Extent())


# The default is frozen.
breaking: ContextVar[BreakContext] = ContextVar(
    "breaking",
    default=BreakContext(),  # noqa: B039
)


def breaking_now() -> BreakContext:
    """Return Dynamo's state at the graph break that it is recording. Empty at any other time, and
    in a release of torch that does not provide it.
    """
    return breaking.get()


# torch's list of graph breaks.


_PLACEHOLDER = ("{", "_explanation", '"')


class RegistryEntry(NamedTuple):
    registry_id: str
    explanation: str
    hints: tuple[str, ...]


def completed(report: BreakReport) -> BreakReport:
    """Return ``report`` with id, explanation and hints from the registry where they are missing."""
    if report.registry_id and report.explanation and report.hints:
        return report
    entry = entry_of(report.registry_id, report.reason)
    return replace(
        report,
        registry_id=report.registry_id or entry.registry_id,
        explanation=report.explanation or entry.explanation,
        hints=report.hints or entry.hints,
    )


def entry_of(registry_id: str, reason: str = "") -> RegistryEntry:
    """Return the registry's entry for an id, or else for a reason; empty when it has neither."""
    registry = _registry()
    known = registry_id or _id_of_reason(registry, reason)
    forms = registry.get(known)
    if not forms:
        return RegistryEntry("", "", ())
    explanations = [form["Explanation"] for form in forms if _is_plain(form["Explanation"])]
    explanation = next(iter(explanations), "")
    for form in forms:
        hints = tuple(hint for hint in form["Hints"] if _is_plain(hint))
        if hints:
            return RegistryEntry(known, explanation, hints)
    return RegistryEntry(known, explanation, ())


def _id_of_reason(registry: dict[str, list[dict[str, Any]]], reason: str) -> str:
    for registry_id, forms in registry.items():
        if any(form["Gb_type"] == reason for form in forms):
            return registry_id
    return ""


def _is_plain(text: str) -> bool:
    return bool(text) and not any(mark in text for mark in _PLACEHOLDER)


@functools.cache
def _registry() -> dict[str, list[dict[str, Any]]]:
    path = Path(torch.__file__).parent / "_dynamo" / "graph_break_registry.json"
    if not path.is_file():
        return {}
    return dict(json.loads(path.read_text()))


# Graph breaks as rows.


_NOT_RESUMED = "; torch cannot resume there: the rest of the function runs in eager mode"


def add_break(recording: Recording, name: str, payload: str) -> None:
    """Add a row for a graph break; ``payload`` is torch's report. The cause for which Dynamo gives
    up a frame may have been reported before: then both are one break.
    """
    report = completed(parse_break(payload))
    causes = recording.of(name).break_causes
    cause = f"{report.registry_id or report.reason} {report.file}:{report.line}"
    if report.is_given_up and cause in causes:
        return
    causes.add(cause)
    code = report.frames[-1].code if report.frames else ""
    file, line = report.file, report.line
    user = recording.sources.user_frame(report.frames)
    if user:
        code = user.code
    if user and recording.sources.is_torch(report.file):
        file, line = user.file, user.line
    recording.of(name).has_broken = True
    breaking = breaking_now()
    chain = report.operation_frames or breaking.chain
    row = GraphBreak(
        0,
        recording.compilation_id(name),
        report.registry_id,
        report.reason,
        report.explanation,
        report.hints,
        file,
        line,
        code,
        stack=recording.sources.stack(report.frames),
        text=recording.writer.text(payload),
        **breaking.extent(file, line)._asdict(),
        chain=recording.sources.stack(chain),
        module=breaking.module,
        skips_rest=report.skips_rest,
    )
    row = replace(row, id=recording.writer.add(row))
    recording.of(name).skipping = row if row.skips_rest else None
    is_of_operation = bool(report.operation_frames)
    not_resumed = _NOT_RESUMED if row.skips_rest and not is_of_operation else ""
    recording.notify(
        Notice(
            "note",
            text=f"graph break at {file}:{line}: {report.reason}{not_resumed}",
            stage="dynamo",
            compilation=name,
        )
    )
