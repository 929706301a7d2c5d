"""This module runs an interpreter that the user chose and reads its output, which may be invalid or
endless.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import Any

from fx_explorer.errors import WorkerError

MOST_PRINTED = 16 << 20
"""Maximum number of bytes that are read of its output. Normal output has thousands."""


@dataclass(frozen=True, slots=True)
class Printed:
    """Output and exit status of a Python process that was asked something."""

    status: int
    output: str
    errors: str

    def objects(self) -> list[dict[str, Any]]:
        """Return the lines that are JSON objects. torch or a library may print other lines."""
        found = []
        for line in self.output.splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                value = json.loads(line) if line.startswith("{") else None
                if isinstance(value, dict):
                    found.append(value)
        return found

    @property
    def last_error_line(self) -> str:
        return self.errors.strip().rpartition("\n")[2][:200]


def ask_python(python: str, *arguments: str, timeout_s: float) -> Printed:
    """Run an interpreter with these arguments. Raises WorkerError, whose text follows the
    interpreter's name, if it cannot be started, does not end in time, or prints too much.
    """
    try:
        process = subprocess.Popen(
            [python, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WorkerError(f"cannot be started ({reason})") from error
    try:
        output, errors = _read(process, time.monotonic() + timeout_s, timeout_s)
        status = process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
    return Printed(status, output.decode(errors="replace"), errors.decode(errors="replace"))


def _read(
    process: subprocess.Popen[bytes], until: float, timeout_s: float
) -> tuple[bytearray, bytearray]:
    """Return the output of the process on its two streams. Its children may hold them open longer
    than it lives.
    """
    printed = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        for pipe, content in zip((process.stdout, process.stderr), printed, strict=True):
            assert pipe is not None
            selector.register(pipe, selectors.EVENT_READ, content)
        while selector.get_map():
            ready = selector.select(LOOKED_AFTER_S)
            for key, _ in ready:
                part = os.read(key.fd, 1 << 16)
                key.data.extend(part)
                if not part:
                    selector.unregister(key.fileobj)
            if not ready and process.poll() is not None:
                break
            if sum(map(len, printed)) > MOST_PRINTED:
                raise WorkerError("prints without end and gives no answer")
            if time.monotonic() > until:
                raise WorkerError(f"did not answer within {timeout_s:g} s")
    left_s = max(0.0, until - time.monotonic())
    try:
        process.wait(left_s)  # it may have closed its streams, and continue
    except subprocess.TimeoutExpired as error:
        raise WorkerError(f"did not end within {timeout_s:g} s") from error
    return printed


LOOKED_AFTER_S = 0.2
