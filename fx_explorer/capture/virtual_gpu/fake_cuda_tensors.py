"""This module makes tensors on ``cuda`` without content wherever the program asks for one; torch's
FakeTensor does the rest.

A tensor on the CPU stays a real one, so that data can be read and weights be loaded as usual. What
is put on ``cuda`` has only a shape and a type. Code that reads numbers off it (``.item()``, an
``if`` on it) gets placeholders; code that needs its content otherwise (``nonzero``) raises.

A training script reads numbers off its tensors to log them, to keep the best, to count what was
right. On a GPU that is not there they have no value, and the script continues with a placeholder:
1.0 for a number, 1 for an integer, which can be divided by and has a logarithm, and for a truth
False, but for what is true of any ordinary content (``isfinite``). They are plain numbers of
Python's, so that whatever takes a number takes them. Each line that reads one is recorded. Reads
are ``aten._local_scalar_dense`` and the operators that return a truth at once, seen by the dispatch
mode; and methods of the tensor that read its memory, which are replaced for fake tensors.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import torch

from fx_explorer.capture.torch_compat.private_names import (
    HigherOrderOperator,
    TorchDispatchMode,
    TracingContext,
    tree_leaves,
)
from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.capture.virtual_gpu.device_queries import (
    Emulation,
    Placeholder,
    is_users,
    users_place,
)
from fx_explorer.capture.virtual_gpu.not_possible import chain

NO_VALUE = (
    "DataDependentOutputException",
    "GuardOnDataDependentSymNode",
    "DynamicOutputShapeException",
    "NoContentError",
)
"""Exceptions of torch when the content of a fake tensor is asked for
(torch/_subclasses/fake_tensor.py), and ours.
"""

_kept: list[Any] = []


def allow_cuda_tensors(emulation: Emulation) -> None:
    """Allow the device ``cuda`` from now on in this thread; the simplest ways of making a tensor
    work in all threads.
    """
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    fake_tensor_mode = require("torch._subclasses.fake_tensor", "FakeTensorMode")
    maker = FakeTensorMaker(
        emulation, fake_tensor_mode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    )
    library = torch.library.Library("aten", "IMPL")
    library.impl("empty.memory_format", maker.empty, "CUDA")
    library.impl("empty_strided", maker.empty_strided, "CUDA")
    library.impl("copy_", maker.copy_, "CUDA")
    placeholders = Placeholders(emulation, maker.mode)
    placeholders.install()
    mode = CudaIsFake(maker, placeholders)
    mode.__enter__()
    torch.utils.swap_tensors = _swapping_referenced(require("torch.utils", "swap_tensors"))
    scaler = require("torch.amp.grad_scaler", "GradScaler")
    scaler._maybe_opt_step = _stepping_always(scaler._maybe_opt_step)
    draw_nothing()
    # An implementation goes when its library does.
    _kept.extend((library, mode))


class _NoReferences:
    """Replaces the module ``weakref``, and finds no references to a tensor."""

    @staticmethod
    def getweakrefs(tensor: torch.Tensor) -> list[object]:
        return []


def _swapping_referenced(original: Callable[..., None]) -> Callable[..., None]:
    """Swap fake parameters in ``Module.to()``, which torch refuses if its own converter holds weak
    references to them.
    """

    @functools.wraps(original)
    def swap_tensors(one: torch.Tensor, other: torch.Tensor) -> None:
        if not isinstance(one, require("torch._subclasses.fake_tensor", "FakeTensor")):
            return original(one, other)
        before, torch.utils.weakref = torch.utils.weakref, _NoReferences
        try:
            return original(one, other)
        finally:
            torch.utils.weakref = before

    return swap_tensors


def _stepping_always(original: Callable[..., Any]) -> Callable[..., Any]:
    """Have ``GradScaler.step()`` always step. It leaves out the optimizer when a gradient has
    overflowed, and fake gradients never have.
    """

    @functools.wraps(original)
    def _maybe_opt_step(
        scaler: Any, optimizer: Any, state: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        overflows = state["found_inf_per_device"].values()
        if any(overflow.is_cuda for overflow in overflows):
            return optimizer.step(*args, **kwargs)
        return original(scaler, optimizer, state, *args, **kwargs)

    return _maybe_opt_step


class FakeTensorMaker:
    """Makes the fake tensors, all of one mode."""

    def __init__(self, emulation: Emulation, mode: Any) -> None:
        self.emulation = emulation
        self.mode = mode

    def notice(self) -> None:
        """Record that the program itself has put a tensor on the GPU. torch's own tensors during
        compilation do not count.
        """
        if self.emulation.compilations_open or TracingContext.try_get() is not None:
            return
        if self.emulation.mode != "fake":
            self.emulation.become_fake(f"the program itself puts tensors on cuda{users_line()}")

    # where C++ makes a tensor: below the dispatch mode, which is not there in every thread

    def empty(
        self, size: Any, *, dtype: Any = None, memory_format: Any = None, **_: Any
    ) -> torch.Tensor:
        self.notice()
        return self._fake(
            torch.empty(
                size,
                dtype=dtype,
                device="meta",
                memory_format=memory_format or torch.contiguous_format,
            )
        )

    def empty_strided(self, size: Any, stride: Any, *, dtype: Any = None, **_: Any) -> torch.Tensor:
        self.notice()
        return self._fake(torch.empty_strided(size, stride, dtype=dtype, device="meta"))

    def copy_(
        self, to: torch.Tensor, source: torch.Tensor, non_blocking: bool = False
    ) -> torch.Tensor:
        """Copy nothing. ``torch.tensor([1, 2], device="cuda")`` fills a tensor in this way, with
        fake tensors switched off.
        """
        return to

    def _fake(self, meta: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = require("torch._subclasses.fake_tensor", "FakeTensor")(
            self.mode, meta, torch.device("cuda", 0)
        )
        return made


class CudaIsFake(TorchDispatchMode):
    """A dispatch mode in which every tensor created on cuda is fake. torch's own fake modes do
    their own work.
    """

    supports_higher_order_operators = True

    def __init__(self, maker: FakeTensorMaker, placeholders: Placeholders) -> None:
        super().__init__()
        self._maker = maker
        self._placeholders = placeholders

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True  # otherwise Dynamo would compile nothing under this mode

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _fake_mode_in_force():
            return func(*args, **kwargs)
        if not (_makes_on_cuda(kwargs) or _is_for_fake_mode(func, args, kwargs)):
            if self._placeholders.answers(func, args):
                return self._placeholders.answer(func, args)
            result = func(*args, **kwargs)
            self._placeholders.follow(func, args, result)
            return result
        self._maker.notice()
        with self._maker.mode:
            return func(*args, **kwargs)


def _makes_on_cuda(kwargs: dict[str, Any]) -> bool:
    device = kwargs.get("device")
    if device is None or torch.device(device).type != "cuda":
        return False
    # None and 0 both stand for the one there is.
    if torch.device(device).index:
        raise RuntimeError(
            f"there is one virtual GPU, cuda:0, and no {device}: use cuda:0 for this run"
        )
    return True


def _is_for_fake_mode(func: Any, args: Any, kwargs: Any) -> bool:
    """Return whether this is a higher-order operator on a fake tensor, which needs a
    FakeTensorMode; a fake tensor alone is not enough (for a Triton kernel in torch 2.11).
    """
    if not isinstance(func, HigherOrderOperator):
        return False
    fake = require("torch._subclasses.fake_tensor", "FakeTensor")
    return any(isinstance(leaf, fake) for leaf in tree_leaves((args, kwargs)))


def _fake_mode_in_force() -> bool:
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None


def users_line() -> str:
    """Return `` (model.py:12)``: the innermost running line of the user's own code."""
    place = users_place()
    if not place:
        return ""
    return f" ({place[0]}:{place[1]})"


