"""This module records the resume functions that Dynamo makes after a graph break, with the user's
names of their arguments.

Hooks: ``ContinueExecutionCache.lookup`` (torch/_dynamo/resume_execution.py), which the translator
of each frame calls, and a bytecode hook, which is called for each resume function that was
compiled.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from fx_explorer.capture.recording.dynamo_code import ResumeCode
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import (
    ContinueExecutionCache,
    InstructionTranslatorBase,
    register_bytecode_hook,
)
from fx_explorer.capture.torch_compat.versions import name_of
from fx_explorer.model import ResumeFunction


def resume_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Record each resume function that Dynamo makes, once per compilation."""
    recorded: set[tuple[object, ...]] = set()

    def make(original: Callable[..., Any]) -> Any:
        def lookup(code: types.CodeType, lineno: int, *args: Any) -> types.CodeType:
            resume_code: types.CodeType = original(code, lineno, *args)
            translator = sys._getframe(1).f_locals.get("self")
            # It asks itself for the rest of a function that is a rest already.
            if not isinstance(translator, InstructionTranslatorBase):
                return resume_code
            with recording.noting("a resume function", "dynamo"):
                made = _resume_code(recording, resume_code, (code, lineno, *args), translator)
                recording.dynamo_bytecode.resume_codes[resume_code] = made
                row = _row(recording, translator, made)
                key = (row.compilation, row.name, row.depth, row.locals)
                # A branch makes one for each of its sides.
                if key not in recorded:
                    recorded.add(key)
                    recording.writer.add(row)
            return resume_code

        return lookup

    return _hooked(recording, make)


@contextlib.contextmanager
def _hooked(recording: Recording, make: Callable[[Callable[..., Any]], Any]) -> Iterator[None]:
    def name_arguments(code: types.CodeType, compiled: types.CodeType) -> None:
        with recording.noting("the arguments of a resume function", "dynamo"):
            made = recording.dynamo_bytecode.resume_codes.get(code)
            if made is not None:
                name = recording.compilation_name()
                recording.change_compilation(name, argument_names=made.argument_names)

    handle = register_bytecode_hook(name_arguments)
    try:
        with patched(ContinueExecutionCache, "lookup", make):
            yield
    finally:
        handle.remove()


def _row(recording: Recording, translator: Any, made: ResumeCode) -> ResumeFunction:
    depth, root = 0, translator
    while getattr(root, "parent", None) is not None:
        depth, root = depth + 1, root.parent
    return ResumeFunction(
        id=0,
        compilation=recording.compilation_id(),
        name=made.code.co_name,
        line=translator.lineno,
        locals=made.locals,
        depth=depth,
        root_line=root.lineno,
        taken_from=dict(_taken_from(recording, translator, root, made.locals)) or None,
    )


def _taken_from(
    recording: Recording, translator: Any, root: Any, names: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Yield (local, source) for each local that the compiled function received under another
    name.
    """
    root_code = recording.resume_code(root.f_code)
    for name, source in _sources(translator, names):
        taken = root_code.local_name(source)
        is_own_name = translator is root and taken.source == f"L['{name}']"
        if taken.depth == 0 and taken.source.startswith("L[") and not is_own_name:
            yield name, taken.source


def _sources(translator: Any, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield (local, source) for each of these locals that the compiled function did not make."""
    for name in names:
        source = getattr(translator.symbolic_locals.get(name), "source", None)
        if source is not None:
            yield name, name_of(source)


def _resume_code(
    recording: Recording, code: types.CodeType, arguments: tuple[object, ...], translator: Any
) -> ResumeCode:
    """Return the arguments with which a resume function was made, by the names of ``generate``'s
    parameters, to which ``lookup`` passes its arguments.
    """
    named = _parameters().bind_partial(*arguments).arguments
    names = tuple(named["argnames"])
    nested = tuple(
        recording.dynamo_bytecode.resume_codes[inner] for inner in named.get("nested_code_objs", ())
    )
    root_code = recording.resume_code(translator.output.root_tx.f_code)
    origins = {name: root_code.original(source) for name, source in _sources(translator, names)}
    return ResumeCode(code, named["nstack"], names, nested, origins)


@functools.cache
def _parameters() -> inspect.Signature:
    return inspect.signature(ContinueExecutionCache.generate)
