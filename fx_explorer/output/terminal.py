"""This module prints to a person, in the width of the terminal, with sentences wrapped under their
beginning. For other programs each sentence is one line, however long.

The help needs it, which starts at once: it imports nothing heavy.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import textwrap
from typing import NamedTuple, TextIO

LEAST_PROSE = 24
"""Minimum width at which a sentence can still be read, in cells."""

INDENT = 4
"""Indentation, in cells, of a sentence that begins on a line of its own because it does not fit
beside its head.
"""


def terminal_width(otherwise: int = 80) -> int:
    """Return the columns of the terminal, also if the output goes to a pager; ``otherwise`` without
    a terminal.
    """
    return shutil.get_terminal_size((otherwise, 24)).columns


def width_for(out: object) -> int | None:
    """Return the columns of the terminal that ``out`` writes to; None if a program reads it."""
    is_terminal = getattr(out, "isatty", lambda: False)()
    if not is_terminal:
        return None
    return terminal_width()


def is_read_in_colour(out: object) -> bool:
    """Return whether a person reads it, on a terminal that is to have colours
    (https://no-color.org).
    """
    is_terminal = isinstance(out, io.TextIOBase) and out.isatty()
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def heading(text: str, out: object) -> str:
    """Return a heading, bold where a person reads it in colours."""
    if not is_read_in_colour(out):
        return text
    return f"\x1b[1m{text}\x1b[0m"


class Hanging(NamedTuple):
    """A sentence whose further lines are indented to its own beginning, after its head."""

    head: str
    """The text before it, including the gap."""
    sentence: str

    def __str__(self) -> str:
        return self.head + self.sentence


Line = str | Hanging
"""A sentence wrapped under its own indentation, or a hanging one."""


def wrapped(line: Line, width: int | None) -> list[str]:
    """Return the lines that a line takes in this width. A word that is longer, a path, stays
    whole.
    """
    if isinstance(line, str):
        indent = len(line) - len(line.lstrip())
        line = Hanging(line[:indent], line[indent:])
    if width is None or len(str(line)) <= width:
        return [str(line)]
    begins = len(line.head)
    furthest = max(0, width - LEAST_PROSE)
    if begins <= furthest:
        first, *rest = _split_at_spaces(line.sentence, width - begins)
        lines = [line.head + first]
        lines += [" " * begins + part for part in rest]
        return lines
    above = line.head.rstrip()
    indent = len(above) - len(above.lstrip())
    below_cells = indent + INDENT if above else begins
    below = " " * min(below_cells, furthest)
    lines = [above] if above else []
    lines += [below + part for part in _split_at_spaces(line.sentence, width - len(below))]
    return lines


def _split_at_spaces(text: str, room: int) -> list[str]:
    parts = textwrap.wrap(text, max(1, room), break_long_words=False, break_on_hyphens=False)
    return parts or [""]


def print_fitted(line: Line, out: TextIO | None = None) -> None:
    """Print a line, or all lines of a text at once, fitted to the terminal's width. It goes to
    stdout unless ``out`` is another stream.
    """
    out = out or sys.stdout
    width = width_for(out)
    parts = [line] if isinstance(line, Hanging) else line.split("\n")
    lines: list[str] = []
    for part in parts:
        lines += wrapped(part, width)
    print("\n".join(lines), file=out, flush=True)
