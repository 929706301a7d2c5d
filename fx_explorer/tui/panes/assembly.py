"""This module lays out PTX, SASS and AMDGCN in a pane: in columns for predicate, opcode and
operands, after a column with the decoded control bits of each instruction.

The opcodes' column is as wide as nearly all of them, but leaves most of the pane to the operands:
those of a longer opcode begin further to the right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from fx_explorer.instruments.kernels.assembly_text import Parts, parts_of
from fx_explorer.model import LEVELS, Level
from fx_explorer.tui.widgets.line_painter import Piece
from fx_explorer.tui.widgets.text_layout import LineLayout

LINES_MEASURED = 2_000
NEARLY_ALL = 0.9
MOST_OF_ROOM = 0.45
"""Maximum fraction of a pane's width for opcodes."""

LEAST_OPCODE_CELLS = 8


@dataclass(frozen=True)
class OpcodeColumns:
    """The widths of the columns of one text, for the pane's width."""

    level: Level
    guard_cells: int
    """Cells of the predicates and the gap after them; 0 if no instruction has one."""
    opcode_cells: int
    """Cells that hold nearly all opcodes."""
    room: int = 0
    """Cells of the pane; 0 while it has no width yet."""

    def fitted(self, room: int) -> OpcodeColumns:
        """Return the columns for a pane of ``room`` cells."""
        return replace(self, room=room)

    @property
    def _opcode_width(self) -> int:
        if self.room <= 0:
            return self.opcode_cells
        return min(
            self.opcode_cells,
            max(LEAST_OPCODE_CELLS, int(self.room * MOST_OF_ROOM) - self.guard_cells),
        )

    def _guard_width(self, cells: int) -> int:
        """Return the width for a predicate of this length, since a longer one far below was not
        measured.
        """
        width = cells + 1 if cells else 0
        return max(self.guard_cells, width)

    def text(self, text: str) -> str:
        """Return a line as it is shown, without tokens: a find reads all lines."""
        parts = parts_of(self.level, text)
        if parts is None:
            return text.lstrip()
        guard, name, operands = (
            text[slice(*parts.guard)],
            text[slice(*parts.name)],
            text[slice(*parts.operands)],
        )
        comment = self._comment_at(text, parts)
        rest = "  " + text[comment:] if comment >= 0 else ""
        if operands:
            gap = " " * max(1, self._opcode_width + 1 - len(name))
        else:
            gap = ""
        return guard.ljust(self._guard_width(len(guard))) + name + gap + operands + rest

    def tokens(self, tokens: Sequence[Piece]) -> Sequence[Piece]:
        """Return the tokens of a line as they are shown. A line without an instruction begins at
        the edge.
        """
        line = "".join(text for text, _ in tokens)
        parts = parts_of(self.level, line)
        if parts is None:
            blanks = len(line) - len(line.lstrip())
            if blanks:
                return _between(tokens, blanks, len(line))
            return tokens
        guard = _between(tokens, *parts.guard)
        name = _between(tokens, *parts.name)
        operands = _between(tokens, *parts.operands)
        comment = self._comment_at(line, parts)
        rest: list[Piece] = (
            [("  ", "text"), *_between(tokens, comment, len(line))] if comment >= 0 else []
        )
        name_width = self._opcode_width + 1 if operands else 0
        filled = [
            *_padded(guard, self._guard_width(_cells(guard))),
            *_padded(name, name_width),
        ]
        if operands and _cells(name) > self._opcode_width:
            filled.append((" ", "text"))
        return [*filled, *operands, *rest]

    def _comment_at(self, line: str, parts: Parts) -> int:
        """Return where a comment of the compiler's begins; -1 for none. In nvdisasm's text,
        comments are encodings.
        """
        if self.level == "ptx":
            return line.find("//", max(parts.operands[1], parts.name[1]))
        return -1


def columns_of(level: Level, text: str) -> OpcodeColumns:
    """Measure the instructions of a text."""
    every = (parts_of(level, line) for line in islice(text.split("\n"), LINES_MEASURED))
    measured = [parts for parts in every if parts]
    names = sorted(_length(parts.name) for parts in measured)
    guards = max((_length(parts.guard) for parts in measured), default=0)
    guard_cells = guards + 1 if guards else 0
    widest = names[int(NEARLY_ALL * (len(names) - 1))] if names else 0
    return OpcodeColumns(level, guard_cells, widest)


def _length(span: tuple[int, int]) -> int:
    start, stop = span
    return stop - start


def _between(tokens: Sequence[Piece], start: int, stop: int) -> list[Piece]:
    """Return the part of a line from one character up to another."""
    pieces: list[Piece] = []
    at = 0
    for text, kind in tokens:
        inside = text[max(0, start - at) : max(0, stop - at)]
        if inside:
            pieces.append((inside, kind))
        at += len(text)
    return pieces


def _padded(pieces: Sequence[Piece], width: int) -> list[Piece]:
    missing = width - _cells(pieces)
    if missing > 0:
        return [*pieces, (" " * missing, "text")]
    return list(pieces)


def _cells(pieces: Sequence[Piece]) -> int:
    return sum(len(text) for text, _ in pieces)


# The column before SASS: each instruction's address, control word and live registers.

FEW_LINES = 400
"""Maximum number of lines for which the column is made at once; for longer texts it is made in the
background.
"""

# What reads the levels (instruments.kernels.assembly) is imported where it is used: the first paint
# does not need it.

NO_MACHINE_WORDS = (
    "This SASS has no machine words: the control bits of its architecture are not known "
    "(they are from Volta on)."
)


def layout_of(language: str, text: str) -> LineLayout | None:
    """Return the columns of PTX, SASS or AMDGCN; None for any other text."""
    from fx_explorer.instruments.kernels.assembly_text import is_assembly

    level = next((level for level in LEVELS if level == language and is_assembly(level)), None)
    return columns_of(level, text) if level else None


def has_control_words(language: str, text: str) -> bool:
    """Return whether a text has control words that can be read."""
    from fx_explorer.instruments.kernels.live_registers import is_known

    return language == "sass" and is_known(text) and " /* 0x" in text


def machine_column(text: str, lines: Sequence[int]) -> Mapping[int, Piece]:
    """Return the column for the rows that show these lines (from 0) of a SASS text. Takes some 25
    ms per 1,000 instructions.
    """
    from fx_explorer.instruments.kernels.live_registers import (
        control_text,
        control_words,
        live_registers,
    )

    words, live = control_words(text), live_registers(text)
    column: dict[int, Piece] = {}
    for row, line in enumerate(lines):
        word, count = words.get(line + 1), live.get(line + 1)
        if word is None:
            continue
        text = f"{word.address} {control_text(word)}"
        if count is not None:
            text += f" {count:3}"
        column[row] = (text, "annotation")
    return column
