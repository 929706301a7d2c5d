"""A child process of the worker runs a program for a comparison: forked before anything of the
user's is imported, with the request of the changed program or that of the original. torch is not
imported for it.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import signal
import struct
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from fx_explorer.instruments.fixes.measure.branch_coverage import text_on_disk
from fx_explorer.model import CaptureRequest
from fx_explorer.session.undisturbed import moved_up

if TYPE_CHECKING:
    from typing_extensions import Self


_GO = b"g"

LOOK_EVERY_S = 0.02
"""Seconds between two looks at a child that is waited for."""

ORIGINAL_RUNS = "running the original in eager mode"
CHANGED_RUNS = "running the change in eager mode"
BUILT_RUNS = "running the built code"
ORIGINAL_IS_BUILT = "comparing: building the original too"
"""Activities of a trial while it waits for other programs."""

Work = Literal["", "building kernel", "call"]
"""What a child does in pieces that are counted; empty: nothing of it was begun."""

_WORKS: tuple[Work, ...] = get_args(Work)

_COUNTS = struct.Struct("=iii")
"""The work's index in ``_WORKS``, how much of it is done, and how much is planned."""

Count = tuple[Work, int, int]
"""(what is being done, how many are done, how many are planned or 0 where that is not known)."""

CountTold = Callable[[Count], object]
"""Called with a child's count each time it has changed."""

ShowCall = Callable[[int, int], object]
"""Called before each call of a program, with the number of calls that were made and that are
planned.
"""


def ignore_call(done: int, planned: int) -> None:
    """Ignore that a program is called."""


def ignore_count(count: Count) -> None:
    """Ignore a child's count."""


class ChildProgress:
    """How far a child is, in memory that it shares with its parent: the program can close no
    descriptor of it, and nobody waits for anybody.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _COUNTS.size)

    def show(self, work: Work, done: int, planned: int) -> None:
        """Let the parent see how far the child is."""
        _COUNTS.pack_into(self._memory, 0, _WORKS.index(work), done, planned)

    def show_kernels(self, done: int, planned: int) -> None:
        """Let the parent see that a kernel is being built."""
        self.show("building kernel", done, planned)

    def show_call(self, done: int, planned: int) -> None:
        """Let the parent see that the program is called."""
        self.show("call", done, planned)

    def read(self) -> Count:
        """Return how far the child is."""
        work, done, planned = _COUNTS.unpack_from(self._memory)
        return _WORKS[work], done, planned


class ChildProgram:
    """A child process that runs ``program`` and keeps what it returns for the parent.

    It is a context manager: the child does not outlive the block.
    """

    def __init__(
        self, request: CaptureRequest, program: Callable[[], dict[str, Any]], *, waits: bool = False
    ) -> None:
        """Fork the child. With ``waits`` its program begins only when the parent calls
        (``begin``).
        """
        self.file = Path(tempfile.mkstemp(prefix="original-", dir=Path(request.session).parent)[1])
        self.status = 0
        self.progress = ChildProgress()
        waiting, start = os.pipe()
        self._start = moved_up(start)
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._start.number)
            _be_the_program(program, self.file, waiting)
        os.close(waiting)
        if not waits:
            self.begin()

    def begin(self) -> None:
        """Let a program that waits begin."""
        with contextlib.suppress(
            OSError
        ):  # it has ended, or the program has closed the pipe: its status tells
            if self._start.is_ours:
                os.write(self._start.number, _GO)

    def wait(self, tell: CountTold = ignore_count) -> int:
        """Wait until the child has ended and return its exit status. At 0, ``file`` holds what the
        program returned. ``tell`` is called with its progress.
        """
        self.wait_for(math.inf, tell)
        return self.status

    def wait_for(self, seconds: float, tell: CountTold = ignore_count) -> bool:
        """Wait at most ``seconds`` and return whether the child has ended. ``tell`` is called with
        its progress.
        """
        until = time.monotonic() + seconds
        last_count: Count = ("", 0, 0)
        while time.monotonic() < until:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._pid, self.status = 0, os.waitstatus_to_exitcode(status)
                return True
            count = self.progress.read()
            if count != last_count:
                last_count = count
                tell(count)
            time.sleep(LOOK_EVERY_S)
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._start.is_ours:
            os.close(self._start.number)
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        self.file.unlink(missing_ok=True)


def _be_the_program(program: Callable[[], dict[str, Any]], file: Path, waiting: int) -> None:
    """Run the program in the child and end the process. What it prints and warns of is
    discarded.
    """
    status = 1
    try:
        answer = os.read(waiting, 1)
        os.close(waiting)
        if answer != _GO:
            return  # the parent has left
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        found = program()
        # Not before the program has run: a script must be the first to import torch.
        import torch

        torch.save(found, file)
        status = 0
    finally:
        os._exit(status)


def as_on_disk(request: CaptureRequest) -> CaptureRequest:
    """Return the request for the original: its files keep the text they have on disk, and its own
    options are used.
    """
    texts = {path: text_on_disk(path) for path in request.overlay}
    return replace(request, overlay=texts, settings=request.original_settings)
