"""This module does work in a forked copy of this process, so that two cores are used.

What the work returns or raises comes back pickled. Where a fork is no gain or not safe, the caller
does the work itself: the result is the same.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from typing import Generic, TypeVar

from fx_explorer.errors import WorkerError

ValueT = TypeVar("ValueT")

LOOKED_EVERY_S = 1.0
"""Seconds between two looks whether the first process is still there."""

ENDING = ("SIGINT", "SIGTERM", "SIGHUP")


def is_gain() -> bool:
    """Return whether a second process may run beside this one: there are two cores, and this
    process has no threads, whose locks a fork would copy.
    """
    return hasattr(os, "fork") and cores() > 1 and threading.active_count() == 1


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def end_by_signals() -> None:
    """Have signals end a forked process at once, whatever the first one does with them."""
    for name in ENDING:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)


def end_process(pid: int) -> None:
    """End a forked process, whether it has ended already or not."""
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


class WorkBeside(Generic[ValueT]):
    """Work that a forked process does. A context manager, which ends the process."""

    def __init__(self, work: Callable[[], ValueT], doing: str) -> None:
        """``doing`` says what the process does, for the message where it was killed."""
        self._doing = doing
        reading, writing = os.pipe()
        first = os.getpid()
        self._pid = os.fork()
        if not self._pid:
            os.close(reading)
            _end_with(first)
            _work(work, writing)
        os.close(writing)
        self._result = os.fdopen(reading, "rb")

    def result(self) -> ValueT:
        """Wait for the work, and return what it returned. Raises what it raised, and WorkerError
        where the process was killed.
        """
        try:
            value, error = pickle.load(self._result)
        except (EOFError, pickle.UnpicklingError):
            raise WorkerError(f"the process that was {self._doing} was killed") from None
        if error is not None:
            raise error
        result: ValueT = value
        return result

    def __enter__(self) -> WorkBeside[ValueT]:
        return self

    def __exit__(self, *_: object) -> None:
        self._result.close()
        end_process(self._pid)


def _end_with(first: int) -> None:
    """End this process soon after the first one, if that is killed: nobody waits for the work."""

    def look(*_: object) -> None:
        if os.getppid() != first:
            os._exit(0)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOKED_EVERY_S, LOOKED_EVERY_S)


def _work(work: Callable[[], ValueT], writing: int) -> None:
    """Do the work in the forked process, and end it without what the first one does at its end."""
    try:
        end_by_signals()
        with os.fdopen(writing, "wb") as result:
            result.write(_pickled_result(work))
    finally:
        os._exit(0)


def _pickled_result(work: Callable[[], ValueT]) -> bytes:
    try:
        return pickle.dumps((work(), None), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - it is raised in the first process
        try:
            return pickle.dumps((None, error), pickle.HIGHEST_PROTOCOL)
        except Exception:  # noqa: BLE001 - of any kind that pickle meets
            lines = traceback.format_exception(error)
            return pickle.dumps((None, RuntimeError("".join(lines))), pickle.HIGHEST_PROTOCOL)
