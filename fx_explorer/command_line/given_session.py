"""Commands that ask something of X, where X is a saved session, or a target that is captured
first.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from fx_explorer.command_line.ranks import is_of_ranks
from fx_explorer.command_line.shown_names import is_of_package, shown_name
from fx_explorer.errors import UsageError
from fx_explorer.session import SessionReader
from fx_explorer.session.untrusted.given_program import SUFFIX
from fx_explorer.session.untrusted.kind_of_file import kind_of_file


def add_target_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="X",
        help="a session (file.fxs), or a target, which is captured first: file.py, "
        "file.py:object, model.pt2 …",
    )


def answer_from(
    arguments: argparse.Namespace,
    answer: Callable[[SessionReader], None],
    output: Path | None = None,
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
        shown = shown_name(arguments)
        what = "is compiled already" if is_of_package(arguments) else "is captured already"
        raise UsageError(
            f"{given} is for targets: {shown} {what}. Capture its program with {given}."
        )


def is_session(target: str) -> bool:
    """Return whether X is a saved session and not a target. Raises UsageError for a directory."""
    path = Path(target)
    found = kind_of_file(path)
    if found.kind == "sqlite":
        return True
    if found.is_of_export or (path / "__main__.py").is_file():
        return False
    # What is not there, or cannot be read, is reported as a session, and not taken for a target.
    if path.suffix.lower() == ".fxs":
        return True
    if path.suffix.lower() == SUFFIX:
        return False
    if found.kind == "directory":
        ranks = f" Ranks are compared by: fx-explorer ranks {target}" if is_of_ranks(target) else ""
        raise UsageError(
            f"{target} is a directory. Give a target, a session, or one of the "
            f"TORCH_TRACE logs in it.{ranks}"
        )
    if path.suffix == ".log" and found.kind == "text":
        raise UsageError(
            f"{target} is a log, but not one that torch writes for TORCH_TRACE. Give a "
            "target or a session."
        )
    return False
