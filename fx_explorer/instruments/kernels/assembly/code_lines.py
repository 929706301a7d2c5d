"""Which lines of a level are its code. The others only say where these are from, or are tables for
a debugger.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fx_explorer.model import Level

_PLACES: dict[Level, re.Pattern[str]] = {
    "ttir": re.compile(r"#loc\w* = loc\("),
    "ttgir": re.compile(r"#loc\w* = loc\("),
    "llir": re.compile(r"![\w.]+ = "),
    "ptx": re.compile(
        r"\s*\.(?:loc|file)\s|\$L__(?:tmp|func_begin|func_end|pc_)\w*:|\s*//\s*%bb|\s*// (?:begin|end) inline asm$"
    ),
    "amdgcn": re.compile(r"\s*\.(?:loc|file|cfi_\w+)\s|\s*\.cfi_\w+$|\.L(?:tmp|func_begin)\w*:"),
    "sass": re.compile(r"\s*//## File |\s+/\* 0x[0-9a-f]{16} \*/$"),
}

_REST: dict[Level, re.Pattern[str]] = {
    "ptx": re.compile(r"\s*\.section\s+\.debug_"),
    "amdgcn": re.compile(r"\s*\.section\s+\.debug_|\.Lfunc_end\d+:"),
    "sass": re.compile(r"//-+ (?:SYMBOLS|\.nv|\.debug|\.rel)"),
}
"""Matches the line from which on nothing is executed."""

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
    """Return the same lines. From SASS, most of the 27 cells that nvdisasm puts around an address
    are removed, and the encoding after an instruction.
    """
    return _SASS_ENCODING.sub("", _SASS_MARGIN.sub(r"\1", text)) if level == "sass" else text


def without_encoding(level: Level, text: str) -> str:
    """Return SASS as nvdisasm writes it when it is not asked for encodings. Other levels have none."""
    if level != "sass":
        return text
    return _SASS_ENCODING.sub(
        "", re.sub(r"^[^\S\n]+/\* 0x[0-9a-f]{16} \*/\n", "", text, flags=re.MULTILINE)
    )
