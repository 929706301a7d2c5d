"""The lines of a text below a kernel and the lines of its Triton source: how each is named, and how
to get from one to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

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
        own = not self.name or PurePath(file).name == self.name
        return max(0, line - self.lines_before) if own and line > 0 else 0

    def lines(self, chain: Sequence[tuple[str, int]]) -> tuple[int, ...]:
        """Return the source's lines among those of ``chain``: (file, line) from the innermost
        helper out to the kernel.
        """
        known = chain if self.name else chain[-1:]
        return tuple(sorted({own for file, line in known if (own := self.line(file, line))}))


def inverted(lines: LineMap) -> LineMap:
    """Return the inverse map: line of the Triton source → lines of the text."""
    found: dict[int, list[int]] = {}
    for line, sources in lines.items():
        for source in sources:
            found.setdefault(source, []).append(line)
    return {source: tuple(sorted(made)) for source, made in sorted(found.items())}


def kernel_file(build: KernelBuild) -> KernelFile:
    """Return where the source of a configuration stands in the file that Triton compiled."""
    return KernelFile(build.file, build.lines_before)
