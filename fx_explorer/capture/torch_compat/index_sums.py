"""Indices are sums of multiples of symbols, of which Inductor asks sympy the same few hundred
questions a hundred thousand times: a model's layers are alike, and so are their kernels' symbols.

What sympy answers depends on nothing but the expressions, which never change, so an answer is kept.
Of the 12 layers of a Llama training step (torch 2.11): 99,000 simplifications of 428 expressions,
49,000 comparisons of 599 pairs, 60,000 texts of 229 expressions, 1,500 bounds of 53.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from typing import Any

import sympy
from sympy.core import relational
from sympy.core.parameters import global_parameters

from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.versions import goes_by

MOST_ANSWERS = 100_000
"""After so many the kept answers are forgotten."""

_SUMS = (sympy.Symbol, sympy.Integer, sympy.Add, sympy.Mul)


def work_out_sums_once(stack: contextlib.ExitStack) -> None:
    """Answer Inductor's repeated questions from what is known, until the stack is closed."""
    _read_strides_off(stack)
    _simplify_once(stack)
    _compare_once(stack, relational.Equality)
    _compare_once(stack, relational._Inequality)
    _print_once(stack)
    _bound_once(stack)
    _reckon_with_numbers(stack)


def _simplify_once(stack: contextlib.ExitStack) -> None:
    """Keep what an expression expands to (``SizeVarAllocator.simplify``) where no symbol has been
    replaced by another.
    """
    from torch._inductor import sizevars

    allocator_class = getattr(sizevars, "SizeVarAllocator", None)
    if not goes_by(
        getattr(allocator_class, "simplify", None), ("sympy", "expand", "xreplace", "replacements")
    ):
        return
    known: dict[Any, Any] = {}

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def simplify(allocator: Any, expr: Any) -> Any:
            if allocator.replacements or not isinstance(expr, sympy.Expr):
                return original(allocator, expr)
            simple = known.get(expr)
            if simple is None:
                simple = _kept(known, expr, original(allocator, expr))
            return simple

        return simplify

    stack.enter_context(patched(allocator_class, "simplify", make))


def _compare_once(stack: contextlib.ExitStack, relation: Any) -> None:
    """Keep what comparisons of this class come to. sympy keeps sums and products itself, but no
    comparisons.
    """
    usual = vars(relation).get("__new__")
    if not isinstance(usual, staticmethod):
        return
    original = usual.__func__
    known: dict[Any, Any] = {}

    def __new__(cls: Any, *sides: Any, **options: Any) -> Any:
        if options or not global_parameters.evaluate or not all(map(_is_number_or_sum, sides)):
            return original(cls, *sides, **options)
        answer = known.get((cls, *sides))
        if answer is None:
            answer = _kept(known, (cls, *sides), original(cls, *sides))
        return answer

    stack.callback(setattr, relation, "__new__", usual)
    setattr(relation, "__new__", staticmethod(__new__))  # noqa: B010 - mypy knows no assignment to it


def _print_once(stack: contextlib.ExitStack) -> None:
    """Keep the text of a sum, as sympy writes it and as torch's printers do. Code and comparisons have the same
    few hundred over and over.
    """
    from sympy.core._print_helpers import Printable
    from sympy.printing.printer import Printer

    expr_printer: Any = getattr(
        importlib.import_module("torch.utils._sympy.printers"), "ExprPrinter", None
    )
    texts: dict[Any, str] = {}

    def make_str(original: Callable[[Any], str]) -> Callable[[Any], str]:
        def __str__(expr: Any) -> str:
            if not isinstance(expr, _SUMS) or Printer._global_settings:
                return original(expr)
            text = texts.get(expr)
            return _kept_text(texts, expr, expr, original(expr)) if text is None else text

        return __str__

    def make_doprint(original: Callable[..., str]) -> Callable[..., str]:
        def doprint(printer: Any, expr: Any) -> str:
            kind = type(printer)
            # A printer of guards, which has a constructor of its own, names symbols by where they come from.
            if (
                not isinstance(expr, _SUMS)
                or kind.__init__ is not Printer.__init__
                or not issubclass(kind, expr_printer)
            ):
                return original(printer, expr)
            text = texts.get((kind, expr))
            return (
                _kept_text(texts, (kind, expr), expr, original(printer, expr))
                if text is None
                else text
            )

        return doprint

    stack.enter_context(patched(Printable, "__str__", make_str))
    if expr_printer is not None:
        stack.enter_context(patched(Printer, "doprint", make_doprint))


def _kept_text(texts: dict[Any, str], question: Any, expr: Any, text: str) -> str:
    """Keep the text of an expression that consists of nothing but sums and products."""
    if all(isinstance(part, _SUMS) for part in sympy.preorder_traversal(expr)):
        _kept(texts, question, text)
    return text


