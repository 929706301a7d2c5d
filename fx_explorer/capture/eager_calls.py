"""This module records which modules run in eager mode although they are part of what the program
gives to torch.compile: validation that calls the model itself, or a method of the wrapper's that
does.

Hook: a forward pre-hook of all modules (``register_module_forward_pre_hook``). Dynamo guards on
whether there is one, so this is recorded only where a trial asks for it, and with
``backend="eager"``.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from fx_explorer.capture.compiled_inside import has_forward_of_torchs, is_compiled
from fx_explorer.capture.recording.noting import patched_in_programs
from fx_explorer.capture.recording.sources import CallSite, caller, is_torch_itself
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.private_names import eval_frame

MOST_PLACES = 50
"""Number of places that are noted."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A module of something that was given to torch.compile."""

    module: weakref.ref[nn.Module]
    name: str
    """Its class."""
    path: str
    """Path from what was given, as in compiled_inside.py; empty where it is given itself."""
    has_forward_of_torchs: bool
    given: CallSite


@contextlib.contextmanager
def eager_call_hook(recording: Recording) -> Iterator[None]:
    """Note the calls inside the block, where the request asks for them. ``meta["eager_calls"]``
    gets a list for each place: class, path, whether its forward is torch's own, file and line of
    the call, number of calls, file and line of torch.compile.
    """
    if not recording.request.record_eager_calls:
        yield
        return
    calls = _EagerCalls(recording)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def compile(*args: Any, **kwargs: Any) -> Any:
            given = args[0] if args else kwargs.get("model")
            if given is not None and not is_torch_itself():
                with recording.noting("modules that run in eager mode"):
                    calls.watch(given, caller())
            return original(*args, **kwargs)

        return compile

    def before_call(module: nn.Module, inputs: Any) -> None:
        if not torch.compiler.is_compiling():
            calls.note(module)

    handle = register_module_forward_pre_hook(before_call)
    try:
        with patched_in_programs(torch, "compile", make):
            yield
    finally:
        handle.remove()
    recording.writer.set_meta("eager_calls", calls.entries())


class _EagerCalls:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._parts: dict[int, _Part] = {}
        self._counts: Counter[tuple[_Part, CallSite]] = Counter()

    def watch(self, given: Any, place: CallSite) -> None:
        """Remember the modules of what is given to torch.compile."""
        for path, module in _modules_of(given):
            name, is_torchs = type(module).__qualname__, has_forward_of_torchs(module)
            part = _Part(weakref.ref(module), name, path, is_torchs, place)
            self._parts.setdefault(id(module), part)

    def note(self, module: nn.Module) -> None:
        """Count a call in eager mode, unless it is made by compiled code or by another module that
        is watched.
        """
        part = self._part(module)
        if part is None or is_compiled(module.forward) or len(self._counts) >= MOST_PLACES:
            return
        with self._recording.noting("modules that run in eager mode"):
            place = self._place_of_call(module)
            if place:
                self._counts[part, place] += 1

    def _part(self, module: nn.Module) -> _Part | None:
        part = self._parts.get(id(module))
        # The id may be that of a module that came later.
        return part if part is not None and part.module() is module else None

    def _place_of_call(self, module: nn.Module) -> CallSite | None:
        """Return the user's line that calls the module of the running hook; None where compiled
        code or a watched module does.
        """
        place: CallSite | None = None
        frame = _frame_of_call(sys._getframe())
        if has_forward_of_torchs(module):
            # Compiled in place it runs in eager mode all the same.
            while frame is not None and frame.f_code.co_filename == eval_frame.__file__:
                frame = frame.f_back
        while frame is not None:
            code = frame.f_code
            if code.co_filename == eval_frame.__file__:
                return None
            if code is nn.Module._call_impl.__code__ and self._part(frame.f_locals["self"]):
                return None
            if place is None and self._recording.sources.is_users(code.co_filename):
                place = CallSite(code.co_filename, frame.f_lineno)
            frame = frame.f_back
        return place

    def entries(self) -> list[list[str | int]]:
        entries: list[list[str | int]] = []
        for (part, place), count in self._counts.items():
            for file in (place.file, part.given.file):
                self._recording.sources.file(file)
            is_torchs = int(part.has_forward_of_torchs)
            entries.append([part.name, part.path, is_torchs, *place, count, *part.given])
        return entries


def _frame_of_call(frame: FrameType | None) -> FrameType | None:
    """Return the frame that called the module whose hook runs."""
    while frame is not None and frame.f_code is not nn.Module._call_impl.__code__:
        frame = frame.f_back
    return frame.f_back if frame else None


def _modules_of(given: Any) -> Iterator[tuple[str, nn.Module]]:
    """Yield (path, module) for the modules of a callable: its own, or those that a function knows
    by a global name or by one of a function around it.
    """
    owner = getattr(given, "__self__", given)
    if isinstance(owner, nn.Module):
        yield from owner.named_modules()
        return
    function = inspect.unwrap(given)
    try:
        names = inspect.getclosurevars(function)
    except (TypeError, ValueError):  # an object that is called, or a cell that is still empty
        return
    for scope, variables in (("G", names.globals), ("L", names.nonlocals)):
        yield from _modules_among(scope, variables)


def _modules_among(scope: str, variables: Mapping[str, Any]) -> Iterator[tuple[str, nn.Module]]:
    for name, value in variables.items():
        if isinstance(value, nn.Module):
            yield from value.named_modules(prefix=f"{scope}.{name}")
