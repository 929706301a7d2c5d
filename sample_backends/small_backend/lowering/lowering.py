"""A segment of the graph → a program. The operators of the registry emit instructions through an object of this file.

Where a value lies is kept as a tensor without memory (of torch's "meta" device) with the value's
sizes, strides and offset. So views are not computed by us: PyTorch applies them to that tensor.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from sample_backends.small_backend.lowering.loops import simplified
from sample_backends.small_backend.lowering.planning import planned
from sample_backends.small_backend.operators import OPERATORS
from sample_backends.small_backend.program import (
    ABSENT,
    Buffer,
    Instruction,
    Kind,
    Layout,
    Operand,
    Program,
    Result,
)


@dataclass(frozen=True)
class Value:
    """A tensor of the program: which memory it lies in, and how."""

    memory: int
    meta: torch.Tensor

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.meta.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(self.meta.stride())

    def looked_at(self, meta: torch.Tensor) -> Value:
        """The same memory, looked at in another way."""
        return Value(self.memory, meta)

    def expanded(self, sizes: Sequence[int]) -> Value:
        """Broadcast: a stride is 0 where a size is repeated."""
        return self.looked_at(self.meta.expand(tuple(sizes)))

    def operand(self, strides: Sequence[int] | None = None) -> Operand:
        return Operand(
            self.memory,
            int(self.meta.storage_offset()),
            self.strides if strides is None else tuple(strides),
        )


@dataclass(frozen=True)
class Memory:
    """What becomes a buffer. It lies in the arena until the end tells that it leaves the program."""

    kind: Kind
    number: int
    """Which input; the first element of a constant."""
    layout: Layout


def lowered(segment: GraphModule) -> Program:
    """Return the program that computes what the segment does. All its nodes are in the registry."""
    lowering = Lowering()
    outputs: Sequence[Node] = ()
    for node in segment.graph.nodes:
        if node.op == "placeholder":
            lowering.add_input(node)
        elif node.op == "get_attr":
            lowering.add_constant(node, getattr(segment, str(node.target)))
        elif node.op == "call_function":
            OPERATORS[node.target].lower(lowering, node)
        else:
            outputs = node.args[0] if isinstance(node.args[0], tuple) else (node.args[0],)
    return lowering.finished(outputs)


class Lowering:
    """The program as far as it has been made."""

    def __init__(self) -> None:
        self._values: dict[Node, Any] = {}
        """A Value; for a node with several results a tuple of them, with None for one that nobody asked for."""
        self._memories: list[Memory] = []
        self._constants = b""
        self._instructions: list[Instruction] = []

    # --- values ---

    def add_input(self, node: Node) -> None:
        number = sum(memory.kind == "input" for memory in self._memories)
        self._values[node] = self._new(Layout.of(node.meta["val"]), "input", number)

    def add_constant(self, node: Node, constant: torch.Tensor) -> None:
        dense = Layout.of(torch.empty(constant.shape, device="meta"))
        self._values[node] = self._new(dense, "constant", len(self._constants) // 4)
        self._constants += content_of(constant)

    def value(self, node: Node) -> Value:
        found: Value = self._values[node]
        return found

    def view(self, node: Node) -> None:
        source = self._values[node.args[0]]
        made = node.target(source.meta, *node.args[1:], **node.kwargs)
        self._values[node] = (
            tuple(map(source.looked_at, made))
            if isinstance(made, (tuple, list))
            else source.looked_at(made)
        )

    def item(self, node: Node) -> None:
        self._values[node] = self._values[node.args[0]][node.args[1]]

    def outputs(self, node: Node) -> tuple[Any, ...]:
        """Make room for what the node computes, laid out as PyTorch would."""
        made = node.meta["val"]
        if isinstance(made, torch.Tensor):
            self._values[node] = value = self._new(Layout.of(made))
            return (value,)
        self._values[node] = values = tuple(
            None if item is None else self._new(Layout.of(item)) for item in made
        )
        return values

    def contiguous(self, node: Node, argument: Any) -> Value | None:
        """Return a tensor argument of ``node``, copied if it is not contiguous; None where it is absent."""
        if argument is None:
            return None
        value = self.value(argument)
        return value if value.meta.is_contiguous() else self._copied(node, value)

    def _copied(self, node: Node, value: Value) -> Value:
        copy = self._new(Layout.of(torch.empty(value.sizes, device="meta")))
        self.emit("copy", node, value.sizes, 0, [copy.operand(), value.operand()])
        return copy

    def _new(self, layout: Layout, kind: Kind = "arena", number: int = 0) -> Value:
        self._memories.append(Memory(kind, number, layout))
        return Value(
            len(self._memories) - 1,
            torch.empty_strided(layout.sizes, layout.strides, device="meta"),
        )

    # --- instructions ---

    def emit(
        self,
        kernel: str,
        node: Node,
        sizes: Sequence[int],
        inner: int,
        operands: Sequence[Operand],
        scalars: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """Add an instruction for ``node``; the last ``inner`` loops are the kernel's own."""
        there = [operand for operand in operands if operand != ABSENT]
        loops, strides = simplified(tuple(sizes), [operand.strides for operand in there], inner)
        walks = iter(strides)
        walked = tuple(
            each if each == ABSENT else Operand(each.buffer, each.offset, next(walks))
            for each in operands
        )
        self._instructions.append(Instruction(kernel, node.name, loops, inner, walked, scalars))

    # --- the end ---

    def finished(self, outputs: Sequence[Node]) -> Program:
        """Return the program that returns these nodes: memory that leaves it becomes an output, the rest is planned."""
        values = [self._no_constant(node) for node in outputs]
        leaving = list(
            dict.fromkeys(
                value.memory for value in values if self._memories[value.memory].kind == "arena"
            )
        )
        return Program(
            inputs=tuple(memory.layout for memory in self._memories if memory.kind == "input"),
            outputs=tuple(self._memories[memory].layout for memory in leaving),
            results=tuple(self._result(value, leaving) for value in values),
            buffers=self._buffers(leaving),
            constants=self._constants,
            instructions=tuple(self._instructions),
        )

    def _no_constant(self, node: Node) -> Value:
        """A constant that is returned is copied: whoever gets it may write into it."""
        value = self.value(node)
        return (
            self._copied(node, value) if self._memories[value.memory].kind == "constant" else value
        )

    def _result(self, value: Value, leaving: list[int]) -> Result:
        memory = self._memories[value.memory]
        layout, offset = Layout(value.sizes, value.strides), int(value.meta.storage_offset())
        if memory.kind == "input":
            return Result("input", memory.number, offset, layout)
        return Result("output", leaving.index(value.memory), offset, layout)

    def _buffers(self, leaving: list[int]) -> tuple[Buffer, ...]:
        lifetimes = _lifetimes(self._instructions)
        inside = {
            k: memory.layout.length
            for k, memory in enumerate(self._memories)
            if memory.kind == "arena" and k not in leaving
        }
        starts = planned(inside, lifetimes)
        return tuple(
            Buffer("output", leaving.index(k), memory.layout.length)
            if k in leaving
            else Buffer(memory.kind, starts.get(k, memory.number), memory.layout.length)
            for k, memory in enumerate(self._memories)
        )


def content_of(constant: torch.Tensor) -> bytes:
    """Return the numbers of a tensor, in the order of its elements."""
    dense = constant.detach().clone(memory_format=torch.contiguous_format)
    return ctypes.string_at(dense.data_ptr(), dense.nbytes)


def _lifetimes(instructions: Sequence[Instruction]) -> dict[int, tuple[int, int]]:
    """For each memory the first and the last instruction that touches it."""
    lifetimes: dict[int, tuple[int, int]] = {}
    for place, instruction in enumerate(instructions):
        for operand in instruction.operands:
            lifetimes[operand.buffer] = (lifetimes.get(operand.buffer, (place, place))[0], place)
    return lifetimes
