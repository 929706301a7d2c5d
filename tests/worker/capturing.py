"""This helper runs one capture in this test's event loop and returns its events and its result."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fx_explorer.client import Capture
from fx_explorer.model import CaptureRequest, Compilation, ConsoleLine, Failure, Notice, Outcome
from fx_explorer.session import SessionReader
from fx_explorer.session.untrusted.given_program import runs_as_script


@dataclass
class Ended:
    """A capture that has ended."""

    outcome: Outcome
    session: Path
    notices: list[Notice]
    meta: dict[str, Any] = field(default_factory=dict)
    compilations: int = 0
    backends: list[str] = field(default_factory=list)
    console: list[ConsoleLine] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    failure_texts: list[str] = field(default_factory=list)

    def printed(self, stream: str = "stdout") -> list[str]:
        return [row.text for row in self.console if row.stream == stream]


async def capture(
    target: Path | str,
    output: Path | None = None,
    *,
    timeout: float = 120,
    python: str = "",
    **request: Any,
) -> Ended:
    """Capture to the end. The backend of a target is ``eager`` by default: most of these tests do
    not look at what was compiled. That of a script is its own.
    """
    asked = CaptureRequest(str(target), session="", **request)
    if "backend" not in request and not runs_as_script(asked):
        asked = replace(asked, backend="eager")
    started = Capture(
        asked, timeout=timeout, output=output, **({"python": python} if python else {})
    )
    try:
        await started.start()
        notices = [notice async for notice in started.notices()]
        outcome = await started.wait()
        ended = Ended(outcome, started.session_path, notices)
        with SessionReader(started.session_path) as reader:
            ended.meta = reader.all_meta()
            ended.compilations = reader.count(Compilation)
            ended.backends = [row.backend for row in reader.rows(Compilation)]
            ended.console = reader.rows(ConsoleLine)
            ended.failures = reader.rows(Failure)
            ended.failure_texts = [reader.text(failure.text) for failure in ended.failures]
    finally:
        started.discard()
    return ended


def processes_with(variable: str) -> list[int]:
    """Processes that have this environment variable, zombies excepted: whatever a worker started
    inherits it.
    """
    everyone = [int(process.name) for process in Path("/proc").glob("[0-9]*")]
    return [
        pid
        for pid in everyone
        if pid != os.getpid() and f"{variable}=".encode() in _environment(pid)
    ]


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # ended while we looked, or not ours
        return b""
