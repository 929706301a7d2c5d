"""Library calls of a wrapper, found on its lines and made alone."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from fx_explorer.capture.torch_compat.versions import size_hint_of
from fx_explorer.model.library_call import Layout, LibraryCall


def library_call(line: str, lowering: Any) -> LibraryCall | None:
    """Return the call on a line of output code; None where there is none that can be made alone: it
    is not of ATen's own, or it takes something else than tensors of known sizes.
    """
    call = _call(line)
    if call is None or not ast.unparse(call.func).startswith(_LIBRARIES):
        return None
    tensors, numbers = [], []
    for name in sorted({one.id for one in ast.walk(call) if isinstance(one, ast.Name)} - _IMPORTED):
        found = _given(name, lowering)
        if isinstance(found, Layout):
            tensors.append((name, found))
        elif found is not None:
            numbers.append((name, found))
        else:
            return None
    return LibraryCall(ast.unparse(call), tuple(tensors), tuple(numbers))


def prepared(call: LibraryCall) -> Callable[[], object]:
    """Return a function that makes the call and returns what it returns. The tensors that it is
    given are there already, and are zeros.
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
    from torch._inductor.select_algorithm import (
        extern_kernels,
    )  # a large part of Inductor, which is there when it compiles

    return {
        "torch": torch,
        "aten": torch.ops.aten,
        "extern_kernels": extern_kernels,
        "reinterpret_tensor": torch._C._dynamo.guards._reinterpret_tensor,
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
    """Return what a name of the output code stands for: a buffer, an input, a constant or a size."""
    found = lowering.name_to_buffer.get(name, lowering.graph_inputs.get(name))
    if found is None:
        constant = lowering.constants.get(name)
        if constant is not None:
            return _layout(constant.shape, constant.stride(), constant.dtype, constant.device)
        found = next((symbol for symbol in _symbols(lowering) if symbol.name == name), None)
    if not hasattr(found, "get_stride"):
        return None if found is None else _number(found, lowering)
    sizes, strides = _numbers(found.get_size(), lowering), _numbers(found.get_stride(), lowering)
    if sizes is None or strides is None:
        return None
    return _layout(sizes, strides, found.get_dtype(), found.get_device())


def _symbols(lowering: Any) -> Iterator[Any]:
    """Yield the symbols that stand for sizes of the graph's inputs."""
    for given in lowering.graph_inputs.values():
        for size in given.get_size() if hasattr(given, "get_size") else [given]:
            yield from getattr(size, "free_symbols", ())


def _layout(
    shape: Iterable[int], stride: Iterable[int], dtype: torch.dtype, device: torch.device
) -> Layout:
    return Layout(tuple(shape), tuple(stride), str(dtype).removeprefix("torch."), str(device))


def _numbers(values: Iterable[Any], lowering: Any) -> tuple[int, ...] | None:
    """Return sizes as numbers; None where one of them is not known."""
    found = [_number(value, lowering) for value in values]
    known = tuple(one for one in found if one is not None)
    return known if len(known) == len(found) else None


def _number(value: Any, lowering: Any) -> int | None:
    try:
        return size_hint_of(lowering.sizevars, value)
    except (TypeError, ValueError, NotImplementedError):  # a size that only the data tells
        return None


def _zeros(layout: Layout) -> torch.Tensor:
    dtype = getattr(torch, layout.dtype)
    return torch.empty_strided(
        layout.shape, layout.stride, dtype=dtype, device=layout.device
    ).zero_()
