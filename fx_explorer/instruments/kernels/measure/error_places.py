"""Where Triton refuses the user's own kernel, as a line of the user's file. Triton itself counts
lines from the function's ``def``.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from fx_explorer.model import Artifact, Kernel, LineSource, SourceFile
from fx_explorer.session import SessionReader

_PLACE = re.compile(r"\bat (\d+):\d+:\n")
"""Matches the place in a message of ``CompilationError._format_message``
(triton/compiler/errors.py). The function's text down to that line follows, and a ``^``.
"""

_CARET = re.compile(r"^\s*\^\s*$")


def with_places(reader: SessionReader, kernel: Kernel, error: str) -> str:
    """Return ``error`` with ``model.py:12,`` in front of each place that is a line of the user's
    kernel, or of one of its helpers.
    """
    lines = reader.text(reader.get(Artifact, kernel.artifact).text).split("\n")

    def named(place: re.Match[str]) -> str:
        at = _line_of(lines, error[place.end() :], int(place[1]))
        if at:
            rows = reader.rows(LineSource, artifact=kernel.artifact, line=at, how="copied")
        else:
            rows = []
        file = PurePath(reader.get(SourceFile, rows[0].file).path).name if rows else ""
        return f"{file}:{rows[0].source_line}, {place[0]}" if rows else place[0]

    return _PLACE.sub(named, error)


def _line_of(lines: list[str], message: str, number: int) -> int:
    """Return the line (from 1) of the kernel's source that is the ``number``-th of its function; 0
    when none or several match.

    The message begins with the function's text.
    """
    shown = message.split("\n")
    end = next((i for i, line in enumerate(shown) if _CARET.match(line)), 0)
    ends = [i for i in range(end, len(lines) + 1) if end and lines[i - end : i] == shown[:end]]
    # A smaller one would count from the end of the list.
    fitting = [i for i in ends if i >= number and lines[i - number].startswith("def ")]
    return fitting[0] if len(fitting) == 1 else 0
