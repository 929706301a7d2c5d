"""This module captures the target of a command before it is answered from, narrating on stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from fx_explorer.client import session_files
from fx_explorer.client.forked_workers import fork_server
from fx_explorer.client.process_outcomes import exit_code
from fx_explorer.command_line.capture_options import request_from
from fx_explorer.command_line.narrated_capture import (
    built_after,
    interrupts,
    is_to_be_built,
    narrate_history,
    narrate_live,
    narrated,
    narrated_history,
    new_capture,
    unless_compiled,
)
from fx_explorer.command_line.narration import CaptureNarration
from fx_explorer.session import SessionReader


async def capture_first(
    arguments: argparse.Namespace,
    answer: Callable[[SessionReader], None],
    output: Path | None = None,
) -> int:
    """Capture, call ``answer`` with the session, and return the exit code of the capture.

    Nothing is answered for a target that could not be started. A command with ``--allow-nothing``
    ends with 2 without it where nothing was compiled, when it has answered. Without ``output`` the
    session is kept in the history. Where there is none it is temporary; it is kept, and its place
    printed, when the capture did not end well.
    """
    progress = CaptureNarration(sys.stderr, pass_through=False)
    request = request_from(arguments)
    server = fork_server() if _will_try(arguments) else None
    history = narrated_history(progress)
    prepared = partial(
        new_capture, arguments, output, progress=progress, history=history, server=server
    )
    capture = prepared(request)
    keep = False
    try:
        with interrupts(capture, interrupts_program=False):
            outcome = await narrate_live(capture, progress)
        progress.end()
        if is_to_be_built(capture, outcome, progress, runs_again=_will_try(arguments)):
            capture.forget()
            capture = prepared(built_after(request, outcome))
            outcome = await narrated(capture, progress)
        if outcome.kind != "finished":
            progress.print_message(
                f"{outcome.kind.replace('_', ' ')}: {outcome.message}".removesuffix(": ")
            )
        if outcome.kind != "not_started":
            # Until it is answered from: an answer that cannot be written loses nothing.
            keep = capture.is_temporary
            with SessionReader(capture.session_path) as reader:
                answer(reader)
            keep = keep and exit_code(outcome, as_script=False) != 0
        code = exit_code(outcome, as_script=False, stopped_by=capture.stopped_by)
        may_be_empty = getattr(arguments, "allow_nothing", True)
        return code or unless_compiled(capture.session_path, progress, may_be_empty=may_be_empty)
    finally:
        progress.end()
        if keep:
            session_files.note_reported(capture.session_path.parent)
            progress.print_message(f"session kept in: {capture.session_path}")
        else:
            capture.discard()
            if output is None and capture.kept:
                progress.print_message(f"kept as {capture.kept.name} (fx-explorer history)")
        narrate_history(capture, history, progress)


def _will_try(arguments: argparse.Namespace) -> bool:
    """Return whether the program is captured again after this capture."""
    return any(
        getattr(arguments, name, None) for name in ("trying", "together", "apart", "apply", "tried")
    )
