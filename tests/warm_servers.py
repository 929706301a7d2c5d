"""This module starts the servers of warm_python.py, one of each kind for all processes of a run of
the tests.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.shared_files import digest, locked

SERVER = Path(__file__).with_name("warm_python.py")
START = Path(__file__).with_name("warm_start.py")


@contextlib.contextmanager
def served(folder: Path, environment: dict[str, str], *kind: str) -> Iterator[str]:
    """A path to give as ``python``. Its server takes twelve seconds to start, so all processes of
    this run of the tests share the one that the first of them starts; it ends when none of them
    holds ``alive`` open.
    """
    folder.mkdir(exist_ok=True)
    alive, python, name = folder / "alive", folder / "python", digest(str(folder))
    with contextlib.ExitStack() as stack:
        with locked(folder / "lock"):
            held = _held(alive)
            if held is None:
                command = [sys.executable, str(SERVER), "serve", name, str(alive), *kind]
                held = _started(command, alive, environment, stack)
                python.write_text(
                    f'#!/bin/sh\nexec "{sys.executable}" -ISE "{START}" {name} "$@"\n'
                )
                python.chmod(0o755)
        stack.callback(os.close, held)
        yield str(python)


def _held(alive: Path) -> int | None:
    """Hold a running server; None where there is none."""
    try:
        return os.open(alive, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENXIO):
            raise
        return None


def _started(
    command: list[str], alive: Path, environment: dict[str, str], stack: contextlib.ExitStack
) -> int:
    """Start a server and hold it. When ``stack`` is left, it is waited for, so others that hold it
    too.
    """
    alive.unlink(missing_ok=True)
    os.mkfifo(alive)
    both_ends = os.open(alive, os.O_RDWR)  # or the server would find nobody there
    try:
        errors = alive.with_name("errors")
        with errors.open("wb") as stderr:
            server = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        stack.callback(_ended_well, server, errors)
        stack.enter_context(server)
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n", errors.read_text()
        return os.open(alive, os.O_WRONLY)
    finally:
        os.close(both_ends)


def _ended_well(server: subprocess.Popen[bytes], errors: Path) -> None:
    """A server that dies fails every test that needs it: here is why."""
    assert server.returncode == 0, f"{server.args} ended early:\n{errors.read_text()}"
