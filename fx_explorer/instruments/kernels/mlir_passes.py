"""This module reads MLIR passes: it splits the output of ``MLIR_ENABLE_DUMP`` while Triton compiles
into passes, with the text before and after each.

MLIR prints the module *before* each pass (mlir/lib/Pass/IRPrinting.cpp), so the text after a pass
is the text before the next one. Locations are left out, because they are numbered again in every
text. Steps that a pass prints itself (the software pipeliner) are left out too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from fx_explorer.analysis.diff import DiffRow, text_diff

_HEADING = re.compile(
    r"^// -----// (?:(.*) internal )?IR Dump (?:Before|After):? ?(\S+)(?: \(([\w-]+)\))?(.*)$",
    re.MULTILINE,
)
_FUNCTION = re.compile(r"@([\w.$]+)\)")
_LOCATION = re.compile(
    r" ?\bloc\((?:#loc\w*|unknown|\"[^\"]*\"(?::\d+:\d+|\(#loc\w*\))|callsite\([^()]*\))\)"
)
_ALIAS = re.compile(r"^#loc\w* = .*\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Pass:
    position: int
    name: str
    """The pass's name: ``TritonGPUCoalesce``."""
    argument: str
    """The pass's name on the command line of ``triton-opt``: ``tritongpu-coalesce``."""
    function: str
    """The function it ran on alone; empty for the whole module."""
    before: tuple[str, ...]
    after: tuple[str, ...]
    """Lines without locations. The last pass of a dump has none, because its result is not printed.
    """
    is_last: bool = False

    @property
    def changed(self) -> bool:
        return not self.is_last and self.before != self.after


def passes(dump: str) -> list[Pass]:
    """Return every pass in the order it ran; empty when the dump has none."""
    stretches = list(_stretches(dump))
    compiler_passes = []
    for position, (heading, text) in enumerate(stretches):
        is_last = position + 1 == len(stretches)
        after = () if is_last else stretches[position + 1][1]
        match = _FUNCTION.search(heading[4])
        function = match[1] if match else ""
        compiler_passes.append(
            Pass(position, heading[2], heading[3] or "", function, text, after, is_last)
        )
    return compiler_passes


def pass_diff(compiler_pass: Pass) -> list[DiffRow[str]]:
    """Return the changes that the pass made, line by line."""
    if not compiler_pass.is_last:
        return text_diff(compiler_pass.before, compiler_pass.after)
    return [DiffRow(" ", line, line) for line in compiler_pass.before]


def _stretches(dump: str) -> Iterator[tuple[re.Match[str], tuple[str, ...]]]:
    """Yield each heading with the lines of the module after it."""
    headings = list(_HEADING.finditer(dump))
    for heading, following in zip_longest(headings, headings[1:]):
        if heading[1]:
            continue
        end = following.start() if following else len(dump)
        text = dump[heading.end() : end]
        yield heading, tuple(without_locations(text).strip("\n").split("\n"))


def without_locations(text: str) -> str:
    """Return the text without locations. Removing is done twice, because one may be inside
    another.
    """
    return _LOCATION.sub("", _LOCATION.sub("", _ALIAS.sub("", text)))
