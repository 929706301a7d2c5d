"""Fake tensors are asked for the same operation on the same kinds of tensors in every layer, and torch keeps what came out.
To look that up takes longer than most operations: a key of thirty parts is made of each tensor, anew each time.

It is made once for each kind of tensor here. Tensors with symbolic sizes are left to torch: their parts depend on the
``ShapeEnv``.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch

from fx_explorer.capture.torch_compat.patching import patched

MOST_KINDS = 100_000
"""After so many the kinds of tensors are forgotten."""

_SIZES = ("shape", "stride", "storage_offset")


def make_keys_once(stack: contextlib.ExitStack) -> None:
    """Make the key of each kind of fake tensor once, until the stack is closed."""
    from torch._subclasses import fake_tensor

    _flatten_once(stack, getattr(fake_tensor, "TensorMetadata", None))
    if hasattr(fake_tensor, "is_sparse_any"):
        stack.enter_context(patched(fake_tensor, "is_sparse_any", _ask_the_layout_first))


def _flatten_once(stack: contextlib.ExitStack, metadata_class: Any) -> None:
    """Keep the parts that a tensor's metadata comes to (``TensorMetadata._flatten_into``) where all sizes are numbers."""
    if not hasattr(metadata_class, "_flatten_into") or not dataclasses.is_dataclass(metadata_class):
        return
    names = [field.name for field in dataclasses.fields(metadata_class)]
    if not set(_SIZES) <= set(names):
        return
    all_of, sizes_of = attrgetter(*names), attrgetter(*_SIZES)
    room_of: Callable[[Any], Any] = (
        attrgetter("storage_bytes") if "storage_bytes" in names else lambda metadata: None
    )
    of_numbers: set[type] = {
        int,
        type(None),
    }  # of the types alone: to ask whether a symbol is 0 makes a guard
    known: dict[tuple[Any, ...], list[object]] = {}

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def _flatten_into(metadata: Any, result: list[object], *rest: Any) -> None:
            shape, stride, offset = sizes_of(metadata)
            # A row of a matrix with a symbolic number of rows has sizes that are numbers, and symbolic room.
            if (
                not {*map(type, shape), *map(type, stride), type(offset), type(room_of(metadata))}
                <= of_numbers
            ):
                original(metadata, result, *rest)
                return
            values = all_of(metadata)
            parts = known.get(values)
            if parts is None:
                if len(known) >= MOST_KINDS:
                    known.clear()
                parts = []
                original(metadata, parts, *rest)
                known[values] = parts
            result.extend(parts)

        return _flatten_into

    stack.enter_context(patched(metadata_class, "_flatten_into", make))


def _ask_the_layout_first(original: Callable[[object], bool]) -> Callable[[object], bool]:
    """A tensor whose layout is strided is no sparse one of any kind; torch asks for each kind."""

    def is_sparse_any(tensor: object) -> bool:
        return (
            isinstance(tensor, torch.Tensor)
            and tensor.layout is not torch.strided
            and original(tensor)
        )

    return is_sparse_any
