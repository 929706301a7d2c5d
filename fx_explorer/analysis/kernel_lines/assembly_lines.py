"""Lines of PTX, AMDGCN and SASS. A place holds for the instructions after it, until the next place.

Triton 3.7 gives the callers of an inlined helper in comments (``.loc 2 169 15  // helpers.py:169:15
@[ kernel.py:48:39 ]``), 3.9 in directives (``inlined_at 1 48 39``, one step of the chain at a
time). With 3.7, SASS names only the helper's line, and the PTX is needed to understand it. With
3.9, nvdisasm writes the whole chain, the kernel's line last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath

from fx_explorer.analysis.kernel_lines.line_map import KernelFile, LineMap
from fx_explorer.torch_texts import bounded

Callers = Mapping[tuple[str, int], tuple[int, ...]]
"""(base name, line) of a helper → the kernel's lines that call it there."""

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?!\d)[^/;]*(?:(?://|;)\s*(.*))?$")
_COMMENTED = re.compile(r"(?<![^\s:\[\]])([^\s:\[\]]+):(\d+)(?::\d+)?")
_INLINED_AT = re.compile(r"inlined_at\s+(\d+)\s+(\d+)\s+(\d+)")
_INSTRUCTION = re.compile(r"^\s+(?:@!?%p\d+\s+)?[a-z]\w*(?:[.:]|\s|;|$)")
_SASS_PLACE = re.compile(
    r'^\s*//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?'
)
_SASS_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?!\s)([^;]*);")


PTX_IN_CUBIN = ".nv_debug_ptx_txt"
"""What nvdisasm calls the PTX that a cubin has of itself, where it names a line of that beside one
of the source.
"""


def is_instruction(line: str) -> bool:
    """Return whether a line of PTX or AMDGCN is an instruction, not a label, directive or
    comment.
    """
    return _INSTRUCTION.match(line) is not None


def instruction_lines(text: str) -> list[int]:
    """Find the instructions of a PTX or AMDGCN text. They stand in functions, which end where
    AMDGCN's tables begin.
    """
    code = text.split("\n")
    end = next((i for i, line in enumerate(code) if line.startswith(".Lfunc_end")), len(code))
    return [number for number, line in enumerate(code[:end], 1) if is_instruction(line)]


def sass_instruction_lines(text: str) -> list[int]:
    return [
        number
        for number, line in enumerate(text.split("\n"), 1)
        if _SASS_INSTRUCTION.match(bounded(line))
    ]


def assembly_lines(text: str, file: KernelFile) -> LineMap:
    """Map the instructions of a PTX or AMDGCN text to lines of the kernel; directives are left
    out.
    """
    mapped: LineMap = {}
    lines = text.split("\n")
    current: tuple[int, ...] = ()
    places = _LocDirectives(lines, file)
    wanted = set(instruction_lines(text))
    for number, line in enumerate(lines, 1):
        if found := _LOC.match(bounded(line)):
            current = places.source_lines(found, line)
        elif current and number in wanted:
            mapped[number] = current
    return mapped


def callers(assembly: str, file: KernelFile) -> Callers:
    """Return who called which line of a helper, from the PTX of the same build."""
    lines = assembly.split("\n")
    places = _LocDirectives(lines, file)
    found: dict[tuple[str, int], set[int]] = {}
    for line in lines:
        if place := _LOC.match(bounded(line)):
            sources, helper = places.source_lines(place, line), places.innermost(place)
            if sources:
                found.setdefault(helper, set()).update(sources)
    return {helper: tuple(sorted(sources)) for helper, sources in found.items()}


def sass_lines(text: str, file: KernelFile, called_from: Callers) -> LineMap:
    """Map the instructions of a SASS text to lines of the kernel. A helper's line with several
    callers leads to all of them.

    ``called_from`` is the result of ``callers``.
    """
    mapped: LineMap = {}
    chain: list[tuple[str, int]] = []
    current: tuple[int, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        if place := _SASS_PLACE.match(line):
            if place[1] == PTX_IN_CUBIN:
                continue
            here = place[1], int(place[2])
            # A place that begins where the last one ended is the next step of its chain.
            chain = chain if chain[-1:] == [here] else [here]
            chain += [(place[3], int(place[4]))] if place[3] else []
            current = _sass_places(chain, file, called_from)
        elif _SASS_INSTRUCTION.match(bounded(line)):
            chain = []
            if current:
                mapped[number] = current
    return mapped


def _sass_places(
    chain: list[tuple[str, int]], file: KernelFile, called_from: Callers
) -> tuple[int, ...]:
    path, line = chain[-1]
    own = file.lines(chain) if file.name else ()
    return tuple(sorted({*own, *called_from.get((PurePath(path).name, line), ())}))


class _LocDirectives:
    """Reads the ``.loc`` directives of one text."""

    def __init__(self, lines: list[str], file: KernelFile) -> None:
        found = (_FILE.match(line) for line in lines if ".file" in line)
        self._files = {one[1]: PurePath(one[3] or one[2]).name for one in found if one}
        self._file = file
        self._called_from: dict[tuple[str, str, str], tuple[str, str, str]] = {}
        """(file, line, column) → where that was inlined, as the text said last."""

    def innermost(self, place: re.Match[str]) -> tuple[str, int]:
        return self._files.get(place[1], ""), int(place[2])

    def source_lines(self, place: re.Match[str], line: str) -> tuple[int, ...]:
        """Return the source lines of a directive. Give the directives of a text in their order."""
        if at := _INLINED_AT.search(line):
            return self._file.lines(
                self._chain((place[1], place[2], place[3]), (at[1], at[2], at[3]))
            )
        commented = _COMMENTED.findall(place[4] or "")
        if commented and int(place[2]):
            return self._file.lines([(file, int(number)) for file, number in commented])
        return self._file.lines([self.innermost(place)])

    def _chain(
        self, inner: tuple[str, str, str], at: tuple[str, str, str]
    ) -> list[tuple[str, int]]:
        self._called_from[inner] = at
        chain = [inner]
        # A damaged text could lead in a circle.
        while at not in chain and at in self._called_from:
            chain.append(at)
            at = self._called_from[at]
        return [(self._files.get(file, ""), int(line)) for file, line, _ in (*chain, at)]
