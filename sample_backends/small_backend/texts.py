"""Programs, artefacts and support as texts, each line with its nodes: what fx-explorer and ``show`` display."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node

from sample_backends.small_backend import artefact
from sample_backends.small_backend.program import ABSENT, Instruction, Operand, Program
from sample_backends.small_backend.support import SmallSupport


@dataclass(frozen=True)
class Line:
    text: str
    nodes: tuple[str, ...] = ()
    """Names of nodes of the graph that the backend was given."""


def text_of(lines: Iterable[Line]) -> str:
    return "\n".join(line.text for line in lines)


def links_of(lines: Iterable[Line]) -> dict[int, tuple[str, ...]]:
    """Return line number, from 1, to the nodes that it is about."""
    return {number: line.nodes for number, line in enumerate(lines, 1) if line.nodes}


def support_lines(graph_module: GraphModule, support: SmallSupport) -> list[Line]:
    """A line for each operator, or for each reason why it is left to PyTorch: how often, and which."""
    modules: dict[str, torch.nn.Module] = dict(graph_module.named_modules())
    found: dict[tuple[str, str], list[Node]] = {}
    for node in graph_module.graph.nodes:
        if node.op == "call_function":
            found.setdefault((str(node.target), support.reason(modules, node)), []).append(node)
    rows = [Line(f"{'operator':44} {'calls':>5}  by")]
    for (target, reason), nodes in found.items():
        by = f"PyTorch: {reason}" if reason else "small"
        rows.append(Line(f"{target:44} {len(nodes):5}  {by}", tuple(node.name for node in nodes)))
    return rows


def program_lines(programs: Mapping[str, Program]) -> list[Line]:
    """Each segment's program: a heading, then a line for each instruction."""
    lines = []
    for name, program in programs.items():
        used, without = 4 * program.arena_length, 4 * program.unplanned_length
        heading = f"{name}: {len(program.inputs)} inputs, {len(program.outputs)} outputs, {len(program.results)} results; "
        lines.append(
            Line(
                f"{heading}{used} bytes for what is in between ({without} if no place were used twice)"
            )
        )
        lines += [
            Line(f"  {_instruction(program, each)}", (each.node,)) for each in program.instructions
        ]
    return lines


def _instruction(program: Program, instruction: Instruction) -> str:
    count = _OUTPUTS.get(instruction.kernel, 1)
    written = [_operand(program, each) for each in instruction.operands[:count] if each != ABSENT]
    read = [_operand(program, each) for each in instruction.operands[count:] if each != ABSENT]
    loops = " × ".join(map(str, instruction.sizes)) or "1"
    numbers = (
        f"   with {instruction.scalars[0]:g}, {instruction.scalars[1]:g}"
        if any(instruction.scalars)
        else ""
    )
    walk = f"{', '.join(written)} ← {', '.join(read)}{numbers}"
    return f"{instruction.node:28} {instruction.kernel:20} {loops:20} {walk}"


_OUTPUTS = {"layer_norm": 3, "layer_norm_backward": 3}
"""Kernels with more than one output."""


def _operand(program: Program, operand: Operand) -> str:
    """Return ``arena+64[32 1]``: where the operand begins, and its steps in each loop."""
    buffer = program.buffers[operand.buffer]
    is_numbered = buffer.kind in ("input", "output")
    place = f"{buffer.kind}{buffer.start}" if is_numbered else f"{buffer.kind}+{buffer.start}"
    return f"{place}{f'+{operand.offset}' if operand.offset else ''}[{' '.join(map(str, operand.strides))}]"


def artefact_lines(name: str, content: bytes, origin: str) -> list[Line]:
    """The file's sections, and whether it was made just now."""
    parts = artefact.sections(content)
    heading = f"{name}: {len(content)} bytes, format version {artefact.VERSION}, for {artefact.machine()}; {origin}"
    return [
        Line(heading),
        *(Line(f"  {section:10} {len(part):10} bytes") for section, part in parts.items()),
    ]
