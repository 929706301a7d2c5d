"""Numbers and colours of kernels. A number is that of the kernel's row in the session, so it never
changes; colours take turns, so that kernels that follow one another differ.
"""

from __future__ import annotations

from collections.abc import Sequence

NumberPiece = tuple[str, str]
"""A text and the kind it is written in."""

COLOURS = 8
"""Kinds ``kernel-0`` … of palette.py; every eighth kernel has the same."""

MORE = "+"
"""Stands behind the number of the first of several kernels."""


def kernel_kind(kernel: int) -> str:
    """Return the kind of text that a kernel is written in."""
    return f"kernel-{(kernel - 1) % COLOURS}"


def kernel_number(kernel: int) -> NumberPiece:
    return str(kernel), kernel_kind(kernel)


def kernel_numbers(kernels: Sequence[int]) -> NumberPiece:
    """Return the number of a kernel in its colour, of several that of the first: ``3+``. It is one
    piece, because each costs time at every row that is painted.
    """
    if not kernels:
        return "", "muted"
    number, kind = kernel_number(kernels[0])
    return (number if len(kernels) == 1 else number + MORE), kind
