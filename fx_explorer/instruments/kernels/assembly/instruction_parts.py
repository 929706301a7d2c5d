"""The parts of one line of PTX, SASS or AMDGCN: address, guard, name, operands. Everything else,
such as a label or a directive, has none.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from fx_explorer.model import Level
from fx_explorer.torch_texts import bounded

Span = tuple[int, int]
"""From which character of the line up to which."""


class Parts(NamedTuple):
    """Where the parts of an instruction stand in its line; a part that is not there is empty."""

    address: Span
    guard: Span
    """The predicate under which it runs: ``@!P2``."""
    name: Span
    """The opcode with its modifiers."""
    operands: Span


_SASS = re.compile(
    r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+(?:\{\s*)?(?:(?P<guard>@!?U?P[\dT])\s*)?(?P<name>[A-Z][\w.]*)(?![\w.])\s*(?P<operands>(?:[^;\s]+(?:\s+[^;\s]+)*)?)\s*;"
)
_PTX = re.compile(
    r"^\s+(?:(?P<guard>@!?%\w+)\s+)?(?P<name>[a-z]\w*(?:[.:]+\w+)*)(?=[\s;])\s*(?P<operands>(?:\S.*?)??)(?:\s{0,40};)?\s{0,40}(?://.*)?$"
)
_AMDGCN = re.compile(
    r"^\s+(?P<name>[a-z]\w*)(?=\s|$)\s*(?P<operands>(?:[^;\s]+(?:\s+[^;\s]+)*)?)\s*(?:;.*)?$"
)

_PATTERNS: dict[Level, re.Pattern[str]] = {"sass": _SASS, "ptx": _PTX, "amdgcn": _AMDGCN}

NOWHERE: Span = (0, 0)


def is_assembly(level: str) -> bool:
    """Return whether the lines of a language are instructions."""
    return level in _PATTERNS


def parts_of(level: Level, line: str) -> Parts | None:
    """Find the parts of a line; None for a line that is no instruction."""
    found = _PATTERNS[level].match(bounded(line))
    if found is None:
        return None
    groups = found.re.groupindex
    spans = (
        found.span(name) if name in groups and found[name] else NOWHERE for name in Parts._fields
    )
    return Parts(*spans)


def name_in(level: Level, line: str) -> str:
    """Return the name of the instruction of a line; empty for a line that is none."""
    parts = parts_of(level, line) if is_assembly(level) else None
    return line[slice(*parts.name)] if parts else ""
