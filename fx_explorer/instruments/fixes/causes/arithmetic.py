"""This module finds where Python computes with a number in another way than a tensor or a graph
does, by looking at how the number is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from fx_explorer.source_edit.bound_names import walk
from fx_explorer.source_edit.code import Code

AN_EXPONENT = (
    "an exponent of 0.5 or -0.5 with a base of -0 or -inf: torch then takes the root of a number, "
    "not of a tensor"
)
A_NEIGHBOUR = (
    "a comparison of numbers that are equal only after rounding to the dtype of the tensor"
)
A_DIVISION = "a division of numbers by 0, which raises only in Python"
INTEGERS = "integers beyond 2**63, which exist only in Python"
ANOTHER_ORDER = "large numbers that cancel in a sum: a graph may add them in another order"

_POWERS = frozenset(["pow", "pow_", "float_power", "float_power_"])

_NUMBERS = frozenset(
    [
        "len",
        "int",
        "float",
        "abs",
        "min",
        "max",
        "sum",
        "round",
        "size",
        "numel",
        "dim",
        "item",
    ]
)
"""Functions and methods whose result is assumed to be a Python number."""

_FLOATS = frozenset(
    [
        "float",
        "double",
        "mean",
        "nanmean",
        "norm",
        "dist",
        "std",
        "var",
        "exp",
        "log",
        "sqrt",
        "sigmoid",
    ]
)
"""Methods whose result is a float."""

Operators = tuple[type[cst.CSTNode], ...]

_DIVISIONS: Operators = (
    cst.Divide,
    cst.FloorDivide,
    cst.Modulo,
    cst.DivideAssign,
    cst.FloorDivideAssign,
    cst.ModuloAssign,
)
_SUMS: Operators = (cst.Add, cst.Subtract, cst.AddAssign, cst.SubtractAssign)
_GROWING: Operators = (
    cst.Add,
    cst.Subtract,
    cst.Multiply,
    cst.LeftShift,
    cst.Power,
    cst.AddAssign,
    cst.SubtractAssign,
    cst.MultiplyAssign,
    cst.LeftShiftAssign,
    cst.PowerAssign,
)


def _that_hold(*inputs: tuple[str, bool]) -> list[str]:
    return [words for words, is_so in inputs if is_so]


def _is_float(code: Code, call: cst.CSTNode) -> bool:
    """Return whether the call gives a float: ``float(x)``, ``x.mean().item()``. The dtype of x
    plays no role.
    """
    if not isinstance(call, cst.Call):
        return False
    if isinstance(call.func, cst.Attribute):
        taken = call.func.value
    else:
        taken = None
    made = taken.func if isinstance(taken, cst.Call) else None
    return code.source(call.func) == "float" or (
        isinstance(made, cst.Attribute) and made.attr.value in _FLOATS
    )


class NumberUses:
    """The uses of a number in a function: of the number that ``taken`` reads from a tensor, or that
    one of ``names`` holds.
    """

    def __init__(self, code: Code, taken: cst.CSTNode, names: Iterable[str] = ()) -> None:
        self._code = code
        self._taken = taken
        function = code.function(taken)
        self._nodes = list(walk(function.body)) if function else []
        self._given = [pair for node in self._nodes for pair in _given(code, node)]
        self._names = set(names)
        count = -1
        while count != len(self._names):  # a name is made of others that may stand behind it
            count = len(self._names)
            self._names |= {name for name, value in self._given if self._holds(value)}

    def untried_in_a_tensor(self) -> list[str]:
        """Return the kinds of inputs that no trial tries and for which a tensor in place of the
        number may change the result; empty when no such computation uses it.
        """
        return _that_hold(
            (AN_EXPONENT, self.is_exponent()),
            (A_NEIGHBOUR, self.is_compared()),
            (A_DIVISION, self.meets_numbers(_DIVISIONS)),
            (INTEGERS, self.has_integers_that_grow()),
        )

    def untried_in_a_graph(self) -> list[str]:
        """Return the kinds of inputs that no trial tries and for which the result may change if the
        number becomes a symbol of the graph; empty when no such computation uses it.
        """
        return _that_hold(
            (AN_EXPONENT, self.is_exponent()),
            (A_DIVISION, self.meets_numbers(_DIVISIONS)),
            (INTEGERS, self.has_integers_that_grow()),
            (ANOTHER_ORDER, self.meets_numbers(_SUMS)),
        )

    def has_integers_that_grow(self) -> bool:
        return not _is_float(self._code, self._taken) and (
            self.meets_numbers(_GROWING) or self.is_summed()
        )

    def is_exponent(self) -> bool:
        exponents = (exponent for node in self._nodes for exponent in _exponents(self._code, node))
        return any(map(self._holds, exponents))

    def is_compared(self) -> bool:
        for node in self._nodes:
            if not isinstance(node, cst.Comparison):
                continue
            sides = [node.left, *(target.comparator for target in node.comparisons)]
            if any(self._holds(side) and self._is_number(side) for side in sides):
                return True
        return False

    def decides_a_branch(self) -> bool:
        """Return whether the test of an ``if`` or ``while`` depends on the number. An ``assert`` is
        none: Dynamo puts it into the graph.
        """
        branches = (
            node for node in self._nodes if isinstance(node, cst.If | cst.While | cst.IfExp)
        )
        return any(self._holds(branch.test) for branch in branches)

    def meets_numbers(self, operators: Operators) -> bool:
        """Return whether one of these operators is applied to the number and other numbers only."""
        for node in self._nodes:
            for pair in _operands(node, operators):
                if any(map(self._holds, pair)) and all(map(self._is_number, pair)):
                    return True
        return False

    def is_rounded(self) -> bool:
        """Return whether the number is given to ``round``, which takes no tensor."""
        return self._is_given_to("round")

    def is_summed(self) -> bool:
        return self._is_given_to("sum")

    def _is_given_to(self, function: str) -> bool:
        calls = (node for node in self._nodes if isinstance(node, cst.Call))
        of_function = (call for call in calls if self._code.source(call.func) == function)
        return any(self._holds(arg) for call in of_function for arg in call.args)

    def _holds(self, value: cst.CSTNode) -> bool:
        return any(
            node is self._taken or (isinstance(node, cst.Name) and node.value in self._names)
            for node in walk(value)
        )

    def _is_number(self, value: cst.CSTNode, asked: frozenset[str] = frozenset()) -> bool:
        """Return whether a value is the number, looks like a number, or is computed from numbers
        only. ``asked`` has the names that are being looked up, to end circles.
        """
        if isinstance(value, cst.BaseNumber) or (
            value is self._taken and isinstance(value, cst.Call)
        ):
            return True
        if isinstance(value, cst.IfExp):
            return self._is_number(value.body, asked) and self._is_number(value.orelse, asked)
        if isinstance(value, cst.BinaryOperation):
            return self._is_number(value.left, asked) and self._is_number(value.right, asked)
        if isinstance(value, cst.UnaryOperation):
            return self._is_number(value.expression, asked)
        if isinstance(value, cst.Subscript):
            return self._code.source(value.value).endswith(".shape")
        if isinstance(value, cst.Call):
            return self._code.source(value.func).rpartition(".")[2] in _NUMBERS
        # A name that is asked for already (``a = a + 1``) is taken for a number, so that the others
        # decide.
        if not isinstance(value, cst.Name) or value.value in asked:
            return isinstance(value, cst.Name)
        values = [given for name, given in self._given if name == value.value]
        return bool(values) and all(self._is_number(node, asked | {value.value}) for node in values)


def _given(code: Code, node: cst.CSTNode) -> Iterator[tuple[str, cst.CSTNode]]:
    """Yield (name, value) of an assignment, and several for ``a, b = 1, 2``."""
    if isinstance(node, cst.Assign):
        for target in node.targets:
            yield from _pairs(code, target.target, node.value)
    if isinstance(node, cst.AugAssign):
        yield code.source(node.target), node.value


def _pairs(
    code: Code, target: cst.CSTNode, value: cst.CSTNode
) -> Iterator[tuple[str, cst.CSTNode]]:
    if not isinstance(target, cst.Tuple | cst.List):
        yield code.source(target), value
        return
    if isinstance(value, cst.Tuple | cst.List):
        given = value.elements
    else:
        given = ()
    # What one value is unpacked into may each hold any part of it.
    are_alike = len(given) == len(target.elements)
    for position, element in enumerate(target.elements):
        part = given[position].value if are_alike else value
        yield from _pairs(code, element.value, part)


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
