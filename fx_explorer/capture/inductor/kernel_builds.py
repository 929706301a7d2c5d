"""This module counts the kernels of generated files while they are built: while a program is
captured with its code built, and in the built programs of a comparison.

A generated file asks for its kernels one by one (``AsyncCompile``,
torch/_inductor/async_compile.py). With one compile thread each is built when it is asked for; else
the file waits for all of them at its end, in their order.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from fx_explorer.capture.inductor.kernel_text import definitions
from fx_explorer.capture.inspecting import BUILDERS
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.model import Notice

Tell = Callable[[int, int], object]
"""Called when a kernel is begun, with the number that are built, and the number of kernels of the
files that have asked for any; 0 where that is not known.
"""

_OF_BUILT_PARTS = ("multi_kernel", "size_hint_multi_kernel", "metal")
"""Builders of what is made of kernels that are built already, or together with others."""

_COMPILER_OF_FILE = "async_compile"
"""The name that a generated file gives its AsyncCompile."""

BUILDING = "building kernel"


@contextlib.contextmanager
def build_hook(recording: Recording) -> Iterator[None]:
    """Tell the client which kernel is being built, in a capture that builds."""
    if recording.request.build:
        with builds_noticed(recording):
            yield
    else:
        yield


def builds_noticed(recording: Recording) -> AbstractContextManager[None]:
    """Tell the client which kernel is being built inside the block."""

    def tell(done: int, planned: int) -> None:
        recording.notify(Notice("count", BUILDING, done=done, planned=planned))

    return builds_told(tell, lambda: recording.noting("how many kernels are built", "kernel"))


@contextlib.contextmanager
def builds_told(
    tell: Tell, noting: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext
) -> Iterator[None]:
    """Call ``tell`` for each kernel that is built inside the block. ``noting`` is entered around
    everything that is not torch's.
    """
    from fx_explorer.capture.torch_compat.private_names import AsyncCompile

    builds = _Builds(tell, noting)
    with contextlib.ExitStack() as stack:
        for name in BUILDERS:
            if name not in _OF_BUILT_PARTS and hasattr(AsyncCompile, name):
                stack.enter_context(patched(AsyncCompile, name, builds.watched))
        yield


class _Builds:
    """Watches the methods that build a kernel, for all generated files."""

    def __init__(self, tell: Tell, noting: Callable[[], AbstractContextManager[object]]) -> None:
        self._tell = tell
        self._noting = noting
        self._begun: weakref.WeakSet[Any] = weakref.WeakSet()
        """The AsyncCompile of each file that has asked for a kernel."""
        self._built = 0
        self._planned = 0
        """Number of kernels of all these files."""
        self._depth = 0
        """Number of builders that are running: one of them may call another."""

    def watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def build(compiler: Any, *args: Any, **kwargs: Any) -> Any:
            is_outermost = self._depth == 0
            if is_outermost:
                with self._noting():
                    self._begin(compiler)
            self._depth += 1
            try:
                kernel = original(compiler, *args, **kwargs)
            finally:
                self._depth -= 1
            if is_outermost:
                with self._noting():
                    self._end(kernel)
            return kernel

        return build

    def _begin(self, compiler: Any) -> None:
        if compiler not in self._begun:
            self._begun.add(compiler)
            self._planned += _kernels_of_file(compiler)
        self._tell(self._built, self._planned)

    def _end(self, kernel: Any) -> None:
        """Count a kernel that is built, or count it when the file has waited for it."""
        wait = getattr(kernel, "result", None)
        if not callable(wait):
            self._built += 1
        elif "result" not in vars(kernel):  # a kernel that two files have is waited for once

            @functools.wraps(wait)
            def wait_and_count(*args: Any, **kwargs: Any) -> Any:
                with self._noting():
                    self._tell(self._built, self._planned)
                built = wait(*args, **kwargs)
                self._built += 1
                return built

            kernel.result = wait_and_count


def _kernels_of_file(compiler: Any) -> int:
    """Return how many kernels the generated file defines that is being run, which has this
    AsyncCompile; 0 where it cannot be read.
    """
    frame = sys._getframe()
    while frame is not None:
        if frame.f_globals.get(_COMPILER_OF_FILE) is compiler:
            try:
                text = Path(frame.f_globals["__file__"]).read_text(encoding="utf-8")
            except (KeyError, OSError, UnicodeDecodeError):
                return 0
            return len(definitions(text))
        frame = frame.f_back  # type: ignore[assignment]
    return 0
