"""This module has the names of captures of the history on a command line: ``history:17`` is a
session wherever one may be given, and ``history diff 16 17`` is ``diff history:16 history:17``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from fx_explorer.client.history import History, Hold, number_in
from fx_explorer.errors import UsageError

COMMANDS = {"show": "explore", "diff": "diff"}
"""Word after ``history`` → the command that takes captures."""


def command_of(words: Sequence[str]) -> list[str] | None:
    """Return the command that ``history 17`` (``history show 17``) or ``history diff 16 17`` stands
    for; None for other words of ``history``.
    """
    if words and _is_number(words[0]):
        words = ["show", *words]
    if not words or words[0] not in COMMANDS:
        return None
    named = [f"history:{word}" if _is_number(word) else word for word in words[1:]]
    return [COMMANDS[words[0]], *named]


def _is_number(word: str) -> bool:
    return number_in(f"history:{word}") is not None


def session_of(target: str, until: contextlib.ExitStack) -> Path | None:
    """Return the session of ``history:17``, which is not removed before ``until`` ends; None for
    any other target. Raises UsageError if it is not there.
    """
    number = number_in(target)
    if number is None:
        return None
    capture = History().find(number)
    try:
        until.callback(Hold(capture.folder).release)
    except OSError as error:
        raise UsageError(f"{capture.name} is being removed right now") from error
    return capture.session
