"""This module has a Triton kernel that another file imports, with a helper of its own and an
imported one.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def clamped(x, low: tl.constexpr, high: tl.constexpr):
    return tl.minimum(tl.maximum(x, low), high)


@triton.jit
def hard_swish(x):
    # a comment with a "quote"
    return x * clamped(x + 3.0, 0.0, 6.0) / 6.0


@triton.jit
def hard_swish_kernel(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    """x · relu6(x + 3) / 6, elementwise."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    x = tl.load(x_ptr + place, mask=inside)
    tl.store(out_ptr + place, hard_swish(x), mask=inside)
