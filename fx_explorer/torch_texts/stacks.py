"""User stacks in Python's traceback format."""

from __future__ import annotations

import re

from fx_explorer.model import Frame

_FRAME = re.compile(
    r'^ *File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<function>.+)\n(?:(?P<code> {4,}(?! *File ").*)\n?)?',
    re.M,
)


def parse_stack(text: str) -> tuple[Frame, ...]:
    """Return the frames of a traceback text, outermost first."""
    return tuple(
        Frame(m["file"], int(m["line"]), m["function"].strip(), (m["code"] or "").strip())
        for m in _FRAME.finditer(text)
    )
