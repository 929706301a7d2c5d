"""This module has programs whose tensors are unusual: subclasses, modes, views, aliases, and
objects that hold them with other things.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map


class Wrapper(torch.Tensor):
    """Wrapper is a wrapper subclass without a ``__repr__``: printing a fake one runs operators on
    it, and fails.
    """

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            dtype=inner.dtype,
            device=inner.device,
            requires_grad=inner.requires_grad,
        )

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    def __tensor_flatten__(self) -> Any:
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(
        inner: dict[str, torch.Tensor], context: Any, size: Any, stride: Any
    ) -> Any:
        return Wrapper(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def unwrap(value: Any) -> Any:
            return value.inner if isinstance(value, Wrapper) else value

        made = func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {}))
        return tree_map(
            lambda value: Wrapper(value) if isinstance(value, torch.Tensor) else value, made
        )


class Tall(Wrapper):
    """Tall is a tensor subclass whose ``__repr__`` raises."""

    def __repr__(self) -> str:  # type: ignore[override]
        raise RuntimeError("nobody may look at me")


class Counting(torch.Tensor):
    """Counting counts the calls that pass ``__torch_function__``."""

    seen: list[int] = []  # noqa: RUF012 - no attribute of the class, which Dynamo does not set

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Counting.seen.append(1)
        return super().__torch_function__(func, types, args, kwargs or {})


class Secretive(torch.Tensor):
    """Raises for every attribute that is read through ``__torch_function__``, except where its
    program asks for it.
    """

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") == "__get__" and func.__self__ not in (
            torch.Tensor.grad_fn,
            torch.Tensor.shape,
        ):
            raise RuntimeError(f"{func} is private")
        return super().__torch_function__(func, types, args, kwargs or {})


def wrapper_without_repr() -> Any:
    @torch.compile
    def f(x: Any, y: Any) -> Any:
        z = x * 2 + y
        z = torch.sin(z)
        w = z + x
        return torch.relu(w) * 3

    return f(Wrapper(torch.randn(8)), Wrapper(torch.randn(8))).inner


def wrapper_whose_repr_raises() -> Any:
    @torch.compile
    def f(x: Any) -> Any:
        return (x.sin() + 1) * x

    return f(Tall(torch.randn(8, 4))).inner


def wrapper_with_gradient() -> Any:
    @torch.compile
    def f(x: Any, weight: Any) -> Any:
        return (x @ weight).relu().sum()

    weight = torch.randn(4, 4, requires_grad=True)
    f(Wrapper(torch.randn(8, 4)), weight).backward()
    return weight.grad.inner if isinstance(weight.grad, Wrapper) else weight.grad


def wrapper_made_inside() -> Any:
    @torch.compile
    def f(x: Any) -> Any:
        return Wrapper(x * 2) + 1

    return f(torch.randn(5)).inner


def torch_function_subclass() -> Any:
    @torch.compile
    def f(x: Any) -> Any:
        return x.sin() + x.cos()

    Counting.seen.clear()
    made = f(torch.randn(6).as_subclass(Counting))
    return made.as_subclass(torch.Tensor), len(Counting.seen)


def torch_function_that_refuses() -> Any:
    @torch.compile
    def f(x: Any) -> Any:
        return torch.add(x, 1)

    with contextlib.suppress(RuntimeError):
        return f(torch.randn(6).as_subclass(Secretive)).as_subclass(torch.Tensor)
    return "refused"


def torch_function_mode() -> Any:
    class Doubling(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            made = func(*args, **(kwargs or {}))
            return made * 2 if func is torch.sin else made

    @torch.compile
    def f(x: Any) -> Any:
        return torch.sin(x) + 1

    with Doubling():
        return f(torch.ones(3))


def dispatch_mode_around_compiled() -> Any:
    seen: list[str] = []

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    compiled = torch.compile(lambda x: x.sin() + 1)
    with Watching():
        made = compiled(torch.ones(3))
    return made, "aten.sin.default" in seen


def dispatch_mode_inside() -> Any:
    class Quiet(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    @torch.compile
    def f(x: Any) -> Any:
        with Quiet():
            y = x + 1
        return y * 2

    return f(torch.ones(3))


def in_place_and_views() -> Any:
    @torch.compile
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        top = x[:2]
        top.mul_(3)
        return top, x.t(), y.view(-1)

    x, y = torch.ones(4, 4), torch.ones(2, 3)
    return *f(x, y), x


def aliased_inputs() -> Any:
    @torch.compile
    def f(a: Any, b: Any) -> Any:
        a.mul_(2)
        return a + b

    base = torch.arange(8.0)
    return f(base[:6], base[2:]), f(base[:4], base[4:])


def outputs_that_are_inputs() -> Any:
    @torch.compile
    def f(x: Any, y: Any) -> Any:
        return x, y, x + y, x.detach(), y[0]

    x = torch.randn(3, 3, requires_grad=True)
    made = f(x, torch.ones(3, 3))
    return made[0] is x, made[2]


def sparse_and_complex() -> Any:
    @torch.compile
    def f(x: Any, z: Any) -> Any:
        return torch.fft.fft(x).abs() + (z * z).real

    return f(torch.randn(8), torch.randn(8, dtype=torch.complex64))


def strange_strides() -> Any:
    @torch.compile
    def f(x: Any) -> Any:
        return x.contiguous(memory_format=torch.channels_last) * 2 + x.flip(0)

    return f(torch.randn(2, 3, 4, 5).permute(0, 2, 1, 3))


def small_dtypes() -> Any:
    @torch.compile
    def f(x: Any, n: Any) -> Any:
        return (x.to(torch.bfloat16) * 2).float(), (n + 200).to(torch.uint8), x > 0

    return f(torch.randn(7), torch.arange(7, dtype=torch.uint8))


def empty_and_scalar() -> Any:
    @torch.compile
    def f(x: Any, y: Any) -> Any:
        return x.sum(), y + 1, torch.cat([x, x])

    return f(torch.empty(0, 3), torch.tensor(2.5))


def parameter_subclass() -> Any:
    class Named(nn.Parameter):
        def __repr__(self) -> str:  # type: ignore[override]
            raise ValueError("no")

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = Named(torch.randn(4, 4))

        def forward(self, x: Any) -> Any:
            return x @ self.weight

    layer = Layer()
    torch.compile(layer)(torch.randn(2, 4)).sum().backward()
    return layer.weight.grad


def large_constant() -> Any:
    table = torch.arange(10_000.0)

    @torch.compile
    def f(x: Any) -> Any:
        return x + table[:5] + torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])

    return f(torch.randn(5))
