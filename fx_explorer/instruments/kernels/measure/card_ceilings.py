"""Measure the most that this card does: bytes per second of plain copies, operations per second of
large matrix products.

Data sheets give peaks that no program reaches. What a kernel does is compared with what the same
card was measured to do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch

from fx_explorer.errors import UsageError
from fx_explorer.instruments.kernels.measure.kernel_timing import timed_alone
from fx_explorer.model import CardCeiling, CeilingKind

COPIED_BYTES = 1 << 30
PART_OF_MEMORY = 16
"""A card that is small or in use copies at most this part (1/16) of its free memory."""

SIZE = 8192
"""Size of the square matrices: 1.1e12 operations, enough for any card to reach its best."""

PRODUCTS: dict[CeilingKind, tuple[torch.dtype, str]] = {
    "fp32": (torch.float32, "highest"),
    "tf32": (torch.float32, "high"),
    "bf16": (torch.bfloat16, "highest"),
    "fp16": (torch.float16, "highest"),
}
"""Kind → type of the matrices, and ``torch.set_float32_matmul_precision``."""


def check_gpu() -> str:
    """Return the name of the GPU. Raises UsageError where torch can use none."""
    if not torch.cuda.is_available():
        raise UsageError(
            f"There is no GPU here that torch {torch.__version__} can use, and a kernel "
            "can only be measured on one. "
            "Without it there is the estimate."
        )
    return torch.cuda.get_device_name()


def ceilings_of(device: str, say: Callable[[str], None]) -> tuple[CardCeiling, ...]:
    """Measure all ceilings, which takes about two seconds."""
    say(f"measuring what {device} can do: copies")
    ceilings = [_memory(device)]
    for kind, (dtype, precision) in PRODUCTS.items():
        say(f"measuring what {device} can do: {kind} matrix products")
        with _precision(precision):
            ceilings.append(_product(device, kind, dtype))
    return tuple(ceilings)


def _memory(device: str) -> CardCeiling:
    """Return the better of a copy and ``a = b + 2 c``."""
    size = min(COPIED_BYTES, torch.cuda.mem_get_info()[0] // PART_OF_MEMORY) // 4
    a, b, c = (torch.randn(size, device="cuda") for _ in range(3))
    copied = 2 * size * 4 / timed_alone(lambda: a.copy_(b)).median_s
    added = 3 * size * 4 / timed_alone(lambda: torch.add(b, c, alpha=2, out=a)).median_s
    what = f"{size * 4 / 1e9:.2f} GB of float32"
    return CardCeiling(
        0,
        device,
        "memory",
        max(copied, added),
        f"{'copy' if copied > added else 'a = b + 2 c'} of {what}",
    )


def _product(device: str, kind: CeilingKind, dtype: torch.dtype) -> CardCeiling:
    a, b = (torch.randn(SIZE, SIZE, device="cuda").to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    rate = 2 * SIZE**3 / timed_alone(lambda: torch.mm(a, b, out=out)).median_s
    return CardCeiling(
        0, device, kind, rate, f"product of two {SIZE} x {SIZE} matrices of random numbers"
    )


@contextlib.contextmanager
def _precision(wanted: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(wanted)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
