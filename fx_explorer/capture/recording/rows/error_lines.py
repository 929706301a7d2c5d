"""An error of the compiler in one line, as lists show it."""

from __future__ import annotations

import re

MAX_ERROR = 400
"""Characters of an error shown in one line; the whole is in its Failure."""

_ADVICE = re.compile(r"Developer debug context|\n\nSet TORCHDYNAMO_VERBOSE")


def one_line(text: str) -> str:
    """An error in one line, without torch's advice on how to debug torch."""
    line = " ".join(_ADVICE.split(text)[0].split()).rstrip(":")
    return line if len(line) <= MAX_ERROR else line[:MAX_ERROR] + " …"
