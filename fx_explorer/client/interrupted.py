"""This module deals with captures whose fx-explorer was killed: the next start moves them into the
history. What cannot be moved, or must not be since the history is off, is reported once and stays
until ``fx-explorer recover`` removes it.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from fx_explorer.client.history import History, KeptCapture, project_of
from fx_explorer.client.session_files import Leftover, leftovers, note_reported, remove_leftover
from fx_explorer.errors import SessionError, SessionWriteError
from fx_explorer.folders import Lock
from fx_explorer.session import SessionReader

STILL_S = 3
"""Seconds without a change after which a session is moved: a worker may live a little longer than
the fx-explorer that was killed.
"""


def news_of_leftovers(history: History | None) -> list[str]:
    """Move the sessions of interrupted captures into the history, and return a line on what is new
    since the last start; empty where nothing is.
    """
    news, not_moved = [], []
    for leftover in leftovers():
        if leftover.was_reported:
            continue
        kept = _move(leftover, history) if history and not leftover.problem else None
        if kept:
            news.append(
                f"a capture was interrupted; what it recorded is kept ({leftover.words}): "
                f"fx-explorer {kept.name}"
            )
        elif not history or leftover.problem or _is_still(leftover):
            not_moved.append(leftover)
    for leftover in not_moved:
        note_reported(leftover.directory)
    if len(not_moved) == 1:
        news.append(
            f"a capture was interrupted; what it recorded is kept ({not_moved[0].words}). Recover "
            "or remove it: fx-explorer recover"
        )
    elif not_moved:
        news.append(
            f"{len(not_moved)} captures were interrupted; what they recorded is kept (the last: "
            f"{not_moved[-1].words}). List, recover or remove them: fx-explorer recover"
        )
    return news


def _move(leftover: Leftover, history: History) -> KeptCapture | None:
    """Move a session into the history; None where another process does, where it is still written,
    and where the history cannot take it.
    """
    if not _is_still(leftover):
        return None
    try:
        lock = Lock(leftover.directory)
    except OSError:
        return None
    try:
        kept, hold = history.keep(
            leftover.session, leftover.target, _project_of(leftover), is_moved=True
        )
        hold.release()
        remove_leftover(leftover)
    except SessionWriteError:
        return None
    finally:
        lock.release()
    return kept


def _is_still(leftover: Leftover) -> bool:
    """Return whether nobody writes the session any more."""
    log = leftover.session.with_name(f"{leftover.session.name}-wal")
    changed_at = 0.0
    for file in (leftover.session, log):
        with contextlib.suppress(FileNotFoundError):
            status = file.stat()
            if status.st_size:  # to look at a session makes an empty log
                changed_at = max(changed_at, status.st_mtime)
    return time.time() - changed_at > STILL_S


def _project_of(leftover: Leftover) -> str:
    """Return the project of the program, by the file that the worker found for it: the target may
    have been given from another directory.
    """
    try:
        with SessionReader(leftover.session) as reader:
            file = (reader.meta("target") or {}).get("file")
    except SessionError:
        file = None
    is_known = isinstance(file, str) and Path(file).is_file()
    return project_of(str(file) if is_known else leftover.target)
