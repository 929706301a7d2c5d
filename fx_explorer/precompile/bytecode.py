"""The bytecode that Dynamo made around a graph, in a form in which that of two traces of one model
can be compared.
"""

from __future__ import annotations

import dis
import re
from typing import Any

_OF_A_TRACE = re.compile(r"_\d+_c\d+(_\d+)*$")
"""Ends the names that Dynamo gives to objects it puts among the globals: an address and the
compilation.
"""


def frame_of(traced: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return ``(what is given to the graph, in any order; what is done afterwards, in order)`` of
    torch's ``CaptureOutput``.

    Dynamo orders the inputs of a graph by their first use, which differs where a custom
    ``autograd.Function`` is called.
    """
    output = traced.graph_capture_output
    graph = traced.backend_input.backend_id
    instructions = list(dis.get_instructions(output.bytecode))
    lines = [_line(instruction, output.f_globals, graph) for instruction in instructions]
    loaded = next(
        index for index, instruction in enumerate(instructions) if instruction.argval == graph
    )
    called = loaded + _length_of_call(instructions[loaded:])
    return tuple(sorted(lines[:called])), tuple(lines[called:])


def _length_of_call(instructions: list[dis.Instruction]) -> int:
    """Return how many instructions load a function (the first one does), its arguments, some of
    them by calls, and call it.
    """
    depth = 0
    for index, instruction in enumerate(instructions):
        depth += dis.stack_effect(instruction.opcode, instruction.arg)
        if instruction.opname.startswith("CALL") and depth <= 1:
            return index
    raise ValueError("the bytecode does not call the graph")


def _line(instruction: dis.Instruction, names: dict[str, Any], graph: str) -> str:
    value = instruction.argval
    if isinstance(value, str) and instruction.opname == "LOAD_GLOBAL":
        if value == graph:
            return f"{instruction.opname} the graph"
        if found := _OF_A_TRACE.search(value):
            return f"{instruction.opname} {value[: found.start()]} {names.get(value)!r}"
    return f"{instruction.opname} {value!r}"
