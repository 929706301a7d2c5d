"""The text in a pane: source, generated code, IR or a kernel, with all that is written beside its lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fx_explorer.analysis.documents import Document, text_of
from fx_explorer.session import SessionReader
from fx_explorer.tui.assembly.machine_column import has_words, layout_of
from fx_explorer.tui.assembly.machine_words import MachineWords
from fx_explorer.tui.kernel_marks.number_colours import NumberColours
from fx_explorer.tui.panes.pane_times import PaneTimes
from fx_explorer.tui.panes.source_marks import SourceMarks
from fx_explorer.tui.selection import graph_texts
from fx_explorer.tui.selection.shown_lines import ShownLines, code_of
from fx_explorer.tui.terminal.wrapping import wrapped_text
from fx_explorer.tui.widgets.lines.code_view import CodeView
from fx_explorer.tui.widgets.lines.text_layout import AS_IT_IS, LineLayout, folded

if TYPE_CHECKING:
    from fx_explorer.tui.kernel_marks.shown_marks import KernelMarks

LEAST_WORDS_CELLS = 20
"""Words in place of a text are wrapped no narrower than this."""


class PaneText:
    """Loads texts into the view of a pane, and marks their lines."""

    def __init__(self, placeholder: str, marks: KernelMarks) -> None:
        self.code = CodeView(placeholder=placeholder)
        self.times = PaneTimes(self.code, marks)
        self._source_marks = SourceMarks(self.code, marks)
        self._numbers = NumberColours(self.code, marks)
        self._machine_words = MachineWords(self.code)
        self._said = ""
        """What is said in place of a text."""

    @property
    def kernel(self) -> int:
        """Return the kernel that the text is of; 0 for none, and for several."""
        return self._numbers.kernel

    def stop(self) -> None:
        """Abandon what is being read for a text that is not shown any more."""
        self._machine_words.stop()
        self._numbers.stop()
        self._said = ""

    def load_empty(self, placeholder: str) -> None:
        self.code.placeholder = placeholder
        self.code.load("")

    def load(self, reader: SessionReader, document: Document, shown: ShownLines, line: int) -> None:
        """Load a text with the cursor on ``line``. A level below a kernel shows only its code, with the line
        numbers of the whole text.
        """
        self.code.placeholder = "The text is empty."
        whole, language = text_of(reader, document), document.language
        text = whole if shown.lines is None else code_of(language, whole, shown)
        ready = graph_texts.coloured(reader, document) if shown.lines is None else None
        layout = _layout_of(document, text, shows_code=shown.lines is not None)
        self.code.load(
            ready or text, language, line=shown.row_of(line), numbers=shown.lines, layout=layout
        )
        self._numbers.renew(reader, document)
        self._source_marks.forget()
        if shown.lines is None:
            self.times.show_before_lines(reader, document, self.kernel)
        if (
            shown.lines is not None
            and self._machine_words.are_wanted
            and has_words(language, whole)
        ):
            self._machine_words.show(reader.path, whole, shown.lines)

    def say(self, words: str) -> None:
        """Say in place of a text why there is none, or how far it is."""
        if words != self._said:
            self._said = words
            self._write_said()

    def _write_said(self) -> None:
        self.code.load(wrapped_text(self._said, max(LEAST_WORDS_CELLS, self.code.body_width)))

    def mark_lines(self, reader: SessionReader, document: Document) -> bool:
        """Mark the lines of a source where something happened, and what they cost, as far as it is known by
        now. Returns whether that is more or less than before.
        """
        return self._source_marks.renew(reader, document)

    def mark_kernels_again(
        self, reader: SessionReader, document: Document, shown: ShownLines
    ) -> None:
        """Colour the numbers of generated code, and show the times of a profile, as far as kernels are marked now."""
        self.code.colour_numbers(None)
        self._numbers.renew(reader, document)
        if shown.lines is None:
            self.code.annotate({})
            self.times.show_before_lines(reader, document, self.kernel)

    def toggle_machine_words(
        self, reader: SessionReader, document: Document, shown: ShownLines
    ) -> bool:
        """Show the address, the control bits and the live registers of each SASS instruction, or hide them.
        Returns whether the text has them.
        """
        text = text_of(reader, document)
        if not has_words(document.language, text):
            return False
        self._machine_words.are_wanted = not self._machine_words.are_wanted
        if self._machine_words.are_wanted:
            self._machine_words.show(reader.path, text, shown.lines or ())
        else:
            self._machine_words.hide()
        return True

    def lay_out_again(self) -> None:
        """Lay out what depends on the width of the pane."""
        if self._said:
            self._write_said()
        self._source_marks.lay_out_again()


def _layout_of(document: Document, text: str, *, shows_code: bool) -> LineLayout:
    if document.kind != "artifact":
        return AS_IT_IS  # what somebody wrote is shown as written
    return (layout_of(document.language, text) if shows_code else None) or folded(text)
