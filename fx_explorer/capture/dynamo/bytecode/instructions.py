"""This module reads bytecode without running it: its instructions, how deep the stack is where each
begins, and the gutter of a listing, where jumps are drawn as arrows. Pure.

The depth is found by following the bytecode. torch's debugger counts while it steps
(``_DebugContext._handle_instruction``) and is wrong once an error was handled; a stack that is read
too deep ends the process. Python itself relies on the depth being the same however an instruction
is reached.

The gutter knows rows, not instructions. Jumps to one row share a column. A jump inside another is
drawn right of it.
"""

from __future__ import annotations

import bisect
import dis
import itertools
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_ALWAYS_JUMP = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE")

_NEVER_GO_ON = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", *_ALWAYS_JUMP)

_CALLS_IN_TWO_PARTS = sys.version_info[:2] == (3, 11)
"""``dis.stack_effect`` takes the arguments away at PRECALL, the interpreter at CALL."""


def stack_depths(code: types.CodeType) -> dict[int, int]:
    """Return offset of each instruction that can be reached → depth. It is empty when an
    instruction is reached with two depths: then none is sure.
    """
    in_order = list(dis.get_instructions(code))
    by_offset = {instruction.offset: instruction for instruction in in_order}
    following = {before.offset: after.offset for before, after in itertools.pairwise(in_order)}
    depths: dict[int, int] = {}
    waiting = [(0, 0), *_handlers(code)]
    while waiting:
        offset, depth = waiting.pop()
        if depths.setdefault(offset, depth) != depth or depth < 0:
            return {}
        reached = _reached(by_offset[offset], depth, following)
        waiting += [(to, after) for to, after in reached if depths.get(to) != after]
    return depths


def _handlers(code: types.CodeType) -> Iterator[tuple[int, int]]:
    """Yield where errors lead, with the error on the stack. There are none up to Python 3.10, where
    an instruction jumps to its handler.
    """
    for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
        yield entry.target, entry.depth + 1 + bool(entry.lasti)


def _reached(
    instruction: dis.Instruction, depth: int, following: dict[int, int]
) -> Iterator[tuple[int, int]]:
    """Yield the instructions that may come next, each with the depth there."""
    if instruction.opname not in _NEVER_GO_ON and instruction.offset in following:
        yield following[instruction.offset], depth + effect(instruction, jumps=False)
    if instruction.opcode in JUMPS:
        yield int(instruction.argval), depth + effect(instruction, jumps=True)


def effect(instruction: dis.Instruction, *, jumps: bool = False) -> int:
    """Return how many values more are on the stack after an instruction."""
    if _CALLS_IN_TWO_PARTS and instruction.opname == "PRECALL":
        return 0
    if _CALLS_IN_TWO_PARTS and instruction.opname == "CALL":
        return -1 - int(instruction.arg or 0)
    return dis.stack_effect(instruction.opcode, instruction.arg, jump=jumps)


# The instructions of a code object, alike for Python 3.10 to 3.13.

JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))


@dataclass(frozen=True, slots=True)
class BytecodeInstruction:
    """One instruction; inline caches are no instructions."""

    offset: int
    opname: str
    argument: str
    """What it works on, as ``dis`` words it; the bare number where ``dis`` has no words, empty
    without an argument.
    """
    line: int
    """Source line from 1: that of the instruction before where it has none of its own, 0 where no
    one before has one.
    """
    target: int | None
    """The offset it jumps to, when it does."""


def instructions(code: types.CodeType) -> Iterator[BytecodeInstruction]:
    """List the instructions in the order of their offsets."""
    line = 0
    for instruction in dis.get_instructions(code):
        line = _own_line(instruction) or line
        target = int(instruction.argval) if instruction.opcode in JUMPS else None
        yield BytecodeInstruction(
            instruction.offset, instruction.opname, _argument(instruction, target), line, target
        )


def handled(code: types.CodeType) -> dict[int, list[tuple[int, int]]]:
    """Return offset of an exception handler → the stretches (first, last offset) whose errors it
    takes.

    Empty up to Python 3.10, where an instruction that is shown as a jump sets the handler up.
    """
    stretches: dict[int, list[tuple[int, int]]] = {}
    offsets = [instruction.offset for instruction in dis.get_instructions(code)]
    for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
        last = offsets[bisect.bisect_left(offsets, entry.end) - 1]
        stretches.setdefault(entry.target, []).append((entry.start, last))
    return stretches


