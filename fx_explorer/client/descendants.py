"""Processes that a program started and that left its process group: daemons, what was started in a
session of its own.

They are known by a variable of their environment, which children inherit; one that was given
another environment is not found. Only Linux tells the environment of a process.
"""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

MARK = "FX_EXPLORER_CAPTURE"
"""The variable; its value is another one for each worker."""

MAX_SHOWN = 60
ROUNDS = 20
"""How often is looked for what was started by what is being ended."""


@dataclass(frozen=True, slots=True)
class Descendant:
    pid: int
    command: str

    def __str__(self) -> str:
        return f"{self.command} (process {self.pid})"


def descendants(value: str) -> list[Descendant]:
    """List the processes that are alive and whose mark is ``value``."""
    wanted = f"{MARK}={value}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended while we looked, or not ours to read
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                command = (
                    (process / "cmdline")
                    .read_bytes()
                    .replace(b"\0", b" ")
                    .decode(errors="backslashreplace")
                    .strip()
                )
                found.append(Descendant(int(process.name), command[:MAX_SHOWN]))
    return [one for one in found if one.pid != os.getpid()]


def end_descendants(value: str) -> list[Descendant]:
    """End all of them, and return those that there were."""
    ended: dict[int, Descendant] = {}
    for _ in range(ROUNDS):
        alive = descendants(value)
        if not alive:
            break
        for one in alive:
            ended[one.pid] = one
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one.pid, signal.SIGKILL)
    return list(ended.values())


def in_words(found: list[Descendant]) -> str:
    shown = ", ".join(map(str, found[:5]))
    return f"{shown} and {len(found) - 5} more" if len(found) > 5 else shown
