"""This module has the contents of the boxes of a graph: their parts, arranged in rows when they are
drawn. The content of a box is arranged once, however many boxes have the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from fx_explorer.drawing.layered_graph import Layers, layers


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation in the content of a box."""

    label: str
    """What it does: ``aten.mul``; of an input its opcode."""


@dataclass(frozen=True, slots=True)
class ModuleBox:
    """A module in the content of another box, or several with the same content."""

    names: tuple[str, ...]
    """Name in the enclosing box, of each of them; empty text for neighbours without a module."""
    type: str
    """Class of the module; for neighbours without a module how many there are."""
    content: int
    """Number of the content."""


Part = Operation | ModuleBox


@dataclass(frozen=True)
class Content:
    """What a box shows when it is open."""

    parts: Sequence[Part]
    uses: Sequence[tuple[int, int]]
    """Producer and consumer of each use of a value, by the numbers of the parts from 1. Number 0 is
    where values come in, and the number after the last part is where they leave.
    """
    operations: int
    """Operations in it and in all boxes in it; of each of several boxes with one content."""
    boxes: int
    """Boxes in it, counted like that. Several with one content count for one more: the pile."""
    counts: Counter[str]
    """Label of an operation → how often it is in it and in all boxes in it."""

    @cached_property
    def layers(self) -> Layers:
        """Return the rows of the parts. Raises ImportError where networkx is not installed."""
        # The place where values come in runs first, and so has the first number here.
        return layers(len(self.parts) + 2, self.uses)


class Contents:
    """Contents of boxes, each distinct one once. Graphs of one session share them."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self.all: list[Content] = []

    def number(
        self,
        parts: Sequence[Part],
        edges: Iterable[tuple[int, int]],
        entering: Iterable[int],
        leaving: Iterable[int],
    ) -> int:
        """Return the number of a content. ``entering`` are the parts that use values from outside,
        ``leaving`` those whose values are used outside.
        """
        key = (tuple(parts), frozenset(edges), frozenset(entering), frozenset(leaving))
        if key not in self._numbers:
            self._numbers[key] = len(self.all)
            self.all.append(self._content(*key))
        return self._numbers[key]

    def _content(
        self,
        parts: tuple[Part, ...],
        edges: frozenset[tuple[int, int]],
        entering: frozenset[int],
        leaving: frozenset[int],
    ) -> Content:
        every = [(producer + 1, consumer + 1) for producer, consumer in edges]
        every += [(0, part + 1) for part in entering]
        every += [(part + 1, len(parts) + 1) for part in leaving]
        operations = boxes = 0
        counts: Counter[str] = Counter()
        for part in parts:
            if isinstance(part, Operation):
                operations += 1
                counts[part.label] += 1
                continue
            inside = self.all[part.content]
            operations += inside.operations * len(part.names)
            boxes += (1 + inside.boxes) * len(part.names) + (len(part.names) > 1)
            for label, count in inside.counts.items():
                counts[label] += count * len(part.names)
        return Content(parts, every, operations, boxes, counts)
