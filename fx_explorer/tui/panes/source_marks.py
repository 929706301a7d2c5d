"""What stands before the lines of a source file in a pane: where something happened, and what the lines cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.overview.line_events import LineEvent, line_events
from fx_explorer.session import SessionReader
from fx_explorer.tui.kernel_marks.kernel_colours import kernel_kind
from fx_explorer.tui.kernel_marks.source_gutter import source_gutter
from fx_explorer.tui.selection.line_glyphs import GLYPHS
from fx_explorer.tui.widgets.lines.code_view import CodeView

if TYPE_CHECKING:
    from fx_explorer.analysis.heat.line_heat import LineHeat
    from fx_explorer.tui.kernel_marks.shown_marks import KernelMarks

FEW_BLOCKS, MANY_BLOCKS = 1, 3
"""So many kernels of a line have a block in the gutter: the dearest alone, and more in a wide pane."""

WIDE_CELLS = 60


class SourceMarks:
    """Writes the gutter of one text, and gives its line numbers the colours of kernels."""

    def __init__(self, code: CodeView, marks: KernelMarks) -> None:
        self._code = code
        self._marks = marks
        self._events: dict[int, list[LineEvent]] = {}
        self._heat: Mapping[int, LineHeat] = {}
        """What the lines of the source cost."""
        self._blocks = FEW_BLOCKS

    def forget(self) -> None:
        """Forget what is marked, because another text was loaded."""
        self._events, self._heat = {}, {}

    def renew(self, reader: SessionReader, document: Document) -> bool:
        """Mark what is known of the lines by now. Returns whether that is more or less than before."""
        events, heat = line_events(reader, document), self._marks.lines_of(document)
        if (events, heat) == (self._events, self._heat):
            return False
        self._events, self._heat = events, heat
        self._write()
        kinds = {line: kernel_kind(one.dearest) for line, one in heat.items()}
        self._code.colour_numbers((lambda line: kinds.get(line, "")) if kinds else None)
        return True

    def lay_out_again(self) -> None:
        """Write the gutter again where the pane has become wide, or narrow."""
        if self._heat and (self._blocks == FEW_BLOCKS) != (self._code.size.width < WIDE_CELLS):
            self._write()

    def _write(self) -> None:
        """Write the gutter, in as much room as the pane can give."""
        glyphs = {line: GLYPHS[one[0].what] for line, one in self._events.items()}
        self._blocks = FEW_BLOCKS if self._code.size.width < WIDE_CELLS else MANY_BLOCKS
        self._code.annotate(source_gutter(glyphs, self._heat, self._blocks))
