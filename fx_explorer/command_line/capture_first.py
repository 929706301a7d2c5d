"""Commands that need a session and are given a target capture it first, narrating on stderr, and
then answer.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from fx_explorer.client import Capture, leftovers
from fx_explorer.client.outcomes import exit_code
from fx_explorer.command_line.capture_options import request_from
from fx_explorer.command_line.narration.narrated_capture import (
    built_after,
    interrupts,
    is_to_be_built,
    narrated,
    told_live,
    unless_compiled,
)
from fx_explorer.command_line.narration.narration import CaptureNarration
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionReader


async def capture_first(
    arguments: argparse.Namespace,
    answer: Callable[[SessionReader], None],
    output: Path | None = None,
) -> int:
    """Capture, let ``answer`` read the session, and return the exit code the capture ended with.

    Nothing is answered for a target that could not be started. A command with ``--allow-nothing``
    ends with 2 without it where nothing was compiled, when it has answered. Without ``output`` the
    session is temporary; it is kept, and its place told, when the capture did not end well.
    """
    progress = CaptureNarration(sys.stderr, pass_through=False)
    request = request_from(arguments)

    def prepared(request: CaptureRequest) -> Capture:
        return Capture(
            request,
            arguments.python,
            arguments.timeout,
            output,
            on_output=progress.program_output,
            force=getattr(arguments, "force", False),
        )

    capture = prepared(request)
    keep = False
    try:
        with interrupts(capture, interrupts_program=False):
            outcome = await told_live(capture, progress)
        progress.end()
        if is_to_be_built(capture, outcome, progress):
            capture.discard()
            capture = prepared(built_after(request, outcome))
            outcome = await narrated(capture, progress)
        if outcome.kind != "finished":
            progress.tell(f"{outcome.kind.replace('_', ' ')}: {outcome.message}".removesuffix(": "))
        if outcome.kind != "not_started":
            keep = (
                output is None
            )  # until it is answered from: an answer that cannot be written loses nothing
            with SessionReader(capture.session_path) as reader:
                answer(reader)
            keep = keep and exit_code(outcome, as_script=False) != 0
        code = exit_code(outcome, as_script=False, stopped_by=capture.stopped_by)
        may_be_empty = getattr(arguments, "allow_nothing", True)
        return code or unless_compiled(capture.session_path, progress, may_be_empty=may_be_empty)
    finally:
        progress.end()
        if keep:
            leftovers.note_told(capture.session_path.parent)
            progress.tell(f"session kept in: {capture.session_path}")
        else:
            capture.discard()
        for line in leftovers.news():
            progress.tell(line)
