"""This module nests the operations of an FX graph in boxes, as a drawing shows them: a box for each
module, one box for the layers of a list that have the same operations, and boxes of neighbours
where a module has very many operations of its own.

The content of a box is arranged once, however many boxes have the same: 48 layers are drawn from
one content. Operations are numbered in the order of the nested boxes, so that each box has a run of
numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from fx_explorer import model
from fx_explorer.analysis.repeated_layers import Layer, LayerDifferences, compare_layers
from fx_explorer.analysis.words import operation
from fx_explorer.drawing.box_contents import Content, Contents, ModuleBox, Operation, Part

MOST_PARTS = 120
"""Maximum number of parts of a box; more are put into boxes of neighbours."""

DEEPEST = 40
"""Maximum depth of modules; names below it stay together."""

OUTPUT = "output"

INPUTS = ("placeholder", "get_attr")

SIMILAR = 0.5
"""Two modules of unknown class are layers if they have at least this fraction of operations in
common.
"""


@dataclass(frozen=True, slots=True)
class BoxDifference:
    """How a box of numbered modules differs from the others in its list."""

    sentence: str = ""
    """``Unlike 1 … 46: also mul.``; of a box of several layers how these differ; empty if alike."""
    unlike: str = ""
    """The layers that it is unlike: ``1 … 46``; empty if it is as most are."""
    layers: LayerDifferences | None = None
    """What differs among all layers of the list, for the first box of them."""


@dataclass(frozen=True, slots=True)
class NestedBoxes:
    """A graph as nested boxes."""

    root: int
    """Number of the outermost content."""
    positions: Sequence[int]
    """Position in the graph of each operation, in the order of the boxes."""
    differences: Mapping[int, BoxDifference]
    """Number of a box in the order of the boxes → how it differs from others in its list."""
    runs: Sequence[tuple[int, int]]
    """First operation and the one after the last of each box, in the order of the boxes."""


@dataclass(slots=True)
class _Entry:
    """A part while boxes are nested: an operation, a module, or several modules."""

    part: Part
    positions: Sequence[int]
    runs: Sequence[tuple[int, int]] = ()
    """Runs of its own boxes, from 0; its own first."""
    differences: Mapping[int, BoxDifference] | None = None
    """Number of one of its own boxes → how that differs; None for an operation: there are as many
    as nodes.
    """
    sources: Sequence[int] = ()
    """The entries it was made of, by their numbers in the module."""

    @property
    def first(self) -> int:
        return min(self.positions)


@dataclass(slots=True)
class _Module:
    """A module while boxes are nested."""

    path: tuple[str, ...]
    type: str = ""
    entries: dict[object, _Entry] = field(default_factory=dict)
    """Position of an operation or name of a module in it → its entry."""
    edges: set[tuple[object, object]] = field(default_factory=set)
    entering: set[object] = field(default_factory=set)
    leaving: set[object] = field(default_factory=set)


def nested_boxes(
    nodes: Sequence[model.Node], edges: Iterable[tuple[int, int]], contents: Contents
) -> NestedBoxes:
    """Return the nodes of a graph in boxes. ``edges``: positions of producer and consumer."""
    uses = [edge for edge in edges if nodes[edge[1]].op != OUTPUT or not nodes[edge[1]].module]
    paths = _paths(nodes, uses)
    modules: dict[tuple[str, ...], _Module] = {(): _Module(())}
    operations: dict[str, Operation] = {}
    for node, path in zip(nodes, paths, strict=True):
        if path not in modules:
            for depth in range(len(path) + 1):
                modules.setdefault(path[:depth], _Module(path[:depth]))
        if node.module_type and path and path == _path(node):
            modules[path].type = node.module_type
        label = operation(node) if node.op not in INPUTS else node.op
        drawn = operations.setdefault(label, Operation(label))
        modules[path].entries[node.position] = _Entry(drawn, (node.position,))
    for producer, consumer in uses:
        _add_edge(modules, paths, producer, consumer, is_result=nodes[consumer].op == OUTPUT)
    by_name = {node.name: node for node in nodes}
    for path in sorted(modules, key=len, reverse=True):
        entry = _box_of(modules.pop(path), contents, nodes, by_name)
        if not path:
            root = entry
            break
        modules[path[:-1]].entries[path[-1]] = entry
    assert isinstance(root.part, ModuleBox)
    return NestedBoxes(root.part.content, root.positions, root.differences or {}, root.runs)


def _path(node: model.Node) -> tuple[str, ...]:
    return tuple(node.module.split(".", DEEPEST)) if node.module else ()


def _paths(nodes: Sequence[model.Node], uses: Iterable[tuple[int, int]]) -> list[tuple[str, ...]]:
    """Return the module in which each node is drawn: an input in the one around all its uses."""
    known: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        if node.module not in known:
            known[node.module] = _path(node)
    paths = [known[node.module] for node in nodes]
    around: dict[int, tuple[str, ...]] = {}
    for producer, consumer in uses:
        if nodes[producer].op in INPUTS and nodes[consumer].op != OUTPUT:
            path = around.get(producer, paths[consumer])
            around[producer] = _common(path, paths[consumer])
    for node in nodes:
        if node.op in INPUTS:
            paths[node.position] = around.get(node.position, ())
        elif node.op == OUTPUT:
            paths[node.position] = ()
    return paths


def _common(path: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    length = 0
    while length < min(len(path), len(other)) and path[length] == other[length]:
        length += 1
    return path[:length]


def _add_edge(
    modules: Mapping[tuple[str, ...], _Module],
    paths: Sequence[tuple[str, ...]],
    producer: int,
    consumer: int,
    *,
    is_result: bool,
) -> None:
    """Add a use to the module around both ends, and to those on the way: there it comes in or
    leaves. What the graph returns, and saves for the backward, leaves no module on the way: most
    operations do.
    """
    above, below = paths[producer], paths[consumer]
    depth = len(_common(above, below))
    both = modules[above[:depth]]
    both.edges.add((_key(above, depth, producer), _key(below, depth, consumer)))
    if not is_result:
        for inner in range(depth + 1, len(above) + 1):
            modules[above[:inner]].leaving.add(_key(above, inner, producer))
    for inner in range(depth + 1, len(below) + 1):
        modules[below[:inner]].entering.add(_key(below, inner, consumer))


def _key(path: tuple[str, ...], depth: int, position: int) -> object:
    """Return the entry of an operation in the module at a depth on its path."""
    return path[depth] if depth < len(path) else position


def _box_of(
    module: _Module,
    contents: Contents,
    nodes: Sequence[model.Node],
    by_name: Mapping[str, model.Node],
) -> _Entry:
    """Return the box of a module, whose inner modules are boxes already."""
    keys = sorted(module.entries, key=lambda key: module.entries[key].first)
    number = {key: at for at, key in enumerate(keys)}
    entries = [module.entries[key] for key in keys]
    for at, entry in enumerate(entries):
        entry.sources = (at,)
    edges = {(number[producer], number[consumer]) for producer, consumer in module.edges}
    entering = {number[key] for key in module.entering}
    leaving = {number[key] for key in module.leaving}
    piles: list[_Entry] = []
    for layers in _lists_of_layers(entries, contents.all):
        piled = _piled(layers)
        if len(layers) > 1:
            differences = _compare(layers, module.path, nodes, by_name)
            _add_differences(piled, differences)
        piles += piled
    return _made(piles, edges, entering, leaving, contents, module.path[-1:], module.type)


def _lists_of_layers(
    entries: Sequence[_Entry], contents: Sequence[Content]
) -> Iterable[list[_Entry]]:
    """Yield neighbours that are layers of one list together, everything else alone."""
    together: list[_Entry] = []
    for entry in entries:
        if together and not are_layers(together[-1].part, entry.part, contents):
            yield together
            together = []
        together.append(entry)
    if together:
        yield together


def are_layers(part: Part, other: Part, contents: Sequence[Content]) -> bool:
    """Return whether two neighbours are layers of one list: numbered modules of one class. Where a
    class is not known, many of their operations must be the same.
    """
    if not isinstance(part, ModuleBox) or not isinstance(other, ModuleBox):
        return False
    if not (part.names[0].isdecimal() and other.names[0].isdecimal()):
        return False
    if part.type and other.type:
        return part.type == other.type
    if part.content == other.content:
        return True
    counts = contents[part.content].counts
    of_other = contents[other.content].counts
    shared = (counts & of_other).total()
    return shared >= SIMILAR * max(counts.total(), of_other.total())


def _piled(layers: Sequence[_Entry]) -> list[_Entry]:
    """Return the layers of a list with neighbours of one content as one."""
    piles: list[list[_Entry]] = []
    for entry in layers:
        if piles and _has_same_content(piles[-1][0], entry):
            piles[-1].append(entry)
        else:
            piles.append([entry])
    return [_pile(pile) if len(pile) > 1 else pile[0] for pile in piles]


def _has_same_content(entry: _Entry, other: _Entry) -> bool:
    first, second = entry.part, other.part
    assert isinstance(first, ModuleBox)
    assert isinstance(second, ModuleBox)
    return (first.type, first.content) == (second.type, second.content)


def _pile(entries: Sequence[_Entry]) -> _Entry:
    first = entries[0].part
    assert isinstance(first, ModuleBox)
    names: list[str] = []
    positions: list[int] = []
    sources: list[int] = []
    runs: list[tuple[int, int]] = []
    differences: dict[int, BoxDifference] = {}
    for entry in entries:
        assert isinstance(entry.part, ModuleBox)
        names += entry.part.names
        sources += entry.sources
        for at, difference in (entry.differences or {}).items():
            differences[at + 1 + len(runs)] = difference
        runs += [(start + len(positions), end + len(positions)) for start, end in entry.runs]
        positions += entry.positions
    box = ModuleBox(tuple(names), first.type, first.content)
    return _Entry(box, positions, [(0, len(positions)), *runs], differences, sources)


def _compare(
    layers: Sequence[_Entry],
    path: Sequence[str],
    nodes: Sequence[model.Node],
    by_name: Mapping[str, model.Node],
) -> LayerDifferences:
    compared: list[Layer] = []
    for entry in layers:
        assert isinstance(entry.part, ModuleBox)
        (name,) = entry.part.names
        of_layer = [nodes[position] for position in entry.positions]
        compared.append(Layer(name, ".".join((*path, name)), of_layer))
    return compare_layers(compared, by_name)


def _add_differences(piles: Sequence[_Entry], differences: LayerDifferences) -> None:
    """Say of each box of layers how it differs from most in the list, and of several layers in one
    box how these differ.
    """
    starts: list[int] = [0]
    for pile in piles:
        starts.append(starts[-1] + _count(pile))
    as_most_are = [at for at, start in enumerate(starts[:-1]) if start not in differences.of_layer]
    most = piles[max(as_most_are, key=lambda at: _count(piles[at]))]
    for pile, (start, end) in zip(piles, pairwise(starts), strict=True):
        unlike = ""
        if _count(pile) > 1:
            sentence = differences.among(range(start, end))
        elif _has_same_content(pile, most):
            sentence = differences.of_layer.get(start, "")
        else:
            unlike = _span(most)
            sentence = f"Unlike {unlike}: {differences.of_layer.get(start, USED_OTHERWISE)}."
        of_list = None if start else differences
        if sentence or of_list:
            of_pile = BoxDifference(sentence, unlike, of_list)
            pile.differences = {**(pile.differences or {}), 0: of_pile}


USED_OTHERWISE = "the same operations, used otherwise"


def _count(entry: _Entry) -> int:
    return len(entry.part.names) if isinstance(entry.part, ModuleBox) else 1


def _span(entry: _Entry) -> str:
    assert isinstance(entry.part, ModuleBox)
    names = entry.part.names
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"


def _made(
    entries: Sequence[_Entry],
    edges: set[tuple[int, int]],
    entering: set[int],
    leaving: set[int],
    contents: Contents,
    name: Sequence[str],
    kind: str,
) -> _Entry:
    """Return a box of these entries; the numbers of edges are those of ``sources``."""
    if len(entries) > MOST_PARTS:
        size = -(-len(entries) // MOST_PARTS)
        groups = [entries[at : at + size] for at in range(0, len(entries), size)]
        inner = []
        for group in groups:
            inside = {source for entry in group for source in entry.sources}
            within = {edge for edge in edges if edge[0] in inside and edge[1] in inside}
            coming = entering & inside
            coming |= {edge[1] for edge in edges if edge[1] in inside and edge[0] not in inside}
            going = leaving & inside
            going |= {edge[0] for edge in edges if edge[0] in inside and edge[1] not in inside}
            made = _made(group, within, coming, going, contents, ("",), "")
            made.sources = sorted(inside)
            inner.append(made)
        entries = inner
    number = {source: at for at, entry in enumerate(entries) for source in entry.sources}
    own_edges = {(number[producer], number[consumer]) for producer, consumer in edges}
    content = contents.number(
        [entry.part for entry in entries],
        {edge for edge in own_edges if edge[0] != edge[1]},
        {number[source] for source in entering},
        {number[source] for source in leaving},
    )
    positions: list[int] = []
    runs: list[tuple[int, int]] = []
    differences: dict[int, BoxDifference] = {}
    for entry in entries:
        for at, difference in (entry.differences or {}).items():
            differences[at + 1 + len(runs)] = difference
        runs += [(start + len(positions), end + len(positions)) for start, end in entry.runs]
        positions += entry.positions
    box = ModuleBox(tuple(name) or ("",), kind, content)
    return _Entry(box, positions, [(0, len(positions)), *runs], differences)
