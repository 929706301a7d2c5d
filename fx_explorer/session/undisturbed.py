"""This module keeps a session's writing undisturbed in a process that also runs the user's program:
no signal handler of the program's runs during it, and the program closes no descriptor of ours.

What a handler of the program raises (a time-out of ``signal.alarm``, Ctrl-C) would leave a record
half written. Python calls handlers in the main thread, between any two instructions. Those that the
program installs are wrapped (``defer_handlers``): one that is called inside a block of ours
(``undisturbed``) is called when the block is left, so that what it raises reaches the program all
the same. The program sees its own handlers: ``signal.getsignal`` returns what it gave to
``signal.signal``.

A daemon closes every descriptor that it does not know, and the next file it opens gets the lowest
number that is free: what we then write to that number goes into the user's file. So ours have
numbers above those that programs sweep, and before each use they are compared with the file that
they were opened for.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from inspect import CO_GENERATOR
from pathlib import Path
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
        """Let handlers run inside the block, while waiting for the user."""
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
    """Return the frame with the ``with``: the next one that is neither a generator nor enters a
    context.
    """
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
    """Defer the signal handlers that are installed now, and those the program installs later, while
    the session is being written.
    """
    install, installed = signal.signal, signal.getsignal

    @functools.wraps(install)
    def install_deferring(number: Any, handler: Any) -> Any:
        deferring = _Deferring(handler) if callable(handler) else handler
        return _given(install(number, deferring))

    @functools.wraps(installed)
    def installed_by_program(number: Any) -> Any:
        return _given(installed(number))

    for number in signal.valid_signals():
        handler = installed(number)
        if callable(handler) and not isinstance(handler, _Deferring):
            install(number, _Deferring(handler))
    vars(signal).update(signal=install_deferring, getsignal=installed_by_program)


def _given(handler: Any) -> Any:
    """Return the program's own handler, without our wrapper."""
    if isinstance(handler, _Deferring):
        return handler.handler
    return handler


# Descriptors of ours.


HIGHEST = 4096
"""First number of our descriptors if a process may open more than this: filling the lower numbers
takes 2 ms. Most programs close all descriptors up to 256 or 1,024, or up to their limit, above
which ours are if it can be raised for a moment.
"""

ROOM = 64
"""Descriptor numbers that are reserved for our files."""

SPARE = 16
"""Numbers left to other threads while the rest is filled."""

_fstat = os.fstat
"""The original function, in case the program replaces it."""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A descriptor number, with the identity of the file that it was opened for."""

    number: int
    device: int
    inode: int

    @classmethod
    def of(cls, number: int) -> Descriptor:
        status = os.fstat(number)
        return cls(number, status.st_dev, status.st_ino)

    @property
    def is_ours(self) -> bool:
        """Return whether the number is still ours; false once the program has closed it, even if it
        was reused. Takes half a microsecond.
        """
        try:
            status = _fstat(self.number)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == (self.device, self.inode)


def moved_up(number: int) -> Descriptor:
    """Move an open file to a high number, which programs that are started do not inherit."""
    with _limit_raised() as base:
        try:
            high = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, base)
        except OSError:  # no number is left up there
            os.set_inheritable(number, False)
            return Descriptor.of(number)
    os.close(number)
    return Descriptor.of(high)


@contextlib.contextmanager
def high_numbers() -> Iterator[None]:
    """Give files that are opened in the block, in this or another thread, high descriptor numbers,
    by occupying the lower ones. This is for libraries that open files themselves, such as SQLite.
    """
    taken: list[int] = []
    with _limit_raised() as base:
        try:
            taken += _filled(base)
            yield
        finally:
            for number in taken:
                os.close(number)


def opened_since(before: frozenset[int], files: Iterable[Path]) -> tuple[Descriptor, ...]:
    """Find those of ``files`` that are open under numbers which were free ``before``."""
    places = set()
    for file in files:
        with contextlib.suppress(OSError):
            status = file.stat()
            places.add((status.st_dev, status.st_ino))
    descriptors = []
    for number in sorted(open_numbers() - before):
        with contextlib.suppress(OSError):  # another thread has closed it
            descriptor = Descriptor.of(number)
            if (descriptor.device, descriptor.inode) in places:
                descriptors.append(descriptor)
    return tuple(descriptors)


def open_numbers() -> frozenset[int]:
    """Return all open descriptor numbers of this process; empty where the system does not list
    them.
    """
    try:
        listed = [int(name) for name in os.listdir("/dev/fd") if name.isdigit()]
    except OSError:
        return frozenset()
    return frozenset(number for number in listed if _is_open(number))


def _is_open(number: int) -> bool:
    """Return whether a listed number is open. The directory that was listed is not, any more, and
    the next file gets its number.
    """
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def never_freed(library_object: object) -> None:
    """Keep an object beyond the end of the interpreter: a SQLite connection that is freed writes
    and closes.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library_object))


@contextlib.contextmanager
def _limit_raised() -> Iterator[int]:
    """Yield the first number for our descriptors. It is above the limit that the program sees, if
    the system allows that.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft > HIGHEST:
        yield HIGHEST
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft + ROOM, hard))
    except (OSError, ValueError):  # not above what the system, or the administrator, allows
        yield max(3, soft - ROOM)
        return
    try:
        yield soft
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _filled(base: int) -> list[int]:
    """Return descriptors that are opened only so that no number below ``base`` is free."""
    taken: list[int] = []
    with contextlib.suppress(OSError):
        taken.append(os.open(os.devnull, os.O_RDONLY))
        while taken[-1] < base - 1:
            taken.append(os.dup(taken[0]))
        if taken[-1] >= base:
            os.close(taken.pop())
        return taken
    for number in taken[-SPARE:]:
        os.close(number)
    return taken[:-SPARE]
