"""A child process of the worker runs a program for a comparison: forked before anything of the
user's is imported, with the request of the changed program or that of the original. torch is not
imported for it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fx_explorer.instruments.fixes.measure.branch_coverage import text_on_disk
from fx_explorer.model import CaptureRequest
from fx_explorer.session.undisturbed import moved_up

if TYPE_CHECKING:
    from typing_extensions import Self


_GO = b"g"


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

    def wait(self) -> int:
        """Wait until the child has ended and return its exit status. At 0, ``file`` holds what the
        program returned.
        """
        self.status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self._pid = 0
        return self.status

    def wait_for(self, seconds: float) -> bool:
        """Wait at most ``seconds`` and return whether the child has ended."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._pid, self.status = 0, os.waitstatus_to_exitcode(status)
                return True
            time.sleep(0.02)
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
