"""This module joins what was measured elsewhere to a given session, and stores it there: a profile
of torch.profiler (``--profile``), a CUDA memory snapshot.

A session that cannot be written to is copied into a temporary directory first.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

from fx_explorer.client.session_files import writable_session
from fx_explorer.command_line.given_session import is_session
from fx_explorer.command_line.narration import CaptureNarration
from fx_explorer.errors import UsageError
from fx_explorer.folders import temporary_folder
from fx_explorer.highlight import printable
from fx_explorer.output.terminal import print_fitted

HELP = (
    "show the times of this profile in the session; the file is written by torch.profiler's "
    "export_chrome_trace, .json or .json.gz"
)

FOR_SESSIONS = (
    "a profile is shown together with a session or a log of the same program, and {target} is "
    "neither. Record the program first, with a profiler in it: fx-explorer run {target}"
)


def add_profile_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", metavar="TRACE", type=Path, default=None, help=HELP)


def session_with_profile(target: str, trace: Path, until: contextlib.ExitStack) -> Path:
    """Return a session with the profile: the given one, or a copy, which ``until`` removes.

    Raises UsageError for a target that is no session, ProfileError for a file that is no profile.
    """
    if not is_session(target):
        raise UsageError(FOR_SESSIONS.format(target=target))
    from fx_explorer.instruments.profile.join import add_profile, joined_profile

    session = Path(target)
    with _Progress(trace) as progress:
        joined = joined_profile(session, trace, progress.show_progress)
    writable = _writable(session, "profile", until)
    add_profile(writable, joined)
    return writable


def session_with_snapshot(session: Path, snapshot: Path, until: contextlib.ExitStack) -> Path:
    """Return the session with a CUDA memory snapshot: the given one, or a copy, which ``until``
    removes. Raises SessionError for a file that is no snapshot.
    """
    from fx_explorer.instruments.memory.snapshot_figures import add_snapshot, snapshot_figures

    figures = snapshot_figures(snapshot)
    writable = _writable(session, "snapshot", until)
    add_snapshot(writable, figures)
    return writable


def _writable(session: Path, what: str, until: contextlib.ExitStack) -> Path:
    """Return the session, or a copy of one that cannot be written to, which the user is told."""
    folder = until.enter_context(temporary_folder())
    writable = writable_session(session, folder)
    if writable != session:
        print_fitted(
            f"fx-explorer: the {what} is added to a copy: {printable(str(session))} stays "
            "unchanged",
            sys.stderr,
        )
    return writable


class _Progress:
    """Shows the progress of reading a trace on a terminal."""

    def __init__(self, trace: Path) -> None:
        self._name = printable(trace.name)
        self._size = trace.stat().st_size if trace.is_file() else 0
        self._share = 0.0
        self._narration = CaptureNarration(sys.stderr, pass_through=False)

    def __enter__(self) -> _Progress:
        self._narration.show_live(lambda: f"reading {self._name}: {self._share:.0%}")
        return self

    def __exit__(self, *_: object) -> None:
        self._narration.end()

    def show_progress(self, read: int) -> None:
        self._share = min(1.0, read / max(1, self._size))
        self._narration.tick()
