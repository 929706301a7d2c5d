"""The most that this machine does: bytes per second of plain copies, operations per second of large
matrix products, with as many threads as the program uses.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable

import torch

from fx_explorer.model import CardCeiling, CeilingKind

CPU = "cpu"

COPIED_BYTES = 256 << 20
"""Far more than the caches of a processor hold."""

SIZE = 1024
REPEATS = 5

PRODUCTS: dict[CeilingKind, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16}


def machine_ceilings(is_gpu: bool, say: Callable[[str], None]) -> tuple[CardCeiling, ...]:
    """Measure what the device can do. It takes a second on a CPU, two on a GPU."""
    if is_gpu:
        from fx_explorer.worker.kernels.card_ceilings import ceilings_of

        return ceilings_of(torch.cuda.get_device_name(), say)
    say("measuring what this processor can do")
    return (_memory(), *(_product(kind, dtype) for kind, dtype in PRODUCTS.items()))


def _memory() -> CardCeiling:
    a, b = (torch.ones(COPIED_BYTES // 4) for _ in range(2))
    rate = 2 * COPIED_BYTES / _least_s(lambda: a.copy_(b), 1)
    return CardCeiling(0, CPU, "memory", rate, f"copy of {COPIED_BYTES / 1e9:.2f} GB of float32")


def _product(kind: CeilingKind, dtype: torch.dtype) -> CardCeiling:
    a, b = (torch.randn(SIZE, SIZE).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    rate = 2 * SIZE**3 / _least_s(lambda: torch.mm(a, b, out=out), 1)
    return CardCeiling(
        0, CPU, kind, rate, f"product of two {SIZE} x {SIZE} matrices of random numbers"
    )


def _least_s(run: Callable[[], object], number: int) -> float:
    run()
    return min(timeit.repeat(run, number=number, repeat=REPEATS)) / number
