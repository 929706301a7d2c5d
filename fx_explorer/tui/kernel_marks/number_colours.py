"""The line numbers of generated code, in the colours of the kernels that its lines are of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fx_explorer.analysis.documents import Document
from fx_explorer.session import SessionReader
from fx_explorer.tui.kernel_marks.text_kernels import OutputCodeKernels, kernel_of_text, one_kernel
from fx_explorer.tui.tasks.beside import Beside, Made
from fx_explorer.tui.widgets.lines.code_view import CodeView

if TYPE_CHECKING:
    from fx_explorer.tui.kernel_marks.shown_marks import KernelMarks

COLOURED_AT_ONCE = 5_000
"""Lines of output code whose kernels are read before the next frame; of more they are read beside the
screen.
"""


class NumberColours:
    """Colours the numbers of one text."""

    def __init__(self, code: CodeView, marks: KernelMarks) -> None:
        self._code = code
        self._marks = marks
        self._beside: Beside[OutputCodeKernels] = Beside(
            code, "kernels of lines", "read which kernel each line is of"
        )
        self.kernel = 0
        """The kernel that the text is of; 0 for none, and for several."""

    def stop(self) -> None:
        """Abandon what is being read of a text that is not shown any more."""
        self._beside.stop()

    def renew(self, reader: SessionReader, document: Document) -> None:
        """Colour the numbers of this text as far as kernels are marked; those of much output code when it is
        read.
        """
        self._beside.stop()
        self.kernel = 0
        if document.kind != "artifact" or not self._marks.is_on:
            return
        self.kernel = kernel_of_text(reader, document)
        if self.kernel:
            self._code.colour_numbers(one_kernel(self.kernel))
        elif document.stage == "output_code" and document.line_count <= COLOURED_AT_ONCE:
            self._code.colour_numbers(OutputCodeKernels(reader, document.id))
        elif document.stage == "output_code":
            output_code = document.id
            self._beside.begin(
                reader.path,
                lambda of: OutputCodeKernels(of, output_code),
                self._take,
                self._without,
            )

    def _take(self, made: Made[OutputCodeKernels]) -> None:
        made.reader.close()
        self._code.colour_numbers(made.value)

    def _without(self, _: Exception) -> None:
        self._code.colour_numbers(None)