def _own_line(instruction: Any) -> int:
    positions = getattr(instruction, "positions", None)  # from 3.11
    if positions is not None and positions.lineno:
        return int(positions.lineno)
    starts = instruction.starts_line  # the line; from 3.13 whether it begins one
    if starts and not isinstance(starts, bool):
        return int(starts)
    return int(getattr(instruction, "line_number", 0) or 0)


def _argument(instruction: dis.Instruction, target: int | None) -> str:
    if target is not None:  # 3.13 calls targets L1, L2, ... where others give the offset
        return f"to {target}"
    if isinstance(instruction.argval, types.CodeType):  # its repr has an address
        return f"<code object {instruction.argval.co_name}>"
    # Up to 3.12 what is pushed beside comes first, later last.
    null, plus, name = instruction.argrepr.partition(" + ")
    if plus and null in ("NULL", "NULL|self"):
        return f"{name} + {null}"
    if instruction.argrepr:
        return instruction.argrepr
    return "" if instruction.arg is None else str(instruction.arg)


# The gutter of a listing.


MAX_COLUMNS = 6
"""More would leave no room for the instructions. What finds no column is not drawn: its target
still has its arrow head.
"""

_CROSSED = {" ": "─", "│": "┼", "├": "┼", "╭": "┬", "╰": "┴"}
"""What a line to the right makes of what stands there already."""


@dataclass(frozen=True, slots=True)
class _Arrow:
    """All jumps to one row."""

    target: int
    sources: frozenset[int]

    @property
    def first(self) -> int:
        return min(self.target, *self.sources)

    @property
    def last(self) -> int:
        return max(self.target, *self.sources)

    @property
    def ends(self) -> frozenset[int]:
        return self.sources | {self.target}

    def meets(self, other: _Arrow) -> bool:
        return self.first <= other.last and other.first <= self.last


def gutter(row_count: int, jumps: Iterable[tuple[int, int]]) -> list[str]:
    """Draw what is shown left of each row, with the same width for all. ``jumps`` are (from row, to
    row); without any, the texts are empty.
    """
    arrows = _arrows(jumps)
    if not arrows:
        return [""] * row_count
    columns = _columns(arrows)
    grid = [[" "] * len(columns) for _ in range(row_count)]
    ends: set[int] = set()
    for x, column in enumerate(columns):
        for arrow in column:
            _draw_upright(grid, x, arrow)
            ends.update(arrow.ends)
    targets = {arrow.target for arrow in arrows}
    texts = []
    for row, cells in enumerate(grid):
        drawn = _to_the_right(cells) if row in ends else cells
        texts.append("".join(drawn) + _tip(row, ends, targets))
    return texts


def _arrows(jumps: Iterable[tuple[int, int]]) -> list[_Arrow]:
    """Return the arrows, the shortest first."""
    sources: dict[int, set[int]] = {}
    for source, target in jumps:
        sources.setdefault(target, set()).add(source)
    arrows = [_Arrow(target, frozenset(rows)) for target, rows in sources.items()]
    return sorted(arrows, key=lambda arrow: (arrow.last - arrow.first, arrow.first))


def _columns(arrows: Sequence[_Arrow]) -> list[list[_Arrow]]:
    """Put the arrows into columns, from left to right. An arrow takes the column furthest right
    that is free and not right of one it encloses.
    """
    columns: list[list[_Arrow]] = []  # from right to left
    for arrow in arrows:
        depth = max(
            (i for i, column in enumerate(columns, 1) if any(map(arrow.meets, column))), default=0
        )
        if depth < len(columns):
            columns[depth].append(arrow)
        elif depth < MAX_COLUMNS:
            columns.append([arrow])
    return columns[::-1]


def _draw_upright(grid: list[list[str]], x: int, arrow: _Arrow) -> None:
    for row in range(arrow.first, arrow.last + 1):
        grid[row][x] = "├" if row in arrow.ends else "│"
    grid[arrow.last][x] = "╰"
    grid[arrow.first][x] = "╭" if arrow.first < arrow.last else "─"  # one that jumps to itself


def _to_the_right(cells: Sequence[str]) -> list[str]:
    """Draw a line from the first end of an arrow in this row to the instruction."""
    start = next(x for x, cell in enumerate(cells) if cell not in " │")
    crossed = [_CROSSED.get(cell, cell) for cell in cells[start + 1 :]]
    return [*cells[: start + 1], *crossed]


def _tip(row: int, ends: set[int], targets: set[int]) -> str:
    if row in targets:
        return "▸"
    if row in ends:
        return "─"
    return " "
