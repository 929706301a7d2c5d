"""What the machine's code says of each SASS instruction, in a column before it: its address, its control
word and how many registers are live.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fx_explorer.model import LEVELS
from fx_explorer.tui.widgets.lines.line_painter import Piece
from fx_explorer.tui.widgets.lines.text_layout import LineLayout

FEW_LINES = 400
"""Of so many lines the column is made at once, of more beside the screen."""

# What reads the levels (analysis.kernel_ir) is imported where it is used: the first paint does not need it.

NO_MACHINE_WORDS = "This SASS has no machine words: the control bits of its architecture are not known (they are from Volta on)."


def layout_of(language: str, text: str) -> LineLayout | None:
    """Return the columns of PTX, SASS or AMDGCN; None for any other text."""
    from fx_explorer.analysis.kernel_ir.instruction_parts import is_assembly
    from fx_explorer.tui.assembly.opcode_columns import columns_of

    level = next((level for level in LEVELS if level == language and is_assembly(level)), None)
    return columns_of(level, text) if level else None


def has_words(language: str, text: str) -> bool:
    """Return whether a text has control words that can be read."""
    from fx_explorer.analysis.kernel_ir.control_words import is_known

    return language == "sass" and is_known(text) and " /* 0x" in text


def machine_column(text: str, lines: Sequence[int]) -> Mapping[int, Piece]:
    """Return the column for the rows that show these lines (from 0) of a SASS text. Takes some 25 ms per
    1,000 instructions.
    """
    from fx_explorer.analysis.kernel_ir.control_words import control_text, control_words
    from fx_explorer.analysis.kernel_ir.live_registers import live_registers

    words, live = control_words(text), live_registers(text)
    rows = ((row, words.get(line + 1), live.get(line + 1)) for row, line in enumerate(lines))
    return {
        row: (
            f"{word.address} {control_text(word)}" + (f" {count:3}" if count is not None else ""),
            "annotation",
        )
        for row, word, count in rows
        if word
    }
