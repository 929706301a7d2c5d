"""This module captures the program of a session once more by another interpreter, which may have
another release of torch, and names the two sides: ``o p`` and ``diff --python A --python B``.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fx_explorer.errors import UsageError
from fx_explorer.instruments.diff.two_sessions import torch_release
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionReader
from fx_explorer.trials import (
    Told,
    TrialWorker,
    ignore_message,
    keep_session,
    recapture,
    straight_through,
    to_its_end,
)

TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class OtherCapture:
    """The capture of a program by another interpreter."""

    python: str
    session: Path


async def capture_by(
    request: CaptureRequest,
    python: str,
    folder: Path,
    tell: Told = ignore_message,
    worker: TrialWorker | None = None,
) -> OtherCapture:
    """Capture a program by the interpreter ``python``, and keep the session in ``folder``.
    ``request`` is that of the session it is compared with, ``worker`` has the limit. Raises
    UsageError if the program could not be started there, and SessionWriteError without room.
    """
    # A process that has imported torch has that of another interpreter.
    there = replace(worker or TrialWorker(), python=python, fork_server=None)
    again = await recapture(
        straight_through(request),
        there,
        partial(_kept, folder),
        attend=partial(to_its_end, tell=tell),
        limit_s=TIMEOUT_S,
    )
    if again.outcome.kind in ("not_started", "timed_out", "cancelled"):
        why = again.outcome.message or again.outcome.kind.replace("_", " ")
        raise UsageError(f"The program could not be captured by {python}: {why}")
    return OtherCapture(python, again.found)


def _kept(folder: Path, reader: SessionReader) -> Path:
    return keep_session(reader, Path(tempfile.mkdtemp(dir=folder)) / "other.fxs")


def names_by_release(
    left: SessionReader, right: SessionReader, pythons: tuple[str, str]
) -> tuple[str, str]:
    """Return the names of two captures by two interpreters: their releases of torch where these
    differ, else the paths.
    """
    releases = torch_release(left), torch_release(right)
    if releases[0] != releases[1]:
        return f"torch {releases[0]}", f"torch {releases[1]}"
    return pythons


def is_older(left: SessionReader, right: SessionReader) -> bool:
    """Return whether the release of torch of the first session is the older one."""
    return _numbers(torch_release(left)) < _numbers(torch_release(right))


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", release.partition("+")[0])[:3])
