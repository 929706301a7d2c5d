"""How fast the processors are just now for work on several threads.

Two processors of a virtual machine may lie on one core for some seconds, and other programs take turns with ours: what
runs on several threads is slower meanwhile, and what runs on one does not show it. Measured on two virtual processors, all
within one minute: a compiled ViT took 484 µs a call and then 630 µs, while a loop of Python's and a matrix product on one
thread took the same to 2 %.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

import torch

PIECE = 32_768
"""Elements of the work of one thread: torch gives each so many of an element-wise operator (``at::internal::GRAIN_SIZE``)."""

REPEATS = 3


@dataclass(frozen=True)
class Pace:
    """Seconds that one thread takes for a piece of work, and that all threads take for a piece each."""

    alone_s: float
    together_s: float

    def slower_of(self, other: Pace) -> Pace:
        """Return the one of two at which more threads were in each other's way."""
        return self if self.together_s >= other.together_s else other


def pace() -> Pace:
    """Return how fast the processors are now, with as many threads as torch takes. Takes some milliseconds."""
    pieces = torch.full((PIECE * torch.get_num_threads(),), 0.5, dtype=torch.float32, device="cpu")
    return Pace(_took_s(pieces[:PIECE]), _took_s(pieces))


def _took_s(values: torch.Tensor) -> float:
    """Return how long it takes to work on each value: a function that is all computing, and hardly any memory."""
    results, took_s = torch.empty_like(values), []
    with torch.no_grad():
        torch.asinh(values, out=results)  # wakes the threads up
        for _ in range(REPEATS):
            began = time.perf_counter()
            torch.asinh(values, out=results)
            took_s.append(time.perf_counter() - began)
    return median(took_s)
