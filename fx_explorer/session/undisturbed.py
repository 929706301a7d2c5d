"""Blocks in which no signal handler of the program runs, because what it raises (a time-out of
``signal.alarm``, Ctrl-C) would leave a record half written.

Python calls handlers in the main thread, between any two instructions. Those that the program
installs are wrapped (``defer_handlers``): one that is called inside such a block is called when the
block is left, so that what it raises reaches the program all the same. The program sees its own
handlers: ``signal.getsignal`` returns what it gave to ``signal.signal``.
"""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from inspect import CO_GENERATOR
from threading import get_ident
from types import FrameType
from typing import Any


class Undisturbed:
    """A context manager, which may be nested; of effect in the main thread, where handlers run."""

    def __init__(self) -> None:
        self._depth = 0
        self._block: FrameType | None = None
        """The frame with the outermost block."""
        self._deferred: dict[int, Callable[[int, FrameType | None], Any]] = {}
        """Number of a signal → its handler, which waits for the end of the block."""
        self._main = threading.main_thread().ident

    def __enter__(self) -> None:
        if get_ident() == self._main:
            if not self._depth:
                self._block = frame_of_block()
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        if get_ident() == self._main:
            self._depth = max(0, self._depth - 1)
            if not self._depth:
                self._block = None
                if self._deferred:
                    self._call_deferred()

    @contextlib.contextmanager
    def lifted(self) -> Iterator[None]:
        """Let handlers run inside the block, where the user is waited for."""
        if get_ident() != self._main:
            yield
            return
        depth, block, self._depth = self._depth, self._block, 0
        try:
            if self._deferred:
                self._call_deferred()
            yield
        finally:
            self._depth, self._block = depth, block

    def called(
        self,
        handler: Callable[[int, FrameType | None], Any],
        number: int,
        frame: FrameType | None,
    ) -> None:
        """Call a handler, now or when the block is left."""
        if not self._depth or get_ident() != self._main:
            handler(number, frame)
        elif is_running(self._block):
            self._deferred[number] = handler
        else:  # an exception kept the block from being left
            self._depth = 0
            handler(number, frame)

    def _call_deferred(self) -> None:
        number, handler = self._deferred.popitem()
        try:
            handler(number, sys._getframe(2))
        finally:
            if self._deferred:
                self._call_deferred()


def frame_of_block() -> FrameType | None:
    """Return the frame that has the ``with``: the next that is no generator, nor enters anything."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if not code.co_flags & CO_GENERATOR and code.co_name not in _ENTERING:
            return frame
        frame = frame.f_back
    return None


def is_running(frame: FrameType | None) -> bool:
    """Return whether a frame is among the callers."""
    caller: FrameType | None = sys._getframe(1)
    while caller is not None:
        if caller is frame:
            return True
        caller = caller.f_back
    return False


_ENTERING = ("__enter__", "enter_context", "_enter_context")

undisturbed = Undisturbed()


class _Deferring:
    """A handler of the program's, which waits for the end of a block of ours."""

    def __init__(self, handler: Callable[[int, FrameType | None], Any]) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        undisturbed.called(self.handler, number, frame)


def defer_handlers() -> None:
    """Defer the handlers that are installed now, and those that the program installs from now on."""
    install, installed = signal.signal, signal.getsignal

    @functools.wraps(install)
    def install_deferring(number: Any, handler: Any) -> Any:
        return _given(install(number, _Deferring(handler) if callable(handler) else handler))

    @functools.wraps(installed)
    def installed_by_program(number: Any) -> Any:
        return _given(installed(number))

    for number in signal.valid_signals():
        handler = installed(number)
        if callable(handler) and not isinstance(handler, _Deferring):
            install(number, _Deferring(handler))
    vars(signal).update(signal=install_deferring, getsignal=installed_by_program)


def _given(handler: Any) -> Any:
    """Return a handler as the program gave it."""
    return handler.handler if isinstance(handler, _Deferring) else handler
