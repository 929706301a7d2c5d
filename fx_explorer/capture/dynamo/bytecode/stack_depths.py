"""How many values are on the stack where each instruction begins, found by following the bytecode.
Pure.

torch's debugger counts while it steps (``_DebugContext._handle_instruction``) and is wrong once an
error was handled; a stack that is read too deep ends the process. Python itself relies on the depth
being the same however an instruction is reached.
"""

from __future__ import annotations

import dis
import itertools
import sys
import types
from collections.abc import Iterator

from fx_explorer.capture.dynamo.bytecode.instructions import JUMPS

_ALWAYS_JUMP = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE")

_NEVER_GO_ON = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", *_ALWAYS_JUMP)

_CALLS_IN_TWO_PARTS = sys.version_info[:2] == (3, 11)
"""``dis.stack_effect`` takes the arguments away at PRECALL, the interpreter at CALL."""


def stack_depths(code: types.CodeType) -> dict[int, int]:
    """Return offset of each instruction that can be reached → depth. It is empty when an
    instruction is reached with two depths: then none is sure.
    """
    found = list(dis.get_instructions(code))
    by_offset = {one.offset: one for one in found}
    following = {one.offset: after.offset for one, after in itertools.pairwise(found)}
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
    one: dis.Instruction, depth: int, following: dict[int, int]
) -> Iterator[tuple[int, int]]:
    """Yield the instructions that may come next, each with the depth there."""
    if one.opname not in _NEVER_GO_ON and one.offset in following:
        yield following[one.offset], depth + effect(one, jumps=False)
    if one.opcode in JUMPS:
        yield int(one.argval), depth + effect(one, jumps=True)


def effect(one: dis.Instruction, *, jumps: bool = False) -> int:
    """Return how many values more are on the stack after an instruction."""
    if _CALLS_IN_TWO_PARTS and one.opname == "PRECALL":
        return 0
    if _CALLS_IN_TWO_PARTS and one.opname == "CALL":
        return -1 - int(one.arg or 0)
    return dis.stack_effect(one.opcode, one.arg, jump=jumps)
