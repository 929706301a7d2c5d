"""Numbers stand here for the content of tensors which have none.

A training script reads numbers off its tensors to log them, to keep the best, to count what was
right. On a GPU that is not there they have no value, and the script continues with a placeholder:
1.0 for a number, 1 for an integer, which can be divided by and has a logarithm, and for a truth
False, but for what is true of any ordinary content (``isfinite``). They are plain numbers of
Python's, so that whatever takes a number takes them. Each line that reads one is recorded.

Reads are ``aten._local_scalar_dense`` and the operators that return a truth at once, seen by the
dispatch mode; and methods of the tensor that read its memory, which are replaced for fake tensors.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import torch
from torch._guards import TracingContext

from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.capture.virtual_gpu.device_queries import Emulation, Placeholder, users_place

MOST_READS = 100_000
"""Reads of one line, after which what waits for a value is ended: it would wait for ever."""


class EndlessReadError(RuntimeError):
    """A line has read the content of a tensor without content again and again."""


class NoContentError(RuntimeError):
    """What was asked for cannot be filled with placeholders."""


_aten = torch.ops.aten
_TRUTHS = {_aten.equal.default: True, _aten.allclose.default: True}
_READ = _aten._local_scalar_dense.default

_SAME = (_aten.eq.Tensor, _aten.ne.Tensor)
_COMPARED = (_aten.eq.Scalar, _aten.ne.Scalar)
_KEEPS = {
    _aten.all.default,
    _aten.all.dim,
    _aten.any.default,
    _aten.any.dim,
    _aten.mul.Tensor,
    _aten.bitwise_and.Tensor,
    _aten.logical_and.default,
    _aten.bitwise_or.Tensor,
    _aten.logical_or.default,
    _aten.clone.default,
    _aten.detach.default,
    _aten._to_copy.default,
}
_NEGATES = {_aten.logical_not.default, _aten.bitwise_not.default}


class Placeholders:
    """Answers what a program asks of tensors without content."""

    def __init__(self, emulation: Emulation, mode: Any) -> None:
        self._emulation = emulation
        self._mode = mode
        self._reads: dict[tuple[str, int], int] = {}
        self._unwritten: dict[str, object] = {}
        """Path → what the program wanted to save there."""

    def answers(self, func: Any, args: tuple[Any, ...]) -> bool:
        """Return whether ``func`` reads the content of a tensor that has none."""
        is_read = func is _READ or func in _TRUTHS
        return is_read and TracingContext.try_get() is None and any(map(self.is_empty, args))

    def is_empty(self, value: object) -> bool:
        fake = require("torch._subclasses.fake_tensor", "FakeTensor")
        return isinstance(value, fake) and getattr(value, "fake_mode", None) is self._mode

    def answer(self, func: Any, args: tuple[Any, ...]) -> object:
        """Return the placeholder for what ``func`` reads."""
        value = _TRUTHS[func] if func in _TRUTHS else self._value(args[0])
        return self._noted(value)

    def _value(self, tensor: torch.Tensor) -> object:
        if tensor.dtype is torch.bool:
            return getattr(tensor, "_fx_explorer_truth", False)
        if tensor.dtype.is_complex:
            return 1 + 0j
        if tensor.dtype.is_floating_point:
            return 1.0
        return 1

    def follow(self, func: Any, args: tuple[Any, ...], result: object) -> None:
        """Keep what is known of a truth, whatever the content: ``isfinite`` and ``isnan`` come here
        as comparisons of a tensor with itself and with infinity.
        """
        if not isinstance(result, torch.Tensor) or result.dtype is not torch.bool:
            return
        truth = _truth(func, args)
        if truth is not None:
            result._fx_explorer_truth = truth

    def _noted(self, value: object) -> object:
        place = users_place()
        if place is not None:
            reads = self._reads[place] = self._reads.get(place, 0) + 1
            self._emulation.stand_in(Placeholder(*place, repr(value)))
            if reads > MOST_READS:
                raise EndlessReadError(
                    f"{place[0]}:{place[1]} has read a number off a tensor on the virtual GPU "
                    f"{MOST_READS:,} times: such a tensor has no content, and the number is always "
                    f"{value!r}. A loop that waits for another value does not end: leave "
                    "it out for this run."
                )
        return value

    def install(self) -> None:
        """Replace the methods of fake tensors that read memory, for tensors of our mode."""
        fake = require("torch._subclasses.fake_tensor", "FakeTensor")
        for name, answer in (
            ("numpy", self._numpy),
            ("tolist", self._tolist),
            ("__format__", self._formatted),
        ):
            setattr(fake, name, self._for_ours(getattr(fake, name), answer))

        torch.save, torch.load = self._saving(torch.save), self._loading(torch.load)

    def _saving(self, original: Callable[..., None]) -> Callable[..., None]:
        """Write nothing where tensors have no content, as the file may be that of an earlier
        run.
        """

        @functools.wraps(original)
        def save(obj: object, f: Any, *args: Any, **kwargs: Any) -> None:
            if not self._holds_empty(obj):
                return original(obj, f, *args, **kwargs)
            if isinstance(f, str | os.PathLike):
                self._unwritten[os.path.abspath(f)] = obj
            self._emulation.leave_unsaved(users_place() or ("", 0))
            return None

        return save

    def _loading(self, original: Callable[..., object]) -> Callable[..., object]:
        """Return what was to be saved in a file before, where it was not written."""

        @functools.wraps(original)
        def load(f: Any, *args: Any, **kwargs: Any) -> object:
            path = os.path.abspath(f) if isinstance(f, str | os.PathLike) else ""
            if path in self._unwritten:
                return self._unwritten[path]
            return original(f, *args, **kwargs)

        return load

    def _holds_empty(self, obj: object) -> bool:
        for leaf in torch.utils._pytree.tree_leaves(obj):
            held = leaf.state_dict().values() if isinstance(leaf, torch.nn.Module) else (leaf,)
            if any(map(self.is_empty, held)):
                return True
        return False

    def _for_ours(
        self, original: Callable[..., Any], answer: Callable[..., Any]
    ) -> Callable[..., Any]:
        @functools.wraps(original)
        def method(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            is_ours = TracingContext.try_get() is None and self.is_empty(tensor)
            called = answer if is_ours else original
            return called(tensor, *args, **kwargs)

        return method

    def _filled(self, tensor: torch.Tensor) -> torch.Tensor:
        sizes = tuple(tensor.shape)
        if not all(type(size) is int for size in sizes):
            raise NoContentError(f"the shape {sizes} depends on the content of a tensor")
        value: Any = self._noted(self._value(tensor))
        return torch.full(sizes, value, dtype=tensor.dtype, device="cpu")

    def _numpy(self, tensor: torch.Tensor, *, force: bool = False) -> Any:
        return self._filled(tensor).numpy()

    def _tolist(self, tensor: torch.Tensor) -> Any:
        return self._filled(tensor).tolist()

    def _formatted(self, tensor: torch.Tensor, spec: str) -> str:
        if tensor.dim() == 0 and spec:
            return format(self._noted(self._value(tensor)), spec)
        return format(repr(tensor), spec)


def _truth(func: Any, args: tuple[Any, ...]) -> bool | None:
    """Return the truth that the result of an operator has whatever the content; None where it
    depends on it. The content of a tensor is finite.
    """
    if func in _SAME and len(args) == 2 and args[0] is args[1]:
        return bool(func is _aten.eq.Tensor)
    if func in _COMPARED and args[1] in (float("inf"), float("-inf")):
        return bool(func is _aten.ne.Scalar)
    if func is _aten.isnan.default:
        return False
    known = {getattr(arg, "_fx_explorer_truth", None) for arg in args if _is_truth(arg)}
    if len(known) != 1:
        return None
    (truth,) = known
    if func in _KEEPS:
        return truth
    if func in _NEGATES and truth is not None:
        return not truth
    return None


def _is_truth(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype is torch.bool
