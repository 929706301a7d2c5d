"""This module ends the worker: cancelling, exit codes, and Python's own actions at the end of a
script.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import NoReturn

from fx_explorer.session.undisturbed import defer_handlers, moved_up

STACKS_FILE = "stacks.txt"
"""File beside the session with the Python stacks of all threads, written at a crash or a SIGTERM
even while C code runs.
"""


STOP_FILE = "stop"
"""File beside the session that the client leaves before it sends SIGTERM
(client/worker_process.py). A SIGTERM without it is the program's own.
"""

_stop_file: Path | None = None
_is_asked_to_stop = False


class Cancelled(BaseException):
    """Raised when the client asked the worker to stop (SIGTERM). It is no Exception, so that
    ``except Exception`` lets it through.
    """


def watch(session: Path) -> None:
    """Turn the client's SIGTERM into Cancelled, and write stacks beside the session at a signal.
    Any other SIGTERM ends the process, as it would without us.

    A program that sets its own SIGTERM handler keeps it; the client then kills the process after a
    grace period.
    """
    global _stop_file
    defer_handlers()
    _stop_file = session.with_name(STOP_FILE)
    stacks = moved_up(
        os.open(session.with_name(STACKS_FILE), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    ).number
    faulthandler.enable(stacks)
    signal.signal(signal.SIGTERM, _cancel)
    faulthandler.register(signal.SIGTERM, stacks, all_threads=True, chain=True)
    os.register_at_fork(after_in_child=_unwatch)


def stop() -> None:
    """Raise Cancelled in the main thread. It is called from another thread, when the client
    requests a stop.
    """
    global _is_asked_to_stop
    _is_asked_to_stop = True
    os.kill(os.getpid(), signal.SIGTERM)


def _cancel(number: int, frame: FrameType | None) -> None:
    if _is_asked_to_stop or (_stop_file is not None and os.path.exists(_stop_file)):
        raise Cancelled
    _unwatch()
    os.kill(os.getpid(), signal.SIGTERM)


def _unwatch() -> None:
    """Undo ``watch`` in a forked child, so that SIGTERM ends it as usual: ``multiprocessing`` ends
    its workers that way.
    """
    faulthandler.unregister(signal.SIGTERM)
    if signal.getsignal(signal.SIGTERM) is _cancel:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def ignore_cancel() -> None:
    """Ignore commands to cancel from here on: the outcome is decided."""
    faulthandler.unregister(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def exit_status(leaving: SystemExit) -> int:
    """Return the status that ``python`` would end with, and write the text of the exit to stderr as
    ``python`` does.
    """
    if not isinstance(leaving.code, int | None):
        with contextlib.suppress(Exception):  # as Python does: what cannot be printed is left out
            print(leaving.code, file=sys.stderr)
    return status(leaving)


def status(leaving: SystemExit) -> int:
    """Return the exit status of ``python`` for this exception. Writes nothing."""
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF
    return 1


def finish_as_python() -> None:
    """Join threads, then run exit handlers: the part of Py_FinalizeEx that a program can notice.

    (See Python/pylifecycle.c. Objects that still live are not destroyed, which Python does not
    promise either.)
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()


def leave(code: int) -> NoReturn:
    """Flush the program's output, and end without waiting for other threads."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(
            OSError, ValueError, AttributeError
        ):  # closed or replaced by the program: nothing to flush
            stream.flush()
    os._exit(code & 0xFF)
