"""Kernels and regions have numbers and colours that are the same in every pane.

The number of a kernel is that of its row in the session, so it never changes; colours take turns,
so that kernels that follow one another differ. A region's colour stands beside its name, and each
region of the session has another one as long as there are enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from zlib import crc32

from fx_explorer.analysis.annotated_regions import named_annotations
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.regions import every_annotation

NumberPiece = tuple[str, str]
"""A text and the kind it is written in."""

KERNEL_COLOURS = 8
"""Kinds ``kernel-0`` … of theme.py; every eighth kernel has the same."""

MORE = "+"
"""Sign after the number of the first of several kernels."""


def kernel_kind(kernel: int) -> str:
    """Return the kind of text that a kernel is written in."""
    return f"kernel-{(kernel - 1) % KERNEL_COLOURS}"


def kernel_number(kernel: int) -> NumberPiece:
    return str(kernel), kernel_kind(kernel)


def kernel_numbers(kernels: Sequence[int]) -> NumberPiece:
    """Return the number of a kernel, in its colour; for several kernels the first one's, with a
    plus: ``3+``. It is one piece, because each costs time in every painted row.
    """
    if not kernels:
        return "", "muted"
    number, kind = kernel_number(kernels[0])
    if len(kernels) > 1:
        number += MORE
    return number, kind


REGION_COLOURS = 10
"""Number of kinds ``region-0`` … of theme.py; if there are more regions, some share one."""

SEGMENT = "segment "


class RegionColours:
    """Gives each name a kind of the palette. A name always has the same colour, unless another
    region of the session has that already.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._kinds: dict[str, str] = {}
        self._free = set(range(REGION_COLOURS))
        for name in sorted(set(names)):
            self.kind(name)

    def kind(self, name: str) -> str:
        if name not in self._kinds:
            slot = _colour_alone(name)
            while slot not in self._free:
                slot = (slot + 1) % REGION_COLOURS
            self._free.discard(slot)
            self._free = self._free or set(range(REGION_COLOURS))
            self._kinds[name] = f"region-{slot}"
        return self._kinds[name]


def _colour_alone(name: str) -> int:
    """Return the colour that a name has where it is alone. Segments, which are numbered, take
    turns.
    """
    number = name.removeprefix(SEGMENT)
    if name.startswith(SEGMENT) and number.isdecimal():
        return (int(number) - 1) % REGION_COLOURS
    # Not hash(), which is another one in each process.
    return crc32(name.encode(errors="replace")) % REGION_COLOURS


def colours_of(reader: SessionReader) -> RegionColours:
    """Return the colours of the regions that are annotated in a session."""
    regions: list[str] = []
    for annotated in every_annotation(reader):
        regions += [name for _, name in named_annotations(annotated)]
    return RegionColours(regions)
