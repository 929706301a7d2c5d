"""Lines of TTIR and TTGIR: MLIR's ``loc(…)`` at the end of an operation. It is mostly a name
defined elsewhere in the text.

Syntax: MLIR's language reference, and the builtin dialect's location attributes (``callsite``,
``fused``, a name around one).
"""

from __future__ import annotations

import re

from fx_explorer.analysis.kernel_lines.line_map import KernelFile, LineMap

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
    places = _MlirLocations(
        {found[1]: found[2] for line in lines if (found := _DEFINED.match(line))}, file
    )
    mapped: LineMap = {}
    open_at: list[int] = []
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            continue
        body = line.strip()
        opener = open_at.pop() if body.startswith("}") and open_at else 0
        found = _TRAILING.search(body)
        sources = places.of(found[1]) if found else ()
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
        nobody called.
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
            return tuple(sorted({line for part in fused[1].split(", ") for line in self.of(part)}))
        named = _NAMED.match(body)
        return self.of(named[1]) if named else ()
