"""This module finds the log that ``--follow`` names: a log that a job is writing."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable
from fx_explorer.output.terminal import print_fitted
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

LOOKED_AFTER_S = 0.2


def followed_log(given: Path) -> Path:
    """Return the log itself, or that of a directory, which is waited for.

    Raises UsageError for what no job writes a log to, and without a terminal.
    """
    # Both are not needed for Python files.
    from fx_explorer.readers.torch_trace.growing import log_to_follow
    from fx_explorer.readers.torch_trace.opened import is_packed

    if not is_on_terminal():
        raise UsageError(
            "--follow shows a log in the app, which needs a terminal. Leave it out to "
            "read what is there now"
        )
    if not given.is_dir():
        kind = kind_of_file(given)
        if kind.kind != "log":
            raise UsageError(
                "--follow is for a TORCH_TRACE log that a job is writing, or the directory that "
                f"TORCH_TRACE names: {given} is {kind.words}"
            )
        if is_packed(given):
            raise UsageError(
                f"{given} is packed: no job writes to it any more. Open it without --follow"
            )
        return given
    log = log_to_follow(given)
    if log is None:
        print_fitted(
            f"fx-explorer: waiting for a TORCH_TRACE log in {printable(str(given))} (Ctrl-C ends)",
            sys.stderr,
        )
    while log is None:
        time.sleep(LOOKED_AFTER_S)
        log = log_to_follow(given)
    return log


def is_on_terminal() -> bool:
    """Return whether the app can be shown, and ask."""
    streams = (sys.stdin, sys.stdout, sys.__stderr__)
    return all(stream is not None and stream.isatty() for stream in streams)
