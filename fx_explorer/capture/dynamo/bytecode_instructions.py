"""This module reads bytecode without running it: its instructions, alike for Python 3.10 to 3.13,
what each handles and jumps to, and how deep the stack is where it begins.

The depth is found by following the bytecode. torch's debugger counts while it steps
(``_DebugContext._handle_instruction``) and is wrong once an error was handled; a stack that is read
too deep ends the process. Python itself relies on the depth being the same however an instruction
is reached.
"""

from __future__ import annotations

import bisect
import dis
import itertools
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_ALWAYS_JUMP = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE")

_NEVER_GO_ON = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", *_ALWAYS_JUMP)

_CALLS_IN_TWO_PARTS = sys.version_info[:2] == (3, 11)
"""Whether a call has two instructions: ``dis.stack_effect`` takes the arguments away at PRECALL,
the interpreter at CALL.
"""


def stack_depths(code: types.CodeType) -> dict[int, int]:
    """Return offset of each reachable instruction → stack depth. It is empty when an instruction is
    reached with two depths, so that none is certain.
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
    """Yield the targets of exception handlers, with the depth including the error on the stack. Up
    to Python 3.10 there are none: there an instruction jumps to its handler.
    """
    for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
        yield entry.target, entry.depth + 1 + bool(entry.lasti)


def _reached(
    instruction: dis.Instruction, depth: int, following: dict[int, int]
) -> Iterator[tuple[int, int]]:
    """Yield the instructions that may come next, each with the stack depth there."""
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


JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))


@dataclass(frozen=True, slots=True)
class BytecodeInstruction:
    """One bytecode instruction. Inline caches do not count as instructions."""

    offset: int
    opname: str
    argument: str
    """The operand, as ``dis`` shows it; the bare number if ``dis`` has no text, empty without an
    argument.
    """
    line: int
    """Source line of the instruction, from 1, or that of the instruction before; 0 for none."""
    target: int | None
    """The offset to which the instruction jumps; None if it does not jump."""


def instructions(code: types.CodeType) -> Iterator[BytecodeInstruction]:
    """List the instructions in the order of their offsets."""
    line = 0
    for instruction in dis.get_instructions(code):
        line = _own_line(instruction) or line
        if instruction.opcode in JUMPS:
            target = int(instruction.argval)
        else:
            target = None
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
    if instruction.arg is None:
        return ""
    return str(instruction.arg)