def _bound_once(stack: contextlib.ExitStack) -> None:
    """Keep between which numbers an index of a kernel lies (``bound_sympy``), given its symbols' ranges, where no size is
    symbolic.
    """
    from torch._inductor import bounds
    from torch._inductor.virtualized import V

    if not hasattr(bounds, "bound_sympy"):
        return
    known: dict[Any, Any] = {}

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def bound_sympy(expr: Any, ranges: Any = None) -> Any:
            if (
                not isinstance(expr, sympy.Expr)
                or not ranges
                or not has_no_symbols(getattr(V.graph, "sizevars", None))
            ):
                return original(expr, ranges)
            question = expr, frozenset((symbol, ranges.get(symbol)) for symbol in expr.free_symbols)
            bound = known.get(question)
            return _kept(known, question, original(expr, ranges)) if bound is None else bound

        return bound_sympy

    stack.enter_context(patched(bounds, "bound_sympy", make))


def has_no_symbols(sizes: Any) -> bool:
    """Return whether no size is symbolic: whatever makes a symbol gives it a range or a value
    (torch/fx/experimental/symbolic_shapes.py, ``ShapeEnv``).
    """
    shape_env = getattr(sizes, "shape_env", None)
    return not getattr(shape_env, "var_to_range", True) and not getattr(
        shape_env, "backed_var_to_val", True
    )


def _reckon_with_numbers(stack: contextlib.ExitStack) -> None:
    """Reckon with Python's numbers where all sizes and strides are numbers: how much room a buffer takes, and whether it is
    contiguous. torch multiplies sympy's.
    """
    from torch._inductor import graph, ir

    replacements = {
        "compute_required_storage_length": _room_in_numbers,
        "is_contiguous_strides_for_shape": _contiguous_in_numbers,
    }
    for module in (graph, ir):
        for name, make in replacements.items():
            if hasattr(module, name):
                stack.enter_context(patched(module, name, make))


def _room_in_numbers(original: Callable[..., Any]) -> Callable[..., Any]:
    def compute_required_storage_length(shape: Any, strides: Any, storage_offset: Any) -> Any:
        if (
            not all(
                isinstance(number, sympy.Integer) for number in (*shape, *strides, storage_offset)
            )
            or 0 in shape
        ):
            return original(shape, strides, storage_offset)
        last = sum(
            (int(size) - 1) * int(stride) for size, stride in zip(shape, strides, strict=False)
        )
        return sympy.Integer(1 + int(storage_offset) + last)

    return compute_required_storage_length


def _contiguous_in_numbers(original: Callable[..., bool]) -> Callable[..., bool]:
    def is_contiguous_strides_for_shape(stride: Any, shape: Any) -> bool:
        if not all(isinstance(number, (int, sympy.Integer)) for number in (*stride, *shape)):
            return original(stride, shape)
        expected = expected_if_empty = 1
        for size, step in reversed(tuple(zip(map(int, shape), map(int, stride), strict=False))):
            if size == 1:
                continue
            if step not in (expected, expected_if_empty):
                return False
            expected *= size
            expected_if_empty *= max(1, size)
        return True

    return is_contiguous_strides_for_shape


def _is_number_or_sum(side: Any) -> bool:
    """Return whether an equal side gets an equal answer: ``True`` equals 1 in Python."""
    return type(side) is int or isinstance(side, sympy.Expr)


def _kept(known: dict[Any, Any], question: Any, answer: Any) -> Any:
    if len(known) >= MOST_ANSWERS:
        known.clear()
    known[question] = answer
    return answer


def _read_strides_off(stack: contextlib.ExitStack) -> None:
    """Read the stride of an index off it where it is a sum of multiples of symbols, as nearly all
    are. torch asks sympy to simplify the difference of two such sums, which gives the same number.
    """
    from torch._inductor import sizevars
    from torch._inductor.codegen import cpp

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def stride_at_vec_range(index: Any, var: Any, vec_length: int | None = None) -> Any:
            stride = _linear_stride(index, var)
            return original(index, var, vec_length) if stride is None else stride

        return stride_at_vec_range

    if hasattr(sizevars, "stride_at_vec_range") and hasattr(cpp, "stride_at_vec_range"):
        stack.enter_context(patched(cpp, "stride_at_vec_range", make))


def _linear_stride(index: Any, var: Any) -> Any:
    """Return by how much ``index`` grows when ``var`` grows by one, as a sympy Integer; None where
    the index is no sum of whole multiples of symbols.
    """
    stride = 0
    for term in sympy.Add.make_args(index):
        if term.is_Mul and len(term.args) == 2:
            factor, symbol = term.args
        else:
            factor, symbol = sympy.S.One, term
        if symbol.is_Integer and factor.is_Integer:
            continue
        if not (symbol.is_Symbol and factor.is_Integer):
            return None
        if symbol == var:
            stride += int(factor)
    return sympy.Integer(stride)
