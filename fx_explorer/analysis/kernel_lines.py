"""This module links the lines of a text below a kernel (PTX, SASS, AMDGCN, LLVM, MLIR) to the lines
of its Triton source, in both directions, by each text's own notation.

Triton 3.7 gives the callers of an inlined helper in comments (``.loc 2 169 15 // helpers.py:169:15
@[ kernel.py:48:39 ]``), 3.9 in directives (``inlined_at 1 48 39``, one step of the chain at a
time). With 3.7, SASS names only the helper's line, and the PTX is needed to understand it. With
3.9, nvdisasm writes the whole chain, the kernel's line last.

Formats: LLVM's language reference, "Specialized Metadata Nodes"; MLIR's language reference, and the
builtin dialect's location attributes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from fx_explorer.torch_texts import bounded

if TYPE_CHECKING:
    from fx_explorer.model import KernelBuild


LineMap = dict[int, tuple[int, ...]]
"""Line of a text → lines of the Triton source, both from 1.

There is mostly one. There are several where two operations were made into one, in a helper that is
in the same source, or where it is not known which of several calls of a helper it was.
"""


@dataclass(frozen=True, slots=True)
class KernelFile:
    """How compilers name the Triton source: the module it was compiled from."""

    name: str
    """Base name of the module's file. If empty, the outermost file is the kernel's."""
    lines_before: int = 0
    """Lines of the module in front of the source: output code quotes a kernel with an empty line
    before it.
    """

    def line(self, file: str, line: int) -> int:
        """Return the source's line for ``line`` of ``file``; 0 when that is another file, or no
        line.
        """
        is_the_source = not self.name or PurePath(file).name == self.name
        if not is_the_source or line <= 0:
            return 0
        return max(0, line - self.lines_before)

    def lines(self, chain: Sequence[tuple[str, int]]) -> tuple[int, ...]:
        """Return the source's lines among those of ``chain``: (file, line) from the innermost
        helper out to the kernel.
        """
        known = chain if self.name else chain[-1:]
        lines = {self.line(file, line) for file, line in known}
        return tuple(sorted(lines - {0}))


def inverted(lines: LineMap) -> LineMap:
    """Return the inverse map: line of the Triton source → lines of the text."""
    texts: dict[int, list[int]] = {}
    for line, sources in lines.items():
        for source in sources:
            texts.setdefault(source, []).append(line)
    return {source: tuple(sorted(of_source)) for source, of_source in sorted(texts.items())}


def kernel_file(build: KernelBuild) -> KernelFile:
    """Return where the source of a configuration stands in the file that Triton compiled."""
    return KernelFile(build.file, build.lines_before)


Callers = Mapping[tuple[str, int], tuple[int, ...]]
"""(base name, line) of a helper → the kernel's lines that call it."""

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
"""nvdisasm's file name for the PTX inside a cubin, to whose lines it refers beside those of the
source.
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
    numbers = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith(".Lfunc_end"):
            break
        if is_instruction(line):
            numbers.append(number)
    return numbers


def sass_instruction_lines(text: str) -> list[int]:
    """Find the instructions of a SASS text."""
    lines = enumerate(text.split("\n"), 1)
    return [number for number, line in lines if _SASS_INSTRUCTION.match(bounded(line))]


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
        if match := _LOC.match(bounded(line)):
            current = places.source_lines(match, line)
        elif current and number in wanted:
            mapped[number] = current
    return mapped


def callers(assembly: str, file: KernelFile) -> Callers:
    """Return who called which line of a helper, from the PTX of the same build."""
    lines = assembly.split("\n")
    places = _LocDirectives(lines, file)
    called_from: dict[tuple[str, int], set[int]] = {}
    for line in lines:
        place = _LOC.match(bounded(line))
        if place:
            sources, helper = places.source_lines(place, line), places.innermost(place)
            if sources:
                called_from.setdefault(helper, set()).update(sources)
    return {helper: tuple(sorted(sources)) for helper, sources in called_from.items()}


def sass_lines(text: str, file: KernelFile, called_from: Callers) -> LineMap:
    """Map the instructions of a SASS text to lines of the kernel. A helper's line with several
    callers leads to all of them.

    ``called_from`` is the result of ``callers``.
    """
    mapped: LineMap = {}
    chain: list[tuple[str, int]] = []
    current: tuple[int, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        place = _SASS_PLACE.match(line)
        if place:
            if place[1] == PTX_IN_CUBIN:
                continue
            here = place[1], int(place[2])
            # A place that begins where the last one ended is the next step of its chain.
            if chain[-1:] != [here]:
                chain = [here]
            if place[3]:
                chain.append((place[3], int(place[4])))
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
    lines = set(file.lines(chain)) if file.name else set()
    lines.update(called_from.get((PurePath(path).name, line), ()))
    return tuple(sorted(lines))


class _LocDirectives:
    """Reads the ``.loc`` directives of one text."""

    def __init__(self, lines: list[str], file: KernelFile) -> None:
        self._files: dict[str, str] = {}
        for line in lines:
            directive = _FILE.match(line) if ".file" in line else None
            if directive:
                self._files[directive[1]] = PurePath(directive[3] or directive[2]).name
        self._file = file
        self._called_from: dict[tuple[str, str, str], tuple[str, str, str]] = {}
        """(file, line, column) → the place into which it was inlined, according to the last
        directive.
        """

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


_METADATA = re.compile(r"^!(\d+) = (?:distinct )?!DI(\w+)\((.*)\)$", re.MULTILINE)
_FIELD = re.compile(r'\b(\w+): (?:!(\d+)|(\d+)|"([^"]*)")')
_DEBUG = re.compile(r"!dbg !(\d+)(?:[,\s{]|$)")

_Node = dict[str, str]


def llvm_lines(text: str, file: KernelFile) -> LineMap:
    """Map the instructions of an LLVM text to lines of the kernel, by their debug locations."""
    nodes = {}
    for match in _METADATA.finditer(text):
        nodes[match[1]] = {"kind": match[2], **_fields(match[3])}
    mapped: LineMap = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("!"):
            continue
        location = _DEBUG.search(line)
        sources = file.lines(_chain(nodes, location[1])) if location else ()
        if sources:
            mapped[number] = sources
    return mapped


def _fields(body: str) -> _Node:
    """Return the fields by name. A reference is returned without its ``!``."""
    return {match[1]: match[2] or match[3] or match[4] or "" for match in _FIELD.finditer(body)}


def _chain(nodes: dict[str, _Node], name: str) -> list[tuple[str, int]]:
    """Return the place, then the calls into which it was inlined; the kernel's own line comes
    last.
    """
    node = nodes.get(name, {})
    places = [(_file_of(nodes, node), int(node.get("line") or 0))]
    # Metadata may name each other in a circle in a damaged text.
    passed = {name}
    while (outer := node.get("inlinedAt", "")) in nodes and outer not in passed:
        passed.add(outer)
        node = nodes[outer]
        places.append((_file_of(nodes, node), int(node.get("line") or 0)))
    return places


def _file_of(nodes: dict[str, _Node], node: _Node) -> str:
    """Return the file of a scope, or of the scope around it."""
    passed: set[str] = set()
    while "file" not in node and (scope := node.get("scope", "")) in nodes and scope not in passed:
        passed.add(scope)
        node = nodes[scope]
    return nodes.get(node.get("file", ""), {}).get("filename", "")


_DEFINED = re.compile(r"^#(loc\w*) = loc\((.*)\)$")
_TRAILING = re.compile(r"\bloc\((#loc\w*|\"[^\"]*\":\d+:\d+|unknown|callsite\(.*\))\)$")
_PLACE = re.compile(r'^"([^"]*)":(\d+):\d+')
_CALL = re.compile(r"^callsite\((?=.*\)$)(.*) at (.*)\)$")
_NAMED = re.compile(r'^"[^"]*"\((.*)\)$')
_FUSED = re.compile(r"^fused(?:<.{0,400}?>)?\[(.*)\]$")


def mlir_lines(text: str, file: KernelFile) -> LineMap:
    """Map the operations to lines of the kernel. An operation with a region (a loop, a reduction)
    has its location after the region; its first line gets it too.
    """
    lines = text.split("\n")
    definitions = {}
    for line in lines:
        defined = _DEFINED.match(line)
        if defined:
            definitions[defined[1]] = defined[2]
    places = _MlirLocations(definitions, file)
    mapped: LineMap = {}
    open_at: list[int] = []
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            continue
        body = line.strip()
        opener = open_at.pop() if body.startswith("}") and open_at else 0
        match = _TRAILING.search(body)
        sources = places.of(match[1]) if match else ()
        if body.endswith("{"):
            open_at.append(opener or number)
        elif sources and opener:
            mapped.setdefault(opener, sources)
        if sources:
            mapped[number] = sources
    return mapped


class _MlirLocations:
    """Resolves locations to lines of the kernel; remembers those that have a name."""

    def __init__(self, defined: dict[str, str], file: KernelFile) -> None:
        self._defined = defined
        self._file = file
        self._known: dict[str, tuple[int, ...]] = {}

    def of(self, location: str) -> tuple[int, ...]:
        """Return lines of the kernel; empty for ``unknown``, and for a place in another file that
        is not called.
        """
        if not location.startswith("#"):
            return self._read(location)
        name = location[1:]
        if name not in self._known:
            self._known[name] = ()  # this ends a circular definition
            self._known[name] = self._read(self._defined.get(name, ""))
        return self._known[name]

    def _read(self, body: str) -> tuple[int, ...]:
        if call := _CALL.match(body):
            # Without a name to compare with, only the outermost place is known to be the kernel's.
            helper = self.of(call[1]) if self._file.name else ()
            return tuple(sorted({*helper, *self.of(call[2])}))
        if place := _PLACE.match(body):
            line = self._file.line(place[1], int(place[2]))
            return (line,) if line else ()
        if fused := _FUSED.match(body):
            lines: set[int] = set()
            for part in fused[1].split(", "):
                lines.update(self.of(part))
            return tuple(sorted(lines))
        named = _NAMED.match(body)
        return self.of(named[1]) if named else ()
