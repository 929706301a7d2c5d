"""This module serves commands on X, where X is a saved session, or a target that is captured first,
narrating on stderr. Options of capturing are refused for a session.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from fx_explorer.analysis.words import listed
from fx_explorer.command_line.capture_options import (
    add_allow_argument,
    add_capture_arguments,
)
from fx_explorer.command_line.given_logs import logs_in
from fx_explorer.errors import UsageError
from fx_explorer.session import SessionReader
from fx_explorer.session.ownership import (
    COMPILES,
    COMPILES_CPP,
    DISASSEMBLES,
    MEASURES,
    RUNS,
    is_own_session,
)
from fx_explorer.session.untrusted.given_program import SUFFIX
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

__all__ = [
    "COMPILES",
    "COMPILES_CPP",
    "DISASSEMBLES",
    "MEASURES",
    "RUNS",
    "check_program",
    "check_trust",
]


MOST_LOGS = 6
"""Maximum number of logs of a directory that a message names."""


def shown_name(arguments: argparse.Namespace, target: str = "") -> str:
    """Return the name of ``target``, or of the command's only target."""
    target = target or str(arguments.target)
    return str(getattr(arguments, "packages", {}).get(target, target))


def is_of_package(arguments: argparse.Namespace) -> bool:
    """Return whether the command's target is a session made from a package."""
    return arguments.target in getattr(arguments, "packages", {})


def add_target_argument(parser: argparse.ArgumentParser, *, may_be_missing: bool = False) -> None:
    parser.add_argument(
        "target",
        metavar="X",
        nargs="?" if may_be_missing else None,
        help="a session (file.fxs), or a target, which is captured first: file.py, "
        "file.py:object, model.pt2 …",
    )


def answer_from(
    arguments: argparse.Namespace,
    answer: Callable[[SessionReader], None],
    output: Path | None = None,
) -> int | None:
    """Call ``answer`` with the session that X is, or that its capture makes.

    Returns the exit code the capture ended with, None for a saved session. ``output`` keeps the
    session of a target; raises UsageError for that of a session.
    """
    if is_session(arguments.target):
        if output:
            raise UsageError("-o works on targets: a session is already saved")
        refuse_gpu(arguments)

        refuse_capture_options(arguments)
        with SessionReader(arguments.target) as reader:
            answer(reader)
        return None
    import asyncio  # neither is needed for a session

    from fx_explorer.command_line.captured_first import capture_first

    return asyncio.run(capture_first(arguments, answer, output))


def refuse_gpu(arguments: argparse.Namespace) -> None:
    """Raise UsageError, because a session has the code of the GPU that it was captured for, or of
    none.
    """
    given = ""
    if arguments.gpu is not None:
        given = "--gpu"
    elif arguments.no_weights:
        given = "--no-weights"
    if given:
        shown = shown_name(arguments)
        if is_of_package(arguments):
            what = "is compiled already"
        else:
            what = "is already a capture"
        raise UsageError(
            f"{given} works on targets: {shown} {what}. Capture its program with {given}."
        )


def is_session(target: str) -> bool:
    """Return whether X is a saved session and not a target. Raises UsageError for a directory."""
    path = Path(target)
    kind = kind_of_file(path)
    if kind.kind == "sqlite":
        return True
    if kind.is_of_export or (path / "__main__.py").is_file():
        return False
    # What is not there, or cannot be read, is reported as a session, and not taken for a target.
    if path.suffix.lower() == ".fxs":
        return True
    if path.suffix.lower() == SUFFIX:
        return False
    if kind.kind == "directory":
        logs = logs_in(target)
        ranks = ""
        if logs:
            names = listed((str(log) for log in logs), MOST_LOGS)
            ranks = (
                f" There are {names}. Compare ranks of one job with: fx-explorer ranks {target}; "
                "two runs with: fx-explorer diff A B"
            )
        raise UsageError(
            f"{target} is a directory. Give a target, a session, or one of the TORCH_TRACE logs "
            f"in this directory.{ranks}"
        )
    if path.suffix == ".log" and kind.kind == "text":
        raise UsageError(
            f"{target} is a log, but not a TORCH_TRACE log. Give a target or a session."
        )
    return False


ALSO_OF_SESSIONS = ("trust", "python", "timeout", "as_python", "gpu", "no_weights")
"""Options that trials and builds of a saved session use, too, and options that are refused with
their own messages.
"""


@functools.cache
def _capture_options() -> tuple[argparse.Action, ...]:
    """Return the options that say how to capture."""
    parser = argparse.ArgumentParser(add_help=False)
    add_capture_arguments(parser)
    add_allow_argument(parser)
    return tuple(parser._actions)


def refuse_capture_options(arguments: argparse.Namespace, also: Sequence[str] = ()) -> None:
    """Raise UsageError for the first option of capturing that is given with a session, and for any
    of ``also``.
    """
    given = getattr(arguments, "given", ())
    for action in _capture_options():
        if action.dest not in given:
            continue
        if action.dest in ALSO_OF_SESSIONS and action.dest not in also:
            continue
        is_negative = getattr(arguments, action.dest) is False
        option = action.option_strings[-1] if is_negative else action.option_strings[0]
        if is_of_package(arguments):
            what = "is compiled already"
        else:
            what = "is already a capture"
        raise UsageError(
            f"{option} works on targets: {shown_name(arguments)} {what}. Capture its program with "
            f"{option}."
        )


def check_program(arguments: argparse.Namespace) -> None:
    """Check trust before the program that a session names is run. Raises UsageError as
    ``check_trust`` does.
    """
    if is_session(arguments.target):
        check_trust(Path(arguments.target), arguments, RUNS)


def check_trust(session: Path, arguments: argparse.Namespace, consequence: str) -> None:
    """Raise UsageError, which says what would happen, for another user's session without
    ``--trust``.
    """
    if not arguments.trust and not is_own_session(session):
        raise UsageError(
            f"{session} was not captured by you on this machine, so none of its code runs without "
            f"your permission. {consequence} If you trust whoever made it, add --trust."
        )


def refuse_options_of_measuring(arguments: argparse.Namespace, allowed: Collection[str]) -> None:
    """Raise UsageError for an option that is not ``allowed``, because X is a session with what the
    command would measure.
    """
    given = sorted(set(arguments.given) - set(allowed))
    if not given:
        return
    if given[0] == "output":
        option_name = "-o"
    else:
        option_name = f"--{given[0].replace('_', '-')}"
    raise UsageError(f"{option_name} works on targets: {arguments.target} is already a measurement")
