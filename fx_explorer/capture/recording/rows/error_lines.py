"""One line for an error of the compiler, as lists show it."""

from __future__ import annotations

import re

MAX_ERROR = 400
"""Most characters of an error in one line; its Failure has the whole text."""

_ADVICE = re.compile(r"Developer debug context|\n\nSet TORCHDYNAMO_VERBOSE")


def one_line(text: str) -> str:
    """Return the error in one line, without torch's advice on how to debug torch."""
    line = " ".join(_ADVICE.split(text)[0].split()).rstrip(":")
    return line if len(line) <= MAX_ERROR else line[:MAX_ERROR] + " …"
