"""What is printed to a person: in the width of the terminal, which is asked for here, with sentences that go on under
where they began. What a program reads is a line for each, however long.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TextIO

from rich.cells import cell_len

from fx_explorer.highlight import printable
from fx_explorer.output.table import LEAST_PROSE, Table
from fx_explorer.output.text import INDENT, text_table


def terminal_width(otherwise: int = 80) -> int:
    """Return the columns of the terminal, also where a pager reads in place of a person; ``otherwise`` where there is none."""
    return shutil.get_terminal_size((otherwise, 24)).columns


def width_for(out: object) -> int | None:
    """Return the columns of the terminal that ``out`` writes to; None where a program reads."""
    is_terminal = getattr(out, "isatty", lambda: False)()
    return terminal_width() if is_terminal else None


def is_read_in_colour(out: object) -> bool:
    """Return whether a person reads it, on a terminal that is to have colours (https://no-color.org)."""
    is_terminal = isinstance(out, io.TextIOBase) and out.isatty()
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def heading(text: str, out: object) -> str:
    """Return a heading, bold where a person reads it in colours."""
    return f"\x1b[1m{text}\x1b[0m" if is_read_in_colour(out) else text


@dataclass(frozen=True, slots=True)
class Hanging:
    """A sentence that goes on under its own beginning, beside what stands before it."""

    head: str
    """What stands before it, with the gap between them."""
    sentence: str

    def __str__(self) -> str:
        return self.head + self.sentence


Line = str | Hanging
"""A sentence that goes on under its own indentation, or one that hangs."""

Block = Line | Table


def wrapped(line: Line, width: int | None) -> list[str]:
    """Return the lines that a line takes in this width. A word that is longer, a path, stays whole."""
    if isinstance(line, str):
        indent = len(line) - len(line.lstrip())
        line = Hanging(line[:indent], line[indent:])
    if width is None or cell_len(str(line)) <= width:
        return [str(line)]
    begins = cell_len(line.head)
    furthest = max(0, width - LEAST_PROSE)
    if begins <= furthest:
        first, *rest = _words(line.sentence, width - begins)
        return [line.head + first, *(" " * begins + part for part in rest)]
    above = line.head.rstrip()
    indent = len(above) - len(above.lstrip())
    below = " " * min(indent + INDENT if above else begins, furthest)
    parts = _words(line.sentence, width - len(below))
    return [*([above] if above else []), *(below + part for part in parts)]


def _words(text: str, room: int) -> list[str]:
    parts = textwrap.wrap(text, max(1, room), break_long_words=False, break_on_hyphens=False)
    return parts or [""]


def text_lines(blocks: Iterable[Block], width: int | None) -> list[str]:
    """Return sentences and tables as lines of at most ``width`` cells, None where a program reads. What could steer a
    terminal is made visible.
    """
    lines: list[str] = []
    for block in blocks:
        if isinstance(block, Table):
            laid_out = text_table(block, width)
            lines += laid_out.lines
            for line in laid_out.below:
                lines += wrapped(line, width)
        elif isinstance(block, Hanging):
            lines += wrapped(Hanging(printable(block.head), printable(block.sentence)), width)
        else:
            lines += wrapped(printable(block), width)
    return lines


def text_of(blocks: Iterable[Block], width: int | None = None) -> str:
    """Return sentences and tables as a text that ends with one newline."""
    return "\n".join(text_lines(blocks, width)).rstrip() + "\n"


def tell(line: Line, out: TextIO | None = None) -> None:
    """Print a line, or several that a text has, at once, fitted to the terminal of whoever reads it: on stdout, unless
    ``out`` is another.
    """
    out = out or sys.stdout
    width = width_for(out)
    parts = [line] if isinstance(line, Hanging) else line.split("\n")
    print("\n".join(one for part in parts for one in wrapped(part, width)), file=out, flush=True)
