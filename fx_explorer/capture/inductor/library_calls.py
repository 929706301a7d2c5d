"""This module finds library calls of a wrapper on its lines, in a form that can be repeated alone,
and repeats them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from fx_explorer.capture.torch_compat.versions import size_hint_of
from fx_explorer.model.library_call import Layout, LibraryCall


def library_call(line: str, lowering: Any) -> LibraryCall | None:
    """Return the call on a line of output code, in a form that can be repeated alone; None for
    other lines, and where that is impossible: the operator is not one of ATen's, or takes arguments
    other than tensors of known sizes.
    """
    call = _call(line)
    if call is None or not ast.unparse(call.func).startswith(_LIBRARIES):
        return None
    tensors, numbers = [], []
    names = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
    for name in sorted(names - _IMPORTED):
        value = _given(name, lowering)
        if isinstance(value, Layout):
            tensors.append((name, value))
        elif value is not None:
            numbers.append((name, value))
        else:
            return None
    return LibraryCall(ast.unparse(call), tuple(tensors), tuple(numbers))


def prepared(call: LibraryCall) -> Callable[[], object]:
    """Return a function that makes a library call and returns its results. The tensors for it are
    allocated now and hold zeros.
    """
    given = {name: _zeros(layout) for name, layout in call.tensors}
    code = compile(call.text, "<a library call of output code>", "eval")
    names = {**_imported(), **given, **dict(call.numbers)}
    return lambda: eval(code, names)


_LIBRARIES = ("torch.ops.aten.", "aten.", "extern_kernels.")

_IMPORTED = frozenset(
    ["torch", "aten", "extern_kernels", "reinterpret_tensor", "device", "inf", "nan"]
)
"""Names that output code imports (torch/_inductor/codegen/wrapper.py, ``write_header``)."""


def _imported() -> dict[str, Any]:
    # A large part of Inductor, which is there when it compiles.
    from fx_explorer.capture.torch_compat.private_names import _reinterpret_tensor, extern_kernels

    return {
        "torch": torch,
        "aten": torch.ops.aten,
        "extern_kernels": extern_kernels,
        "reinterpret_tensor": _reinterpret_tensor,
        "device": torch.device,
        "inf": float("inf"),
        "nan": float("nan"),
    }


def _call(line: str) -> ast.Call | None:
    try:
        statement = ast.parse(line.strip()).body
    except SyntaxError:
        return None
    match statement:
        case [ast.Assign(value=ast.Call() as call)] | [ast.Expr(value=ast.Call() as call)]:
            return call
    return None


def _given(name: str, lowering: Any) -> Layout | int | None:
    """Return the value of a name in the output code: a buffer, an input, a constant or a size."""
    value = lowering.name_to_buffer.get(name, lowering.graph_inputs.get(name))
    if value is None:
        constant = lowering.constants.get(name)
        if constant is not None:
            return _layout(constant.shape, constant.stride(), constant.dtype, constant.device)
        value = next((symbol for symbol in _symbols(lowering) if symbol.name == name), None)
    if value is None:
        return None
    if not hasattr(value, "get_stride"):
        return _number(value, lowering)
    sizes, strides = _numbers(value.get_size(), lowering), _numbers(value.get_stride(), lowering)
    if sizes is None or strides is None:
        return None
    return _layout(sizes, strides, value.get_dtype(), value.get_device())


def _symbols(lowering: Any) -> Iterator[Any]:
    """Yield the symbols for sizes of the graph's inputs."""
    for given in lowering.graph_inputs.values():
        sizes = given.get_size() if hasattr(given, "get_size") else [given]
        for size in sizes:
            yield from getattr(size, "free_symbols", ())


def _layout(
    shape: Iterable[int], stride: Iterable[int], dtype: torch.dtype, device: torch.device
) -> Layout:
    return Layout(tuple(shape), tuple(stride), str(dtype).removeprefix("torch."), str(device))


def _numbers(values: Iterable[Any], lowering: Any) -> tuple[int, ...] | None:
    """Return sizes as numbers; None if one of them is not known."""
    numbers = []
    for value in values:
        number = _number(value, lowering)
        if number is None:
            return None
        numbers.append(number)
    return tuple(numbers)


def _number(value: Any, lowering: Any) -> int | None:
    try:
        return size_hint_of(lowering.sizevars, value)
    except (TypeError, ValueError, NotImplementedError):  # a size that only the data determines
        return None


def _zeros(layout: Layout) -> torch.Tensor:
    dtype = getattr(torch, layout.dtype)
    return torch.empty_strided(
        layout.shape, layout.stride, dtype=dtype, device=layout.device
    ).zero_()
