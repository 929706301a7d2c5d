"""Where Python computes with a number otherwise than a tensor or a graph does, read from what becomes of the number."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fx_explorer.fixing.code import Code
from fx_explorer.fixing.names import walk

AN_EXPONENT = "an exponent of 0.5 or -0.5 with -0 or -inf below it: torch takes the root of a number, not of a tensor"
A_DIVISION = "a division of numbers by 0, which raises in Python only"
INTEGERS = "integers beyond 2**63, which only Python has"

_POWERS = frozenset(["pow", "pow_", "float_power", "float_power_"])

_NUMBERS = frozenset([*("len", "int", "float", "abs", "min", "max", "sum", "round"), *("size", "numel", "dim", "item")])
"""What these give is taken for a number."""

Operators = tuple[type[cst.CSTNode], ...]

_DIVISIONS: Operators = (
    *(cst.Divide, cst.FloorDivide, cst.Modulo),
    *(cst.DivideAssign, cst.FloorDivideAssign, cst.ModuloAssign),
)
_GROWING: Operators = (
    *(cst.Add, cst.Subtract, cst.Multiply, cst.LeftShift, cst.Power),
    *(cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign, cst.LeftShiftAssign, cst.PowerAssign),
)


def untried_of(code: Code, call: cst.Call) -> str:
    """Inputs that no trial chooses and that make a difference when the number that ``call`` gives is none of Python's any more;
    empty when nothing is computed with it that could show one."""
    uses = _Uses(code, call)
    return "; ".join(
        words
        for words, is_so in (
            (AN_EXPONENT, uses.is_exponent()),
            (A_DIVISION, uses.meets_numbers(_DIVISIONS)),
            (INTEGERS, uses.meets_numbers(_GROWING) or uses.is_summed()),
        )
        if is_so
    )


class _Uses:
    """The names that hold the number, or what is computed from it, in the function where it is taken."""

    def __init__(self, code: Code, call: cst.Call) -> None:
        self._code = code
        self._call = call
        function = code.function(call)
        self._nodes = list(walk(function.body)) if function else []
        self._given = [pair for node in self._nodes for pair in _given(code, node)]
        self._names: set[str] = set()
        for _ in self._given:  # names are made of names that stand anywhere: once for each is enough
            self._names |= {name for name, value in self._given if self._holds(value)}

    def is_exponent(self) -> bool:
        return any(self._holds(exponent) for node in self._nodes for exponent in _exponents(self._code, node))

    def meets_numbers(self, operators: Operators) -> bool:
        """Whether one of these operators has it and nothing but numbers."""
        pairs = (pair for node in self._nodes for pair in _operands(node, operators))
        return any(any(map(self._holds, pair)) and all(map(self._is_number, pair)) for pair in pairs)

    def is_summed(self) -> bool:
        sums = (node for node in self._nodes if isinstance(node, cst.Call) and self._code.source(node.func) == "sum")
        return any(self._holds(one) for node in sums for one in node.args)

    def _holds(self, value: cst.CSTNode) -> bool:
        return any(node is self._call or (isinstance(node, cst.Name) and node.value in self._names) for node in walk(value))

    def _is_number(self, value: cst.CSTNode, asked: frozenset[str] = frozenset()) -> bool:
        """Whether it is the number, looks like one, or is computed from such only. ``asked``: names that this is asked for."""
        if value is self._call or isinstance(value, cst.BaseNumber):
            return True
        if isinstance(value, cst.BinaryOperation):
            return self._is_number(value.left, asked) and self._is_number(value.right, asked)
        if isinstance(value, cst.UnaryOperation):
            return self._is_number(value.expression, asked)
        if isinstance(value, cst.Subscript):
            return self._code.source(value.value).endswith(".shape")
        if isinstance(value, cst.Call):
            return self._code.source(value.func).rpartition(".")[2] in _NUMBERS
        if not isinstance(value, cst.Name) or value.value in asked:
            return isinstance(value, cst.Name)
        values = [given for name, given in self._given if name == value.value]
        return bool(values) and all(self._is_number(one, asked | {value.value}) for one in values)


def _given(code: Code, node: cst.CSTNode) -> Iterator[tuple[str, cst.CSTNode]]:
    """(name, value) of an assignment."""
    if isinstance(node, cst.Assign):
        yield from ((code.source(target.target), node.value) for target in node.targets)
    if isinstance(node, cst.AugAssign):
        yield code.source(node.target), node.value


def _operands(node: cst.CSTNode, operators: Operators) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, operators):
        yield node.left, node.right
    if isinstance(node, cst.AugAssign) and isinstance(node.operator, operators):
        yield node.target, node.value


def _exponents(code: Code, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Power):
        yield node.right
    if isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.PowerAssign):
        yield node.value
    if isinstance(node, cst.Call) and code.source(node.func).rpartition(".")[2] in _POWERS:
        yield from node.args
