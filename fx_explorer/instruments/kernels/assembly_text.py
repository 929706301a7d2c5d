"""The lines of PTX, SASS and AMDGCN: which are code, which are directives, and the parts of each
(address, guard, name, operands).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from fx_explorer.analysis.words import counted
from fx_explorer.model import Level
from fx_explorer.torch_texts import bounded

Span = tuple[int, int]
"""(start, end) of a part of the line, in characters."""


class Parts(NamedTuple):
    """The column ranges of an instruction's parts in its line; a missing part is an empty range."""

    address: Span
    guard: Span
    """The predicate under which it runs: ``@!P2``."""
    name: Span
    """The opcode with its modifiers."""
    operands: Span


_SASS = re.compile(
    r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+(?:\{\s*)?(?:(?P<guard>@!?U?P[\dT])\s*)?"
    r"(?P<name>[A-Z][\w.]*)(?![\w.])\s*(?P<operands>(?:[^;\s]+(?:\s+[^;\s]+)*)?)\s*;"
)
_PTX = re.compile(
    r"^\s+(?:(?P<guard>@!?%\w+)\s+)?(?P<name>[a-z]\w*(?:[.:]+\w+)*)(?=[\s;])"
    r"\s*(?P<operands>(?:\S.*?)??)(?:\s{0,40};)?\s{0,40}(?://.*)?$"
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
    """Find the parts of a line; None for a line that is not an instruction."""
    match = _PATTERNS[level].match(bounded(line))
    if match is None:
        return None
    return Parts(*(_span(match, part) for part in Parts._fields))


def _span(match: re.Match[str], part: str) -> Span:
    if part in match.re.groupindex and match[part]:
        return match.span(part)
    return NOWHERE


def name_in(level: Level, line: str) -> str:
    """Return the name of the instruction on a line; empty for any other line."""
    parts = parts_of(level, line) if is_assembly(level) else None
    return line[slice(*parts.name)] if parts else ""


_PLACES: dict[Level, re.Pattern[str]] = {
    "ttir": re.compile(r"#loc\w* = loc\("),
    "ttgir": re.compile(r"#loc\w* = loc\("),
    "llir": re.compile(r"![\w.]+ = "),
    "ptx": re.compile(
        r"\s*\.(?:loc|file)\s|\$L__(?:tmp|func_begin|func_end|pc_)\w*:|\s*//\s*%bb|\s*// "
        r"(?:begin|end) inline asm$"
    ),
    "amdgcn": re.compile(r"\s*\.(?:loc|file|cfi_\w+)\s|\s*\.cfi_\w+$|\.L(?:tmp|func_begin)\w*:"),
    "sass": re.compile(r"\s*//## File |\s+/\* 0x[0-9a-f]{16} \*/$"),
}

_REST: dict[Level, re.Pattern[str]] = {
    "ptx": re.compile(r"\s*\.section\s+\.debug_"),
    "amdgcn": re.compile(r"\s*\.section\s+\.debug_|\.Lfunc_end\d+:"),
    "sass": re.compile(r"//-+ (?:SYMBOLS|\.nv|\.debug|\.rel)"),
}
"""Matches the first line after the code: nothing is executed from there on."""

_SASS_MARGIN = re.compile(r"^\s{8}(/\*[0-9a-f]{4,}\*/) {11}", re.MULTILINE)
_SASS_ENCODING = re.compile(r"(?<!\s)\s+/\* 0x[0-9a-f]{16} \*/$", re.MULTILINE)


def code_lines(level: Level, text: str) -> list[int]:
    """Return the numbers of the lines that are code, from 0. Several empty lines in a row count as
    one.
    """
    return list(_code_lines(level, text))


def _code_lines(level: Level, text: str) -> Iterator[int]:
    places, rest = _PLACES[level], _REST.get(level)
    was_empty = True
    for number, line in enumerate(text.removesuffix("\n").split("\n")):
        if rest and rest.match(line):
            return
        is_empty = not line.strip() or line.strip() == "//"
        if not places.match(line) and not (is_empty and was_empty):
            yield number
            was_empty = is_empty


def without_margin(level: Level, text: str) -> str:
    """Return the lines with less margin: from SASS, most of the 27 cells that nvdisasm puts around
    an address are removed, and the encoding after an instruction.
    """
    if level == "sass":
        return _SASS_ENCODING.sub("", _SASS_MARGIN.sub(r"\1", text))
    return text


def without_encoding(level: Level, text: str) -> str:
    """Return SASS in the form that nvdisasm writes without encodings. Other levels have none."""
    if level != "sass":
        return text
    return _SASS_ENCODING.sub(
        "", re.sub(r"^[^\S\n]+/\* 0x[0-9a-f]{16} \*/\n", "", text, flags=re.MULTILINE)
    )


FEWEST_FOLDED = 3
"""Minimum number of lines that are folded together."""

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
    """Summary of the folded lines: ``18 directives: .target sm_90a, .param, .reg``."""


def runs(level: Level, lines: Sequence[str]) -> list[LineRun]:
    """Find the runs of directives worth folding. Labels that code jumps to are not folded."""
    if not is_assembly(level):
        return []
    folded = []
    for is_code, places in groupby(range(len(lines)), key=lambda at: _is_code(level, lines[at])):
        run = list(places)
        text = [lines[at] for at in run]
        named = Counter[str]() if is_code else _directives(text)
        if named and len(run) >= FEWEST_FOLDED:
            folded.append(LineRun(run[0], run[-1] + 1, _describe_directives(text, named)))
    return folded


def _is_code(level: Level, line: str) -> bool:
    if _DIRECTIVE.match(line) and not _LABEL.match(line):
        return False
    return parts_of(level, line) is not None or not (
        _NO_CODE.match(line.strip()) or _names_the_kernel(line)
    )


def _names_the_kernel(line: str) -> bool:
    """Return whether a label is a symbol's, to which nothing jumps: in SASS the function and its
    section, in AMDGCN the function.
    """
    return bool(_LABEL.match(line)) and not line.lstrip().startswith((".L", "$L", "BB"))


def _directives(lines: Iterable[str]) -> Counter[str]:
    return Counter(
        match[1] for line in lines if (match := _DIRECTIVE.match(line)) and not _LABEL.match(line)
    )


def _describe_directives(lines: Sequence[str], named: Counter[str]) -> str:
    parts = [_quoted(line) for line in lines if line.strip().startswith(TELLING)]
    others = [name for name in named if not name.startswith(TELLING)]
    shown = [*parts, *others][:MOST_NAMED]
    more = "" if len(parts) + len(others) <= MOST_NAMED else ", …"
    return f"{counted(sum(named.values()), 'directive')}: {', '.join(shown)}{more}"


_ARCHITECTURE = re.compile(r"EF_CUDA_SM\d+")


def _quoted(line: str) -> str:
    """Return a directive as one short line; for SASS's ``.headerflags`` only the architecture."""
    name, _, rest = " ".join(line.split()).partition(" ")
    if name == ".headerflags":
        match = _ARCHITECTURE.search(rest)
        return f"{name} {match[0]}" if match else name
    return f"{name} {rest}".strip()
