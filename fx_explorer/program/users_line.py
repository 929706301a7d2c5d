"""The line of the user's that something is called from."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

import fx_explorer

_NOT_THE_USERS = tuple(
    str(Path(str(package.__file__)).parent) + os.sep for package in (torch, fx_explorer)
)


def users_line(above: int, within: str = "") -> tuple[str, int]:
    """Return the file and number of the innermost line that is neither torch's nor ours, at least
    ``above`` frames above this one; ("", 0) without one, as within a backward. ``within`` names a
    function at whose call the search ends.
    """
    frame = sys._getframe(above)
    while frame is not None and frame.f_code.co_name != within:
        file = frame.f_code.co_filename
        if not file.startswith((*_NOT_THE_USERS, "<")):
            return file, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return "", 0
