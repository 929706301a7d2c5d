"""A program: what a segment of the graph becomes. It is plain data; ``runtime/program.h`` has the same in C++.

A program is a list of instructions over buffers. An instruction names a kernel and a nest of loops,
and says for each operand where it begins and how far one step of each loop takes it. So transposed,
broadcast and sliced operands need no code of their own, and views need no instruction at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

MAX_RANK = 6
MAX_OPERANDS = 8

Kind = Literal["input", "output", "arena", "constant"]


@dataclass(frozen=True)
class Layout:
    """Sizes and strides of a tensor, in elements."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Layout:
        return cls(tuple(tensor.shape), tuple(tensor.stride()))

    @property
    def length(self) -> int:
        """Elements from the first to the last, gaps included."""
        return 1 + sum(
            (size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True)
        )

    @property
    def is_dense(self) -> bool:
        """Whether each element has a place of its own, without gaps between them."""
        expected = 1
        for stride, size in sorted(
            (stride, size)
            for size, stride in zip(self.sizes, self.strides, strict=True)
            if size != 1
        ):
            if stride != expected:
                return False
            expected *= size
        return True


@dataclass(frozen=True)
class Buffer:
    kind: Kind
    start: int
    """Number of the input or output; else the first element in the arena or in the constants."""
    length: int


@dataclass(frozen=True)
class Operand:
    buffer: int
    """Number of the buffer; -1 where an optional operand is absent."""
    offset: int = 0
    strides: tuple[int, ...] = ()
    """Elements that one step of each loop goes on; 0 where it stays."""


ABSENT = Operand(-1)


@dataclass(frozen=True)
class Instruction:
    kernel: str
    node: str
    """Name of the graph's node that it computes."""
    sizes: tuple[int, ...]
    """How often each loop goes round, the outermost first."""
    inner: int
    """How many of the last loops the kernel works on as a whole."""
    operands: tuple[Operand, ...]
    """The outputs first."""
    scalars: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Result:
    """One tensor that the program returns: an output, or a view of an output or of an input."""

    base: Literal["input", "output"]
    number: int
    offset: int
    layout: Layout


@dataclass(frozen=True)
class Program:
    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    """Tensors to be allocated for the results."""
    results: tuple[Result, ...]
    buffers: tuple[Buffer, ...]
    constants: bytes
    """float32 values."""
    instructions: tuple[Instruction, ...]

    @property
    def arena_length(self) -> int:
        """Elements of the arena, in which everything lies that is dead when the program ends."""
        return max(
            (buffer.start + buffer.length for buffer in self.buffers if buffer.kind == "arena"),
            default=0,
        )

    @property
    def unplanned_length(self) -> int:
        """Elements that the arena would have if no buffer used the place of a dead one."""
        return sum(buffer.length for buffer in self.buffers if buffer.kind == "arena")
