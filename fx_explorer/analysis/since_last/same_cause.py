"""When a recompile of two captures has the same cause, in words."""

from __future__ import annotations

import re

_OF_ONE_RUN = re.compile(r"\bline \d+|-?(?<!\d)\d+\.\d+(?:e[+-]?\d+)?")


def cause_alone(words: str) -> str:
    """Return what tells one cause from another: the words without the number of a line, which moves when
    something is written above it, and without a computed value, which is another in each run.
    """
    return _OF_ONE_RUN.sub("…", words)
