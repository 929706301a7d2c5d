"""The original program in a child process of the worker, forked before anything of the user's is imported."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fx_explorer.model import CaptureRequest


class OriginalProcess:
    """Runs ``program`` and keeps what it returns for the parent. A context manager: the child does not outlive it."""

    def __init__(self, request: CaptureRequest, program: Callable[[], dict[str, Any]]) -> None:
        self.file = Path(tempfile.mkstemp(prefix="original-", dir=Path(request.session).parent)[1])
        self.status = 0
        self._pid = os.fork()
        if self._pid == 0:
            _be_the_original(program, self.file)

    def wait(self) -> int:
        """Until it has ended: its exit status. What the program returned is in ``file`` when that is 0."""
        self.status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self._pid = 0
        return self.status

    def __enter__(self) -> OriginalProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, 9)
            os.waitpid(self._pid, 0)
        self.file.unlink(missing_ok=True)


def _be_the_original(program: Callable[[], dict[str, Any]], file: Path) -> None:
    """Never returns. What it prints and warns of is nobody's."""
    status = 1
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        found = program()
        import torch

        torch.save(found, file)
        status = 0
    finally:
        os._exit(status)
