"""The colour of a region, always beside its name: the same in every pane, and another one for each
region of the session, as long as there are enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from fx_explorer.analysis.regions.annotated_regions import named_annotations
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.regions import every_annotation

COLOURS = 10
"""Kinds ``region-0`` … of palette.py; of more regions some share one."""

SEGMENT = "segment "


class RegionColours:
    """Gives each name a kind of the palette. A name has the colour of its own, unless another
    region of the session has that already.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._kinds: dict[str, str] = {}
        self._free = set(range(COLOURS))
        for name in sorted(set(names)):
            self.kind(name)

    def kind(self, name: str) -> str:
        if name not in self._kinds:
            slot = _own(name)
            while slot not in self._free:
                slot = (slot + 1) % COLOURS
            self._free.discard(slot)
            self._free = self._free or set(range(COLOURS))
            self._kinds[name] = f"region-{slot}"
        return self._kinds[name]


def _own(name: str) -> int:
    """Return the colour that a name has where it is alone. Segments, which are numbered, take
    turns.
    """
    number = name.removeprefix(SEGMENT)
    if name.startswith(SEGMENT) and number.isdecimal():
        return (int(number) - 1) % COLOURS
    # Not hash(), which is another one in each process.
    return crc32(name.encode(errors="replace")) % COLOURS


def colours_of(reader: SessionReader) -> RegionColours:
    """Return the colours of the regions that are annotated in a session."""
    return RegionColours(
        name for annotated in every_annotation(reader) for _, name in named_annotations(annotated)
    )
