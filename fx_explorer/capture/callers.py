"""Who called into torch: the user's program, with its line, or fx-explorer."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

import torch

_TORCH = str(Path(torch.__file__).parent) + os.sep
_OURS = str(Path(__file__).parents[1]) + os.sep


class Caller(NamedTuple):
    """``file`` is empty where fx-explorer called."""

    file: str
    line: int


def caller() -> Caller:
    """The innermost frame outside of torch, and of the function of ours that it called."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(_OURS + "capture"):
        frame = frame.f_back
    while frame.f_back and frame.f_code.co_filename.startswith((_TORCH, _OURS + "capture")):
        frame = frame.f_back
    file = frame.f_code.co_filename
    return Caller("", 0) if file.startswith(_OURS) else Caller(file, frame.f_lineno)
