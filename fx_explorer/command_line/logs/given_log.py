"""A log, printed text, a table of kernels or a debug directory in the place of a target: it becomes a session."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

from fx_explorer.client.session_files import copy_session, session_file
from fx_explorer.command_line.logs.followed_log import is_on_terminal
from fx_explorer.command_line.temporary_session import place_of_session
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable
from fx_explorer.output.terminal import tell
from fx_explorer.session.elsewhere import tell_where_texts_lie
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

SHOW_LOGS = ("explore", "report", "check", "diff", "graph", "fix", "modules", "profile")
"""Commands that have something to say of a log."""


def given_log(
    command: str, log: Path, arguments: argparse.Namespace, until: contextlib.ExitStack
) -> Path | None:
    """Make a session of a TORCH_TRACE log, and return it; None where the app reads it. Raises UsageError for what
    needs the program, or what only a capture finds out.
    """
    from fx_explorer.command_line.logs.progress import (
        LogProgress,
    )  # not needed for Python files, all of them
    from fx_explorer.readers.debug_directory.read_directory import read_directory
    from fx_explorer.readers.provenance import read_table
    from fx_explorer.readers.torch_logs import read_text
    from fx_explorer.readers.torch_trace import read_log
    from fx_explorer.readers.torch_trace.opened import STANDARD_INPUT
    from fx_explorer.readers.torch_trace.texts import TextsOfLog
    from fx_explorer.readers.tritonparse import read_tritonparse

    kind = "log" if log == STANDARD_INPUT else kind_of_file(log).kind
    shows = (*SHOW_LOGS, "kernel") if kind == "tritonparse" else SHOW_LOGS
    if command not in shows or _tries(arguments):
        writer = "Triton" if kind == "tritonparse" else "torch"
        raise UsageError(
            f"{log} is what {writer} wrote of a program, and not the program, which fx-explorer {command} needs for this. Look "
            f"at the log with: fx-explorer {log}"
        )
    if log == STANDARD_INPUT and sys.stdin.isatty():
        raise UsageError(
            "- is for a log that comes from another program: zcat trace.log.gz | fx-explorer -"
        )
    save: Path | None = getattr(arguments, "save", None)
    output = session_file(save, force=arguments.force, never=(log,)) if save else None
    if output:
        output.check()
    is_shown = is_on_terminal() or (log == STANDARD_INPUT and sys.stdout.isatty())
    short = {"directory": read_directory, "torch_logs": read_text, "provenance": read_table}
    has_profile = (
        getattr(arguments, "profile", None) is not None
    )  # it is joined to all that the log has
    if command == "explore" and not output and is_shown and kind not in short and not has_profile:
        arguments.reads_log = log  # while the app shows what was found
        return None
    session = place_of_session(log, arguments, until)
    with LogProgress(sys.stderr) as progress:
        if kind in short:
            short[kind](log, session)
        elif kind == "tritonparse":
            read_tritonparse(log, session, tell=progress.tell)
        else:
            read_log(log, session, leave_texts=True, tell=progress.tell)
            tell_where_texts_lie(session, TextsOfLog(log))
    if output is None:
        return session
    copy_session(session, output)
    tell(f"fx-explorer: saved {printable(str(output.path))}", sys.stderr)
    arguments.is_saved = True
    return output.path


def _tries(arguments: argparse.Namespace) -> bool:
    """Return whether the program would be run to try a fix."""
    return any(
        getattr(arguments, name, None) not in (None, False)
        for name in ("trying", "together", "apply")
    )
