"""Functions of which it was written beforehand why Inductor compiles them for a GPU as it does; the
expectations are in expected.py.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

torch.set_grad_enabled(False)


def multiplied(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x @ weight


def multiplied_integers(i: torch.Tensor) -> torch.Tensor:
    return torch.mm(i, i)


def convolved_after_relu(image: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
    return F.conv2d(image.relu(), filters, padding=1)


def summed(x: torch.Tensor) -> torch.Tensor:
    return x.sum()


def summed_rows(x: torch.Tensor) -> torch.Tensor:
    return x.sum(1)


@torch.library.custom_op(
    "planted::doubled", mutates_args=(), tags=(torch.Tag.needs_contiguous_strides,)
)
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@doubled.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def opaque(x: torch.Tensor) -> torch.Tensor:
    return doubled(x.t())


def sorted_long(x: torch.Tensor) -> torch.Tensor:
    return torch.sort(x.flatten()).values


def both_orders(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x + weight.t()


SQUARE = torch.randn(1024, 1024)
INTEGERS = torch.randint(0, 9, (256, 256), dtype=torch.int32)
IMAGE = torch.randn(8, 128, 28, 28)
FILTERS = torch.randn(128, 128, 3, 3)

CALLS = (
    (multiplied, SQUARE, SQUARE),
    (multiplied_integers, INTEGERS),
    (convolved_after_relu, IMAGE, FILTERS),
    (summed, SQUARE),
    (summed_rows, SQUARE),
    (opaque, SQUARE),
    (sorted_long, SQUARE),
    (both_orders, SQUARE, SQUARE),
)


def all_calls() -> None:
    for function, *arguments in CALLS:
        torch.compile(function, dynamic=False)(*arguments)


if __name__ == "__main__":
    all_calls()
