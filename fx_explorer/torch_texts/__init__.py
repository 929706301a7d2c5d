"""Texts that torch writes are taken apart here: stacks, reports of graph breaks, reasons of
recompiles, printed graphs, guard trees, generated code.

They are the same whether the recorder sees them in the process that compiles, or a reader finds
them in a log: so the standard library alone is needed, and no torch.
"""

from __future__ import annotations

from collections.abc import Iterable

OTHER_LINES = "Lines that torch's logging did not write"
"""Title of the artifact with the other lines of a text: what the program and Python printed."""

LONGEST_LINE = 4_000
"""Maximum number of characters of a line, or of a sentence of torch's, that are read. torch's are
shorter; a stranger's text may have millions, and the time of a regular expression can grow with the
square of that.
"""


def bounded(line: str) -> str:
    """Return the beginning of a line, cut to the longest text that is passed to a regular
    expression.
    """
    return line[:LONGEST_LINE]


def complete_path(shortened: str, paths: Iterable[str]) -> str:
    """Return the full path of a file whose beginning torch cut off in a guard's text, if exactly
    one of ``paths`` ends so; else the text unchanged.
    """
    if not shortened:
        return shortened
    ending = shortened.lstrip("./")
    candidates = [path for path in paths if path.endswith(ending)]
    if len(candidates) == 1:
        return candidates[0]
    return shortened
