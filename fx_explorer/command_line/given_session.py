"""Commands that ask something of X, where X is a saved session, or a target that is captured
first.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path

from fx_explorer.errors import UsageError
from fx_explorer.session import SessionReader

SQLITE_HEADER = b"SQLite format 3\0"

_LOG_LINE = re.compile(rb"^[VIWE]\d{4} \d\d:\d\d:\d\d")
"""How torch's structured trace begins a record (torch/_logging/_internal.py,
TorchLogsFormatter).
"""


def add_target_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="X",
        help="a session (file.fxs), or a target, which is captured first: file.py, file.py:object, model.pt2 …",
    )


def answer_from(
    arguments: argparse.Namespace, answer: Callable[[SessionReader], None], output: Path | None = None
) -> int | None:
    """Let ``answer`` read the session that X is or becomes.

    Returns the exit code the capture ended with, None for a saved session. ``output`` keeps the
    session of a target; raises UsageError for that of a session.
    """
    if is_session(arguments.target):
        if output:
            raise UsageError("-o is for targets: a session that is given is saved already")
        refuse_gpu(arguments)
        from fx_explorer.command_line.unused_options import refuse_capture_options

        refuse_capture_options(arguments)
        with SessionReader(arguments.target) as reader:
            answer(reader)
        return None
    import asyncio

    from fx_explorer.command_line.capture_first import capture_first

    return asyncio.run(capture_first(arguments, answer, output))


def refuse_gpu(arguments: argparse.Namespace) -> None:
    """Raise UsageError: a session has the code of the GPU that it was captured for, or of none."""
    given = "--gpu" if arguments.gpu is not None else "--no-weights" if arguments.no_weights else ""
    if given:
        raise UsageError(f"{given} is for targets: {arguments.target} is captured already. Capture its program with {given}.")


def is_session(target: str) -> bool:
    """Return whether X is a saved session and not a target. Raises UsageError for a log, which
    cannot be read yet.
    """
    path = Path(target)
    # By its name first: a session that is not there is told as one, and not taken for a target.
    if path.suffix == ".fxs":
        return True
    if (path / "__main__.py").is_file():
        return False
    if path.is_dir():
        raise UsageError(f"{target} is a directory; reading TORCH_TRACE logs is not supported yet. Give a target or a session.")
    if path.suffix == ".py" or not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(32)
    if _LOG_LINE.match(start) or path.suffix == ".log":
        raise UsageError(f"{target} is a log; reading TORCH_TRACE logs is not supported yet. Give a target or a session.")
    return start.startswith(SQLITE_HEADER)