def without_weights(emulation: Emulation, reason: str) -> None:
    """Put tensors on the GPU from now on if the program names no device for them, so that they take
    no memory.
    """
    emulation.puts_everything_there = True
    emulation.become_fake(reason)
    torch.set_default_device("cuda")


def missing_value(error: BaseException) -> str:
    """Return an explanation if the program ended because it needed the content of a fake tensor;
    empty for another error.
    """
    if not any(type(base_exception).__name__ in NO_VALUE for base_exception in chain(error)):
        return ""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)
    ]
    if frames:
        place = f" at {frames[-1].filename}:{frames[-1].lineno} `{frames[-1].line}`"
    else:
        place = ""
    return (
        f"the program reads the content of a tensor on the virtual GPU{place}: it has a shape but "
        "no content, so the program cannot continue; what was compiled before is kept. Remove "
        "that line for this run, or keep the program on the CPU, where its values are real and "
        "its graphs are compiled for the virtual GPU. It happened"
    )


# ``trunc_normal_`` is skipped for tensors without content: it would draw values again while any is
# out of bounds.


def draw_nothing() -> None:
    """Skip drawing random numbers for a tensor without content. Hook: ``_no_grad_trunc_normal_``
    (torch/nn/init.py).
    """
    original = require("torch.nn.init", "_no_grad_trunc_normal_")

    @functools.wraps(original)
    def trunc_normal(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        has_no_content = isinstance(tensor, require("torch._subclasses.fake_tensor", "FakeTensor"))
        drawn: torch.Tensor = tensor if has_no_content else original(tensor, *args, **kwargs)
        return drawn

    sys.modules["torch.nn.init"]._no_grad_trunc_normal_ = trunc_normal  # type: ignore[attr-defined]


# Numbers in place of content.


MOST_READS = 100_000
"""Number of reads of one line after which the program is ended, since it waits for a value that
never comes.
"""


class EndlessReadError(RuntimeError):
    """A line has repeatedly read a tensor without content."""


class NoContentError(RuntimeError):
    """Raised when the program needs the content of a tensor, and no placeholder can replace it."""


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
    """Returns placeholders when a program reads tensors without content."""

    def __init__(self, emulation: Emulation, mode: Any) -> None:
        self._emulation = emulation
        self._mode = mode
        self._reads: dict[tuple[str, int], int] = {}
        self._unwritten: dict[str, object] = {}
        """Path → the object that the program tried to save there."""

    def answers(self, func: Any, args: tuple[Any, ...]) -> bool:
        """Return whether ``func`` reads the content of a tensor that has none."""
        is_read = func is _READ or func in _TRUTHS
        return is_read and TracingContext.try_get() is None and any(map(self.is_empty, args))

    def is_empty(self, value: object) -> bool:
        fake = require("torch._subclasses.fake_tensor", "FakeTensor")
        return isinstance(value, fake) and getattr(value, "fake_mode", None) is self._mode

    def answer(self, func: Any, args: tuple[Any, ...]) -> object:
        """Return the placeholder for the value that ``func`` reads."""
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
        """Store the truth value of a boolean result that is the same for any content. ``isfinite``
        and ``isnan`` arrive here as comparisons of a tensor with itself and with infinity.
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
                    f"{place[0]}:{place[1]} has read a number from a tensor on the virtual GPU "
                    f"{MOST_READS:,} times: such a tensor has no content, and the number is "
                    f"always {value!r}. A loop that waits for another value does not end: remove "
                    "it for this run."
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
        """Write nothing if tensors have no content, because the file may be from an earlier run."""

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
        """Return the object of an earlier ``torch.save`` to this file that was not written."""

        @functools.wraps(original)
        def load(f: Any, *args: Any, **kwargs: Any) -> object:
            path = os.path.abspath(f) if isinstance(f, str | os.PathLike) else ""
            if path in self._unwritten:
                return self._unwritten[path]
            return original(f, *args, **kwargs)

        return load

    def _holds_empty(self, obj: object) -> bool:
        for leaf in tree_leaves(obj):
            if isinstance(leaf, torch.nn.Module):
                held = leaf.state_dict().values()
            else:
                held = (leaf,)
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
    """Return the result of a boolean operator if it is the same for any content of its tensors;
    None if it depends on the content. Contents are assumed to be finite.
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
