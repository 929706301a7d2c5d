"""A text in a pane: source, generated code, bytecode, IR, console output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len

from fx_explorer.highlight import TAB_SIZE, Lines, printable
from fx_explorer.tui.widgets.line_painter import Piece
from fx_explorer.tui.widgets.line_view import LineView


class CodeView(LineView):
    """A text by lines, coloured, with line numbers and, between number and text, an optional column
    of annotations.

    Lines count from 0, as everywhere in the application; the numbers that the user sees count from
    1.
    """

    def __init__(
        self,
        text: str = "",
        language: str = "text",
        *,
        placeholder: str = "",
        line_numbers: bool = True,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(placeholder=placeholder, name=name, id=id, classes=classes)
        self._lines = Lines(text, language)
        self._line_numbers = line_numbers
        self._annotations: Mapping[int, Piece] = {}
        self._annotation_width = 0
        self._numbers: Sequence[int] | None = None

    # what an application uses

    def load(self, text: str, language: str = "text", *, line: int = 0, numbers: Sequence[int] | None = None) -> None:
        """Show another text, with the cursor on ``line`` of it. Marks and annotations go; a find
        looks again.

        ``numbers`` are the lines' own numbers, from 0, where the text leaves some out.
        """
        self._lines = Lines(text, language)
        self._numbers = numbers
        self._annotations, self._annotation_width = {}, 0
        self.forget_place()
        self.content_changed()
        self.move_to(line, center=True)

    def append(self, text: str) -> None:
        """Add text at the end. A cursor on the last line stays on the last line, so that the user
        follows a growing text.
        """
        was_at_end = self.cursor >= self.line_count - 1
        self._lines.append(text)
        self.content_changed()
        if was_at_end:
            self.move_to(self.line_count - 1)

    def annotate(self, annotations: Mapping[int, Piece]) -> None:
        """Show short texts in a column left of the lines. An empty mapping removes the column.

        ``annotations`` maps a line to (text, kind).
        """
        self._annotations = {line: (printable(text), kind) for line, (text, kind) in annotations.items()}
        self._annotation_width = max((cell_len(text) for text, _ in self._annotations.values()), default=-1) + 1
        self.content_changed()

    @property
    def text(self) -> str:
        """Return the whole text as it came, unsafe characters included."""
        return self._lines.text

    @property
    def language(self) -> str:
        return self._lines.language

    # what LineView asks

    @property
    def line_count(self) -> int:
        return len(self._lines)

    @property
    def content_width(self) -> int:
        text = self._lines.text
        cells = self._lines.longest * (1 if text.isascii() else 2)
        return cells * TAB_SIZE if "\t" in text[:100_000] else cells

    @property
    def gutter_width(self) -> int:
        numbers = self._number_width + 1 if self._line_numbers else 0
        return numbers + self._annotation_width

    @property
    def _number_width(self) -> int:
        return len(str(self._numbers[-1] + 1 if self._numbers else self.line_count))

    def gutter_tokens(self, line: int) -> Sequence[Piece]:
        tokens: list[Piece] = []
        if self._line_numbers:
            number = self._numbers[line] if self._numbers else line
            tokens.append((f"{number + 1:>{self._number_width}} ", "gutter"))
        if self._annotation_width:
            text, kind = self._annotations.get(line, ("", "annotation"))
            tokens.append((text + " " * (self._annotation_width - cell_len(text)), kind))
        return tokens

    def line_tokens(self, line: int) -> Sequence[Piece]:
        return self._lines[line]

    def search_text(self, start: int, stop: int) -> Sequence[str]:
        return [self._lines.plain(line) for line in range(start, stop)]

    def line_text(self, line: int) -> str:
        return self._lines.raw(line)
