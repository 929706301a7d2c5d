"""Which kernel each line of a generated text is of: all lines of a kernel's code and of the levels
below it, and in the output code the bodies and the calls of each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.kernels.kernel_documents import kernel_of
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernel.kernel_places import (
    bodies_in_output_code,
    calls_of_output_code,
)
from fx_explorer.tui.kernel_marks.kernel_colours import kernel_kind

KindOfLine = Callable[[int], str]
"""Line (from 0) → the kind that its number is written in; empty for a line of no kernel."""


def kernel_of_text(reader: SessionReader, document: Document) -> int:
    """Return the id of the one kernel that a text is of; 0 for the output code, and for others."""
    kernel = kernel_of(reader, document) if document.kind == "artifact" else None
    return kernel.id if kernel else 0


def one_kernel(kernel: int) -> KindOfLine:
    """Return what gives every line the colour of a kernel."""
    kind = kernel_kind(kernel)
    return lambda _: kind


class OutputCodeKernels:
    """Gives each line of the output code the colour of its kernel. A wrapper of 100,000 calls is read in
    some tenths of a second.
    """

    def __init__(self, reader: SessionReader, output_code: int) -> None:
        self._bodies = bodies_in_output_code(reader, output_code)
        self._starts = [first - 1 for first, _, _ in self._bodies]
        self._calls = {
            line - 1: kernel for line, kernel in calls_of_output_code(reader, output_code)
        }

    def __call__(self, line: int) -> str:
        at = bisect_right(self._starts, line) - 1
        if at >= 0:
            _, end, kernel = self._bodies[at]
            if line < end - 1:
                return kernel_kind(kernel)
        called = self._calls.get(line)
        return kernel_kind(called) if called else ""
