"""This module has one small function for each kind of graph break, named by its id in torch's
``_dynamo/graph_break_registry.json``.

``PATTERNS`` are called with two tensors of three numbers. Each breaks on the line that says so.
"""

from __future__ import annotations

import contextlib
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

logger = logging.getLogger(__name__)


class Lock:
    """A context manager that Dynamo may trace, though not break inside of."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


class Counter:
    count = 0


@torch.compiler.disable
def disabled(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def inner(x: torch.Tensor) -> torch.Tensor:
    x = x.sin()
    torch._dynamo.graph_break()  # GB0025, two calls down
    return x.cos()


def middle(x: torch.Tensor) -> torch.Tensor:
    return inner(x + 1) * 2


def numbers(x: torch.Tensor) -> Iterator[torch.Tensor]:
    yield x + 1
    yield x + 2


@contextlib.contextmanager
def scaled() -> Iterator[float]:
    yield 2.0


def gb0007_call_into_c(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x + 1
    time.sleep(0)  # breaks
    return x * y


def gb0025_asked_for(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x + 1
    torch._dynamo.graph_break()  # breaks
    return x * y


def gb0025_two_calls_down(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return middle(x) + y  # breaks in inner()


def gb0025_in_a_with_block(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x + 1
    with Lock():
        torch._dynamo.graph_break()  # breaks
        return x * y


def gb0025_in_a_loop(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = x + y
        torch._dynamo.graph_break()  # breaks
    return x


def gb0025_in_a_try_block(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x + 1
    try:
        torch._dynamo.graph_break()  # breaks
        x = x * y
    finally:
        x = x + 2
    return x


def gb0036_output_size_depends_on_data(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    found = torch.nonzero(x > 0)  # breaks
    return found.sum() + y


def gb0036_mask(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x[x > 0].sum() + y  # breaks


def gb0036_unique(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.unique(x).sum() + y  # breaks


def gb0059_print(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x + 1
    print("x is", x.shape)  # breaks
    return x * y


def gb0088_uncaught_exception(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x + 1
    try:
        return fails(x)
    except ValueError:
        return x * y


def fails(x: torch.Tensor) -> torch.Tensor:
    torch._dynamo.graph_break()  # breaks
    raise ValueError(x.shape)


def gb0098_disabled_function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x * 2
    x = disabled(x)  # breaks
    return x * y


def gb0107_random_in_place(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x).random_(1, to=3)  # breaks
    return z + y


def gb0109_tolist(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    values = x.tolist()  # breaks
    return y * values[0]


def gb0123_backward(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    weight = x.detach().requires_grad_()
    (weight * y).sum().backward()  # breaks
    return y + 1


def gb0124_item(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    scale = x.sum().item()  # breaks
    return y * scale


def gb0124_int(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    count = int(x.sum())  # breaks
    return y * count


def gb0126_resize(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x + 1
    z.resize_(1)  # breaks
    return z + y


def gb0170_branch_on_data(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:  # breaks
        return x + y
    return x - y


def gb0170_while_on_data(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    while x.sum() < 10:  # breaks
        x = x + y.abs() + 1
    return x


def gb0170_and_on_data(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + 1 if (x.sum() > 100 and y.sum() > 0) else x + y  # breaks


def gb9316_id(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x + 1
    return y if id(z) == 0 else z  # breaks


def gb0291_logging(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x + 1
    logger.warning("x is %s", x.shape)  # breaks
    return x * y


def gb0142_open(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x + 1
    with open(__file__) as file:  # breaks
        return x * y + len(file.name)


def gb0007_warning(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x + 1
    warnings.warn("x is what it is", stacklevel=2)  # breaks
    return x * y


def gb0250_numpy(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    kept = x.numpy().astype(object)  # breaks
    return y * float(kept[0])


def gb4297_frame_left_out(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    torch._dynamo.skip_frame()  # breaks
    return x * y


def gb0246_one_hot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.one_hot(x.long()).sum() + y  # breaks


def gb0110_uniform(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x).uniform_(**{"from": 0.0})  # breaks
    return z * y


def gb0015_sparse_tensor(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.sparse_coo_tensor([[0, 1, 2]], x)  # breaks
    return z.to_dense() + y


def gb7650_random_generator(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    seeded = torch.Generator().manual_seed(3)  # breaks
    return torch.rand(3, generator=seeded) + x * y


def gb0277_sparse(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x + 1).to_sparse().to_dense() + y  # breaks


def gb0170_assertion(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with Lock():
        assert x.sum() > 0, x.shape  # breaks
        return x + y


def generator(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return sum(numbers(x)) + y


Pattern = Callable[[torch.Tensor, torch.Tensor], Any]

PATTERNS: dict[str, Pattern] = {
    name: value for name, value in vars().copy().items() if name.startswith("gb")
}
