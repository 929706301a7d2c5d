"""A unified diff of Python files: signs in their colours, the code behind them as code."""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer.highlight import Lines, printable
from fx_explorer.tui.widgets.lines.code_view import CodeView
from fx_explorer.tui.widgets.lines.line_painter import Piece

SIGNS = {"+": "good", "-": "bad"}

HEADINGS = ("--- ", "+++ ", "@@", "\\")


class DiffView(CodeView):
    """The user sees ``+`` and ``-`` lines lit, headings apart, and every line coloured as
    Python.
    """

    def __init__(self, diff: str) -> None:
        super().__init__(diff, line_numbers=False)
        self._code = _code_of(diff)

    def show(self, diff: str) -> None:
        """Show another diff, from its first line."""
        self._code = _code_of(diff)
        self.load(diff)
        self._light()

    def on_mount(self) -> None:
        super().on_mount()
        self._light()

    def _light(self) -> None:
        self.marks = frozenset(line for line in range(self.line_count) if self._sign(line))

    def line_tokens(self, line: int) -> Sequence[Piece]:
        text = self._lines.raw(line)
        if text.startswith(HEADINGS):
            return [(printable(text), "muted")]
        return [(printable(text[:1]), SIGNS.get(text[:1], "text")), *self._code[line]]

    def _sign(self, line: int) -> str:
        text = self._lines.raw(line)
        return text[:1] if text[:1] in SIGNS and not text.startswith(HEADINGS) else ""


def _code_of(diff: str) -> Lines:
    return Lines("\n".join(line[1:] for line in diff.split("\n")), "python")
