"""This module captures one target of several, for commands that capture many: without the program's
output and notes, with a live line on a terminal.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.client import Capture
from fx_explorer.client.forked_workers import ForkServer
from fx_explorer.command_line.capture_options import request_from
from fx_explorer.command_line.narrated_capture import (
    BeingCompiled,
    built_after,
    is_to_be_built,
    ticking,
)
from fx_explorer.command_line.narration import CaptureNarration
from fx_explorer.model import CaptureRequest, Outcome

Until = Callable[[Capture], AbstractContextManager[None]]
"""Makes the block in which a capture runs, in which signals stop it."""


@dataclass(frozen=True, slots=True)
class QuietCapture:
    """How a quiet capture ended, and where its session is."""

    outcome: Outcome
    session: Path | None
    """None where the target could not be started."""
    stopped_by: int = 0
    """The signal for which it was stopped; 0 for none."""


async def captured_quietly(
    arguments: argparse.Namespace,
    output: Path,
    progress: CaptureNarration,
    fork_server: ForkServer | None,
    until: Until,
) -> QuietCapture:
    """Capture the target of ``arguments`` into ``output``. A program that raises in a graph that
    was only inspected is built, as by every command.
    """
    request = request_from(arguments)
    capture = _prepared(request, arguments, output, fork_server)
    outcome = await _followed(capture, progress, until)
    if is_to_be_built(capture, outcome, progress):
        capture.discard()
        capture = _prepared(built_after(request, outcome), arguments, output, fork_server)
        outcome = await _followed(capture, progress, until)
    session = capture.session_path if capture.session_path == output else None
    if session is None:
        capture.discard()
    return QuietCapture(outcome, session, capture.stopped_by)


def _prepared(
    request: CaptureRequest,
    arguments: argparse.Namespace,
    output: Path,
    fork_server: ForkServer | None,
) -> Capture:
    return Capture(
        request, arguments.python, arguments.timeout, output, force=True, fork_server=fork_server
    )


async def _followed(capture: Capture, progress: CaptureNarration, until: Until) -> Outcome:
    compiling = BeingCompiled(capture.session_path)
    progress.show_live(compiling.words)
    with until(capture), ticking(progress):
        await capture.start()
        async for notice in capture.notices():
            compiling.take_notice(notice)
            progress.tick()
        return await capture.wait()
