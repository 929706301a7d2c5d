"""Who called into torch: the user's program, with its line, or fx-explorer."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import torch

_TORCH = str(Path(torch.__file__).parent) + os.sep
_OURS = str(Path(__file__).parents[3]) + os.sep


_PASSING_ON = (_TORCH + "__init__.py", _TORCH + os.path.join("nn", "modules", "module.py"))
"""Files in which torch calls its own ``compile`` for the user: the decorator, and
``nn.Module.compile``.
"""


class CallSite(NamedTuple):
    """A line that called into torch. ``file`` is empty where fx-explorer called."""

    file: str
    line: int


def caller() -> CallSite:
    """Return the innermost frame outside torch and outside the function of ours that it called."""
    frame = _first_outside_capture()
    while frame.f_back and frame.f_code.co_filename.startswith((_TORCH, _OURS + "capture")):
        frame = frame.f_back
    file = frame.f_code.co_filename
    return CallSite("", 0) if file.startswith(_OURS) else CallSite(file, frame.f_lineno)


def is_torch_itself() -> bool:
    """Return whether torch calls its own ``compile`` for itself, as for ``flex_attention``."""
    file = _first_outside_capture().f_code.co_filename
    return file.startswith(_TORCH) and file not in _PASSING_ON


def _first_outside_capture() -> FrameType:
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(_OURS + "capture"):
        frame = frame.f_back
    return frame
