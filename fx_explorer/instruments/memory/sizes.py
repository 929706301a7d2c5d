"""This module reads sizes from the wrapper that Inductor writes: its syntax tree, and the bytes of
storages in its code and in rows of nodes.

Written by torch/_inductor/codegen/wrapper.py, ``PythonWrapperCodegen``: a function ``call(args)``,
alone or as a method of ``Runner``, and one function for each partition or subgraph.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fx_explorer.torch_texts import bounded

CUDA_BLOCK_BYTES = 512
"""torch's caching allocator rounds every request up to this (c10/cuda/CUDACachingAllocator.cpp,
``kMinBlockSize``).
"""

_BITS = re.compile(r"\d+")
_ITEM = re.compile(r"(?P<dtype>\w+)\[(?P<sizes>[^\]]*)\]|[^\s,()\[\]]+")

_OPERATORS: dict[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

_FUNCTIONS: dict[str, Callable[..., int]] = {
    "max": max,
    "min": min,
    "Max": max,
    "Min": min,
    "int": int,
    "abs": abs,
}


class UnknownSize(Exception):
    """Raised for a size that depends on a symbol without a value in the session."""


def item_bytes(dtype: str) -> int:
    """Return the bytes of an element of ``torch.float32``, ``f32``, ``b8`` or ``bool``; 0 for any
    other text.
    """
    match = _BITS.search(dtype)
    if match:
        return max(1, int(match[0]) // 8)
    return 1 if dtype.endswith("bool") else 0


def strided_bytes(sizes: Sequence[int], strides: Sequence[int], item: int) -> int:
    """Return the bytes of the storage that ``empty_strided`` allocates."""
    if 0 in sizes:
        return 0
    return (
        1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    ) * item


def dense_bytes(sizes: Sequence[int], item: int) -> int:
    """Return the bytes of a tensor without gaps."""
    return math.prod(sizes) * item


def evaluated(expression: ast.expr, values: Mapping[str, int]) -> int:
    """Return the value of a size such as ``8*s77``. Raises UnknownSize where it has none. No code
    is run.
    """
    match expression:
        case ast.Constant(value=int() as number):
            return number
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -evaluated(operand, values)
        case ast.BinOp(left=left, op=kind, right=right):
            return _applied(kind, evaluated(left, values), evaluated(right, values))
        case ast.Call(func=ast.Name(id=name), args=given, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(evaluated(expression, values) for expression in given))
    raise UnknownSize(type(expression).__name__)  # its text would take longer than the whole replay


MAX_EXPONENT = 64
"""Largest exponent that is evaluated. The code may come from a stranger: 2**10**10 would take all
memory.
"""


def _applied(kind: ast.operator, left: int, right: int) -> int:
    if isinstance(kind, ast.Pow) and 0 <= right <= MAX_EXPONENT:
        return int(left**right)
    if type(kind) not in _OPERATORS or (isinstance(kind, ast.FloorDiv | ast.Mod) and not right):
        raise UnknownSize("an operation that is not supported for sizes")
    return _OPERATORS[type(kind)](left, right)


def evaluated_all(expression: ast.expr, values: Mapping[str, int]) -> list[int]:
    """Return the numbers of a tuple of sizes. Raises UnknownSize."""
    if not isinstance(expression, ast.Tuple | ast.List):
        raise UnknownSize(type(expression).__name__)
    return [evaluated(element, values) for element in expression.elts]


def size_of_text(text: str, values: Mapping[str, int]) -> int:
    """Return the value of a size that a row has as text, ``4`` or ``2*s77``. Raises UnknownSize."""
    if text.isdigit():
        return int(text)
    try:
        return evaluated(ast.parse(text, mode="eval").body, values)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UnknownSize(text) from None


def shape_bytes(dtype: str, shape: Sequence[str], values: Mapping[str, int]) -> int:
    """Return the bytes of a tensor without gaps whose sizes are texts. Raises UnknownSize."""
    return dense_bytes([size_of_text(text, values) for text in shape], item_bytes(dtype))


def value_bytes(value: str, values: Mapping[str, int]) -> list[int | None]:
    """Return the bytes of each tensor in a value such as ``(f32[2, 8], None, i64[])``; None for an
    item that is not a tensor. Raises UnknownSize.
    """
    sizes_bytes: list[int | None] = []
    for match in _ITEM.finditer(bounded(value)):
        if match["dtype"]:
            shape = [part.strip() for part in (match["sizes"] or "").split(",") if part.strip()]
            sizes_bytes.append(shape_bytes(match["dtype"], shape, values))
        else:
            sizes_bytes.append(None)
    return sizes_bytes


def rounded(size_bytes: int, device: str) -> int:
    """Return the bytes that an allocation takes: rounded up to 512 on a GPU, as requested on the
    CPU.
    """
    if not device.startswith("cuda"):
        return size_bytes
    return -(-size_bytes // CUDA_BLOCK_BYTES) * CUDA_BLOCK_BYTES


ENTRY = "call"


class UnreadableCode(Exception):
    """Raised for a wrapper with a statement that cannot be replayed. The message names it and its
    line.
    """


@dataclass(frozen=True)
class Wrapper:
    """The functions of one output code, by name."""

    functions: dict[str, ast.FunctionDef]

    @property
    def entry(self) -> ast.FunctionDef:
        return self.functions[ENTRY]


def read_wrapper(text: str, language: str = "python") -> Wrapper:
    """Read an output code. Raises UnreadableCode for a wrapper that is not Python."""
    if language != "python":
        raise UnreadableCode(
            f"the wrapper is written in {language}, and only Python wrappers can be read"
        )
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnreadableCode(
            f"the output code is not readable Python ({type(error).__name__})"
        ) from error
    functions = {function.name: function for function in _functions(tree)}
    if ENTRY not in functions:
        raise UnreadableCode("the output code has no function call(args)")
    return Wrapper(functions)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            yield statement
        elif isinstance(statement, ast.ClassDef):
            methods = (part for part in statement.body if isinstance(part, ast.FunctionDef))
            yield from methods


def argument_names(function: ast.FunctionDef) -> list[str]:
    """Return the names into which a function unpacks its list of arguments, in order; empty when it
    has no arguments.
    """
    given = function.args.args[-1].arg if function.args.args else ""
    for statement in function.body:
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Name(id=name)) if (
                name == given
            ):
                return [name.id for name in names if isinstance(name, ast.Name)]
            case ast.Assign(
                targets=[ast.Name(id=only)], value=ast.Subscript(value=ast.Name(id=name))
            ) if name == given:
                return [only]
    return []
