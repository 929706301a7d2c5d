"""What crosses the borders of a segment: the values that it takes and gives, in bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.backends.parts import Part
from fx_explorer.analysis.memory.sizes import UnknownSize, shape_bytes, value_bytes

INPUTS = "the graph's inputs"
"""Where a value comes from that is given to the graph: an input, a parameter, a constant."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """A value that goes into a part, or out of it."""

    node: model.Node
    """The node that makes it."""
    size_bytes: int | None
    """None where it is not known."""
    varies: bool = False
    """Whether a size is a symbol, so that the bytes are those of the call that was captured."""
    is_given: bool = False
    """Whether it is given to the graph, and not computed in it."""


@dataclass(frozen=True, slots=True)
class Border:
    """All that goes into a part, or out of it."""

    crossings: tuple[Crossing, ...]

    @property
    def computed(self) -> tuple[Crossing, ...]:
        return tuple(one for one in self.crossings if not one.is_given)

    @property
    def given(self) -> tuple[Crossing, ...]:
        return tuple(one for one in self.crossings if one.is_given)


def size_of(crossings: Iterable[Crossing]) -> tuple[int, int]:
    """Return the bytes of the values whose size is known, and how many have none."""
    sizes = [one.size_bytes for one in crossings]
    return sum(size for size in sizes if size is not None), sizes.count(None)


def borders(
    parts: Sequence[Part], values: Mapping[int, Crossing], edges: Iterable[tuple[int, int]]
) -> list[tuple[Border, Border]]:
    """Return what goes into each part and out of it, in the order of the parts. A value counts once for
    each part that takes it. ``values`` has every value that can cross.
    """
    owner = {node: i for i, part in enumerate(parts) for node in part.nodes}
    taken: dict[int, dict[int, None]] = defaultdict(dict)
    given: dict[int, dict[int, None]] = defaultdict(dict)
    for producer, consumer in sorted(edges):
        here, there = owner.get(producer), owner.get(consumer)
        if here == there:
            continue
        if there is not None:
            taken[there][producer] = None
        if here is not None:
            given[here][producer] = None
    return [(_border(taken[i], values), _border(given[i], values)) for i in range(len(parts))]


def _border(crossing: Iterable[int], values: Mapping[int, Crossing]) -> Border:
    return Border(tuple(values[one] for one in crossing if one in values))


def crossing_of(node: model.Node, row: model.NodeSupport) -> Crossing:
    """Return a node's value as it crosses a border. Numbers take no bytes."""
    exact = _bytes_of(node)
    known = row.result_bytes if exact is None else exact
    return Crossing(
        node, known if known >= 0 else None, exact is None, not node.op.startswith("call_")
    )


def _bytes_of(node: model.Node) -> int | None:
    """Return the bytes of a node's tensors without gaps; None where a size is a symbol."""
    try:
        if node.shape is not None:
            return shape_bytes(node.dtype, node.shape, {})
        return sum(size or 0 for size in value_bytes(node.value, {}))
    except UnknownSize:
        return None
