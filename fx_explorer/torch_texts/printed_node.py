"""This module reads one node of a printed graph: its value from the annotation, its operation from
the expression.

torch prints them in torch/fx/graph.py (``CodeGen._gen_python_code``): a call of an operator as
``torch.ops.aten.mul.Tensor(a, 2)``, a method as ``x.sum()``, a module as ``self.fc(x)``, an
attribute as ``self.weight``, and Python's operators as they are written, ``a * 2``.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import NamedTuple

from fx_explorer.model import Frame


@dataclass(frozen=True, slots=True)
class PrintedNode:
    """A node, with what its text says. Its fields are those of ``model.Node``."""

    name: str
    op: str
    target: str
    arguments: str = ""
    inputs: tuple[str, ...] = ()
    """Names of the nodes it takes, each once, in order."""
    dtype: str = ""
    shape: tuple[str, ...] | None = None
    stride: tuple[str, ...] | None = None
    device: str = ""
    value: str = ""
    frame: Frame | None = None
    """The user's line that the comment above it names."""


class Value(NamedTuple):
    """What an annotation says of a value."""

    dtype: str = ""
    shape: tuple[str, ...] | None = None
    stride: tuple[str, ...] | None = None
    device: str = ""
    text: str = ""
    """Of a value that is not one tensor, the annotation itself: ``Sym(s77)``."""


_TENSOR = re.compile(
    r"(?P<dtype>\w+)\[(?P<shape>[^\]]*)\](?:\[(?P<stride>[^\]]*)\])?(?P<device>[a-z]+(?::\d+)?)?"
)


def value_of(annotation: str) -> Value:
    """Return what ``f32[8, s77][s77, 1]cuda:0`` says."""
    match = _TENSOR.fullmatch(annotation)
    if not match:
        return Value(text=annotation)
    stride = match["stride"]
    return Value(
        match["dtype"],
        _sizes(match["shape"]),
        None if stride is None else _sizes(stride),
        match["device"] or "",
    )


def _sizes(text: str) -> tuple[str, ...]:
    if not text.strip():
        return ()
    return tuple(part.strip() for part in text.split(","))


class Operation(NamedTuple):
    """What an expression does."""

    op: str
    target: str
    arguments: str


_OVERLOAD = re.compile(r"torch\.ops\.(?P<target>[\w.]+)\((?P<arguments>.*)\)", re.S)

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
}

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}

_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}


def operation_of(expression: str, known: dict[str, int]) -> Operation | None:
    """Return what an expression does, in a graph whose earlier nodes are ``known``; None where it
    is none that torch prints.
    """
    overload = _OVERLOAD.fullmatch(expression)
    if overload:
        name = overload["target"]
        target = f"torch.ops.{name}" if name.startswith("higher_order.") else name
        return Operation("call_function", target, overload["arguments"])
    try:
        tree = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    raw = expression.encode()

    def text(node: ast.expr) -> str:
        return raw[node.col_offset : node.end_col_offset].decode()

    if isinstance(tree, ast.Call):
        inner = raw[tree.func.end_col_offset : tree.end_col_offset].decode().strip()[1:-1]
        return _call(tree.func, inner, known)
    if isinstance(tree, ast.Subscript):
        return Operation(
            "call_function", "operator.getitem", f"{text(tree.value)}, {text(tree.slice)}"
        )
    if isinstance(tree, ast.Attribute):
        path = _path(tree)
        if path.startswith("self."):
            return Operation("get_attr", path.removeprefix("self."), "")
        return Operation("call_function", "getattr", f"{text(tree.value)}, {tree.attr!r}")
    if isinstance(tree, ast.BinOp) and type(tree.op) in _BINARY:
        return Operation(
            "call_function",
            f"_operator.{_BINARY[type(tree.op)]}",
            f"{text(tree.left)}, {text(tree.right)}",
        )
    if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]) in _COMPARISONS:
        name = _COMPARISONS[type(tree.ops[0])]
        return Operation(
            "call_function", f"_operator.{name}", f"{text(tree.left)}, {text(tree.comparators[0])}"
        )
    if isinstance(tree, ast.UnaryOp) and type(tree.op) in _UNARY:
        return Operation("call_function", f"_operator.{_UNARY[type(tree.op)]}", text(tree.operand))
    return None


def _call(function: ast.expr, arguments: str, known: dict[str, int]) -> Operation | None:
    path = _path(function)
    if not path:
        return None
    root, _, rest = path.partition(".")
    if root == "self":
        return Operation("call_module", rest, arguments)
    if root in known and rest:
        with_self = f"{root}, {arguments}" if arguments else root
        return Operation("call_method", rest, with_self)
    return Operation("call_function", path, arguments)


def _path(node: ast.expr) -> str:
    """Return ``self.layers.0`` for ``getattr(self.layers, "0")``, and the dotted name of any other
    attribute; empty for what is neither.
    """
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _path(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and len(node.args) == 2
    ):
        inner, name = _path(node.args[0]), node.args[1]
        if inner and isinstance(name, ast.Constant) and isinstance(name.value, str):
            return f"{inner}.{name.value}"
        return ""
    return ""


_STRING = re.compile(r"'(?:[^'\\]|\\.)*(?:'|\\?\Z)|\"(?:[^\"\\]|\\.)*(?:\"|\\?\Z)", re.S)

_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?! ?=[^=])")
"""A name that is no attribute and no keyword."""


def inputs_in(text: str, known: dict[str, int]) -> tuple[str, ...]:
    """Return the names of ``known`` nodes that a text has, each once, in order."""
    if "'" in text or '"' in text:
        text = _STRING.sub("''", text)
    return tuple(dict.fromkeys(word for word in _WORD.findall(text) if word in known))
