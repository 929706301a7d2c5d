"""Loops made few and long: what a nest of loops does stays the same, and the kernels have less to count."""

from __future__ import annotations

from collections.abc import Sequence

Strides = Sequence[tuple[int, ...]]
"""For each operand, its stride in each loop."""


def simplified(
    sizes: tuple[int, ...], strides: Strides, inner: int | None
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Return the loops without those of one round, outer ones sorted by the first operand's stride and
    merged where that is the same walk. ``inner`` loops at the end are left alone.
    """
    outer = len(sizes) - (inner or 0)
    order = [loop for loop in range(outer) if sizes[loop] != 1]
    order.sort(key=lambda loop: -strides[0][loop])
    merged = _merge([(sizes[loop], tuple(of[loop] for of in strides)) for loop in order])
    kept = [(sizes[loop], tuple(of[loop] for of in strides)) for loop in range(outer, len(sizes))]
    loops = merged + kept
    return tuple(size for size, _ in loops), [
        tuple(steps[k] for _, steps in loops) for k in range(len(strides))
    ]


def _merge(loops: list[tuple[int, tuple[int, ...]]]) -> list[tuple[int, tuple[int, ...]]]:
    """Make one loop of two neighbours where every operand goes on at the end of the inner one as the outer one does."""
    merged: list[tuple[int, tuple[int, ...]]] = []
    for size, steps in loops:
        if merged and all(
            before == size * step for before, step in zip(merged[-1][1], steps, strict=True)
        ):
            merged[-1] = (merged[-1][0] * size, steps)
        else:
            merged.append((size, steps))
    return merged
