"""What is known of the terminal that is printed to."""

from __future__ import annotations

import io
import os
import shutil


def width_for(out: object) -> int | None:
    """Return the columns of the terminal that ``out`` writes to; None where a program reads."""
    is_terminal = getattr(out, "isatty", lambda: False)()
    return shutil.get_terminal_size().columns if is_terminal else None


def is_read_in_colour(out: object) -> bool:
    """Return whether a person reads it, on a terminal that is to have colours (https://no-color.org)."""
    is_terminal = isinstance(out, io.TextIOBase) and out.isatty()
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def heading(text: str, out: object) -> str:
    """Return a heading, bold where a person reads it in colours."""
    return f"\x1b[1m{text}\x1b[0m" if is_read_in_colour(out) else text
