"""The column beside SASS with each instruction's address, control bits and live registers, while the user wants it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fx_explorer.tui.assembly.machine_column import FEW_LINES, machine_column
from fx_explorer.tui.tasks.beside import Beside, Made
from fx_explorer.tui.widgets.lines.code_view import CodeView
from fx_explorer.tui.widgets.lines.line_painter import Piece


class MachineWords:
    """Shows the column beside one text."""

    def __init__(self, code: CodeView) -> None:
        self._code = code
        self._beside: Beside[Mapping[int, Piece]] = Beside(
            code, "machine words", "read the control bits of SASS"
        )
        self.are_wanted = False

    def show(self, session: Path, text: str, lines: Sequence[int]) -> None:
        """Show the column of these lines; a long one is made beside the screen."""
        if len(lines) <= FEW_LINES:
            self._code.annotate(machine_column(text, lines))
            return

        def take(made: Made[Mapping[int, Piece]]) -> None:
            made.reader.close()
            self._code.annotate(made.value)

        def cannot(_: Exception) -> None:
            self.are_wanted = False

        self._beside.begin(session, lambda _: machine_column(text, lines), take, cannot)

    def hide(self) -> None:
        self.stop()
        self._code.annotate({})

    def stop(self) -> None:
        """Abandon what is being made for a text that is not shown any more."""
        self._beside.stop()
