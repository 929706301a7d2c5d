"""This module computes the sizes that torch prints of symbols, ``(s77//2) + 1``, for given values
of the symbols.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from fx_explorer.torch_texts import bounded

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

_FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "Max": max,
    "Min": min,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
}

MOST_BITS = 63


def size_of(expression: str, values: Mapping[str, int]) -> int | None:
    """Return the value of an expression; None where it has a symbol without a value or something
    that is not known here.
    """
    if expression.isdecimal() and len(expression) < MOST_BITS // 3:
        return int(expression)
    try:
        value = _value(ast.parse(bounded(expression.strip()), mode="eval").body, values)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError):
        return None
    if value is None or value.bit_length() > MOST_BITS:
        return None
    return value


def _value(node: ast.expr, values: Mapping[str, int]) -> int | None:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return values.get(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = _value(operand, values)
            return None if value is None else -value
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))):
            base = _value(left, values)
            if base is None or not 0 <= power <= 8 or base.bit_length() > MOST_BITS:
                return None
            return int(base**power)
        case ast.BinOp(left=left, op=op, right=right):
            return _of_two(_OPERATORS.get(type(op)), left, right, values)
        case ast.Call(func=ast.Name(id=name), args=[left, right]):
            return _of_two(_FUNCTIONS.get(name), left, right, values)
        case _:
            return None


def _of_two(
    compute: Callable[[int, int], int] | None,
    left: ast.expr,
    right: ast.expr,
    values: Mapping[str, int],
) -> int | None:
    first, second = _value(left, values), _value(right, values)
    if compute is None or first is None or second is None:
        return None
    if max(first.bit_length(), second.bit_length()) > MOST_BITS:
        return None
    return compute(first, second)
