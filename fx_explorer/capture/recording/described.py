"""This module writes short texts for rows: a value in a few words, for a guard or a step, and a
compiler error in one line, as lists show it.

To describe a value runs no code of the program's.
"""

from __future__ import annotations

import enum
import re
import types
from typing import Any

import torch

from fx_explorer.capture.recording.fx_graphs import short_dtype

LONGEST_VALUE = 60
"""Maximum number of characters of a value. A recompile shows the change, not the program's data."""

PLAIN = (bool, int, float, complex, str, bytes, type(None))


def described(value: object) -> str:
    """Return a short description: ``f32[4, 8]``, ``16``, ``'relu'``, ``list of 3``,
    ``function gelu``. Runs no code of the program's.
    """
    if isinstance(value, torch.Tensor):
        return f"{short_dtype(value.dtype)}[{', '.join(map(str, value.shape))}]"
    if type(value) in PLAIN:
        return _shortened(_plain(value))
    if isinstance(value, torch.dtype | torch.device):
        return str(value)
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if type(value) in (list, tuple, set, frozenset, dict):
        return f"{type(value).__name__} of {len(value)}"  # type: ignore[arg-type]
    if isinstance(value, type):
        return f"class {class_name(value)}"
    if isinstance(value, types.CodeType):
        return f"code of {value.co_name}"
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType | types.MethodType):
        return f"function {value.__name__}"
    return f"object of class {class_name(type(value))}"


def class_name(kind: type) -> str:
    """Return the name of a class, whose metaclass may have another ``__name__`` in its place."""
    return str(_CLASS_NAME.__get__(kind))


_CLASS_NAME: Any = type.__dict__["__name__"]


def _plain(value: object) -> str:
    if (
        isinstance(value, int) and value.bit_length() > 200
    ):  # Python refuses to write an int of thousands of digits
        return f"int of {value.bit_length()} bits"
    if isinstance(value, str | bytes):
        return repr(value[: LONGEST_VALUE + 1])
    return repr(value)


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_VALUE:
        return text
    return text[: LONGEST_VALUE - 1] + "…"


MAX_ERROR = 400
"""Maximum number of characters of an error in one line; its Failure has the whole text."""

_ADVICE = re.compile(r"Developer debug context|\n\nSet TORCHDYNAMO_VERBOSE")


def one_line(text: str) -> str:
    """Return the error in one line, without torch's advice on how to debug torch."""
    line = " ".join(_ADVICE.split(text)[0].split()).rstrip(":")
    if len(line) <= MAX_ERROR:
        return line
    return line[:MAX_ERROR] + " …"
