"""The number and the colour of a kernel. The number is that of its row in the session, so it never
changes; colours take turns, so that kernels that follow one another differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer.tui.widgets.line_painter import Piece

COLOURS = 8
"""Kinds ``kernel-0`` … of palette.py; every eighth kernel has the same."""

MOST_NUMBERS = 2
"""So many numbers stand side by side. Of more kernels the first is named, the others are counted."""


def kernel_kind(kernel: int) -> str:
    """Return the kind of text that a kernel is written in."""
    return f"kernel-{(kernel - 1) % COLOURS}"


def kernel_number(kernel: int) -> Piece:
    return str(kernel), kernel_kind(kernel)


def kernel_numbers(kernels: Sequence[int]) -> list[Piece]:
    """Return the numbers of some kernels, each in its colour: ``3``, ``3 7``, ``3 +4``."""
    if len(kernels) > MOST_NUMBERS:
        return [kernel_number(kernels[0]), (f" +{len(kernels) - 1}", "muted")]
    pieces: list[Piece] = []
    for kernel in kernels:
        pieces += [(" ", "muted")] * bool(pieces) + [kernel_number(kernel)]
    return pieces
