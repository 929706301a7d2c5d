"""Functions of which it was written beforehand why Inductor compiles them for a CPU as it does; the
expectations are in expected.py.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

torch.set_grad_enabled(False)


def convolved(image: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
    return F.conv2d(image, filters, padding=1)


def multiplied(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x @ weight


def added_shorts(shorts: torch.Tensor) -> torch.Tensor:
    return shorts + shorts * 2


def bessel(x: torch.Tensor) -> torch.Tensor:
    return torch.special.bessel_j0(x) + 1


def tiny(vector: torch.Tensor) -> torch.Tensor:
    return vector.sin() + 1


def large(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def every_third(x: torch.Tensor) -> torch.Tensor:
    return x.flatten()[::3] + 1


def solved(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.qr(x).Q


def rotated(z: torch.Tensor) -> torch.Tensor:
    return z * z


def odd(vector: torch.Tensor) -> torch.Tensor:
    return vector[:37].cos() * 2


def sorted_rows(x: torch.Tensor) -> torch.Tensor:
    return torch.sort(x, 1).values


SQUARE = torch.randn(256, 256)

CALLS = (
    (convolved, torch.randn(2, 32, 28, 28), torch.randn(32, 32, 3, 3)),
    (multiplied, SQUARE, SQUARE),
    (added_shorts, torch.ones(256, 256, dtype=torch.int16)),
    (bessel, SQUARE),
    (tiny, torch.randn(64)),
    (large, SQUARE),
    (every_third, SQUARE),
    (solved, SQUARE[:64, :64]),
    (rotated, torch.randn(64, 64, dtype=torch.complex64)),
    (odd, torch.randn(64)),
    (sorted_rows, SQUARE),
)


def all_calls() -> None:
    for function, *arguments in CALLS:
        torch.compile(function, dynamic=False)(*arguments)


if __name__ == "__main__":
    all_calls()
