"""Runs of lines of PTX, SASS and AMDGCN that are no code: what the assembler and the loader are
told. A pane shows each run as one row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from fx_explorer.analysis.words import counted
from fx_explorer.instruments.kernels.assembly.instruction_parts import is_assembly, parts_of
from fx_explorer.model import Level

FEWEST_FOLDED = 3
"""So many lines are worth folding."""

TELLING = (".target", ".reqntid", ".maxntid", ".headerflags")
"""Directives that say something about the kernel; they are quoted."""

MOST_NAMED = 5

_DIRECTIVE = re.compile(r"^\s*(\.[a-z_]\w*)(?=[\s(;\"]|$)")
_LABEL = re.compile(r"^\s*[\w$.]+:")
_NO_CODE = re.compile(r"^(?:[(){}]+,?;?|//.*|;.*|@.*|)$")


class LineRun(NamedTuple):
    """Consecutive lines without an instruction, by their place among the lines that were given."""

    start: int
    stop: int
    words: str
    """What stands there: ``18 directives: .target sm_90a, .param, .reg``."""


def runs(level: Level, lines: Sequence[str]) -> list[LineRun]:
    """Find the runs of directives worth folding. Labels that code jumps to are none."""
    if not is_assembly(level):
        return []
    found = []
    for is_code, places in groupby(range(len(lines)), key=lambda at: _is_code(level, lines[at])):
        run = list(places)
        text = [lines[at] for at in run]
        named = Counter[str]() if is_code else _directives(text)
        if named and len(run) >= FEWEST_FOLDED:
            found.append(LineRun(run[0], run[-1] + 1, _words(text, named)))
    return found


def _is_code(level: Level, line: str) -> bool:
    if _DIRECTIVE.match(line) and not _LABEL.match(line):
        return False
    return parts_of(level, line) is not None or not (
        _NO_CODE.match(line.strip()) or _names_the_kernel(line)
    )


def _names_the_kernel(line: str) -> bool:
    """Return whether a label is a symbol's, which nothing jumps to: SASS names the function and its
    section, AMDGCN the function.
    """
    return bool(_LABEL.match(line)) and not line.lstrip().startswith((".L", "$L", "BB"))


def _directives(lines: Iterable[str]) -> Counter[str]:
    return Counter(
        found[1] for line in lines if (found := _DIRECTIVE.match(line)) and not _LABEL.match(line)
    )


def _words(lines: Sequence[str], named: Counter[str]) -> str:
    told = [_quoted(line) for line in lines if line.strip().startswith(TELLING)]
    others = [name for name in named if not name.startswith(TELLING)]
    shown = [*told, *others][:MOST_NAMED]
    more = "" if len(told) + len(others) <= MOST_NAMED else ", …"
    return f"{counted(sum(named.values()), 'directive')}: {', '.join(shown)}{more}"


_ARCHITECTURE = re.compile(r"EF_CUDA_SM\d+")


def _quoted(line: str) -> str:
    """Return a telling directive in short: of SASS's flags only the architecture."""
    name, _, rest = " ".join(line.split()).partition(" ")
    if name == ".headerflags":
        found = _ARCHITECTURE.search(rest)
        return f"{name} {found[0]}" if found else name
    return f"{name} {rest}".strip()
