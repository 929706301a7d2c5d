"""This module nests the operations of an FX graph in boxes, as a drawing shows them: a box for each
module, one box for the layers of a list that have the same operations, and boxes of neighbours
where a module has very many operations of its own.

The content of a box is arranged once, however many boxes have the same: 48 layers are drawn from
one content. Operations are numbered in the order of the nested boxes, so that each box has a run of
numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fx_explorer import model
from fx_explorer.analysis.words import counted, listed, operation, value_text
from fx_explorer.drawing.box_contents import Box, Contents, Operation, Part

MOST_PARTS = 120
"""Maximum number of parts of a box; more are put into boxes of neighbours."""

DEEPEST = 40
"""Maximum depth of modules; names below it stay together."""

OUTPUT = "output"

INPUTS = ("placeholder", "get_attr")


@dataclass(frozen=True, slots=True)
class NestedBoxes:
    """A graph as nested boxes."""

    root: int
    """Number of the outermost content."""
    positions: Sequence[int]
    """Position in the graph of each operation, in the order of the boxes."""
    differences: Mapping[int, str]
    """Number of a box in the order of the boxes → how it differs from others in its list."""
    runs: Sequence[tuple[int, int]]
    """First operation and the one after the last of each box, in the order of the boxes."""


@dataclass(slots=True)
class _Entry:
    """A part while boxes are nested: an operation, a module, or several modules."""

    part: Part
    positions: list[int]
    runs: list[tuple[int, int]] = field(default_factory=list)
    """Runs of its own boxes, from 0; its own first."""
    differences: dict[int, str] = field(default_factory=dict)
    sources: list[int] = field(default_factory=list)
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
    for node, path in zip(nodes, paths, strict=True):
        for depth in range(len(path) + 1):
            modules.setdefault(path[:depth], _Module(path[:depth]))
        if node.module_type and path and path == _path(node):
            modules[path].type = node.module_type
        label = operation(node) if node.op not in INPUTS else node.op
        modules[path].entries[node.position] = _Entry(Operation(label), [node.position])
    for producer, consumer in uses:
        _add_edge(modules, paths, producer, consumer, is_result=nodes[consumer].op == OUTPUT)
    labels = [value_text(node) for node in nodes]
    names = [operation(node) for node in nodes]
    for path in sorted(modules, key=len, reverse=True):
        entry = _box_of(modules[path], contents, labels, names)
        if not path:
            root = entry
            break
        modules[path[:-1]].entries[path[-1]] = entry
    assert isinstance(root.part, Box)
    return NestedBoxes(root.part.content, root.positions, root.differences, root.runs)


def _path(node: model.Node) -> tuple[str, ...]:
    return tuple(node.module.split(".", DEEPEST)) if node.module else ()


def _paths(nodes: Sequence[model.Node], uses: Iterable[tuple[int, int]]) -> list[tuple[str, ...]]:
    """Return the module in which each node is drawn: an input in the one around all its uses."""
    paths = [_path(node) for node in nodes]
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
    module: _Module, contents: Contents, values: Sequence[str], operations: Sequence[str]
) -> _Entry:
    """Return the box of a module, whose inner modules are boxes already."""
    keys = sorted(module.entries, key=lambda key: module.entries[key].first)
    number = {key: at for at, key in enumerate(keys)}
    entries = [module.entries[key] for key in keys]
    for at, entry in enumerate(entries):
        entry.sources = [at]
    edges = {(number[producer], number[consumer]) for producer, consumer in module.edges}
    entering = {number[key] for key in module.entering}
    leaving = {number[key] for key in module.leaving}
    piled = _piled(entries, values)
    _add_differences(piled, operations)
    return _made(piled, edges, entering, leaving, contents, module.path[-1:], module.type)


def _piled(entries: Sequence[_Entry], values: Sequence[str]) -> list[_Entry]:
    """Return the entries with neighbouring layers of one content as one."""
    piles: list[list[_Entry]] = []
    for entry in entries:
        if piles and _is_alike(piles[-1][0], entry):
            piles[-1].append(entry)
        else:
            piles.append([entry])
    return [_pile(pile, values) if len(pile) > 1 else pile[0] for pile in piles]


def _is_alike(entry: _Entry, other: _Entry) -> bool:
    first, second = entry.part, other.part
    if not isinstance(first, Box) or not isinstance(second, Box):
        return False
    numbered = _is_numbered(first) and _is_numbered(second)
    return numbered and (first.type, first.content) == (second.type, second.content)


def _pile(entries: Sequence[_Entry], values: Sequence[str]) -> _Entry:
    first = entries[0].part
    assert isinstance(first, Box)
    names: list[str] = []
    positions: list[int] = []
    sources: list[int] = []
    runs: list[tuple[int, int]] = []
    differences: dict[int, str] = {}
    for entry in entries:
        assert isinstance(entry.part, Box)
        names += entry.part.names
        sources += entry.sources
        differences |= {at + 1 + len(runs): text for at, text in entry.differences.items()}
        runs += [(start + len(positions), end + len(positions)) for start, end in entry.runs]
        positions += entry.positions
    if different := _different_values(entries, values):
        differences[0] = different
    box = Box(tuple(names), first.type, first.content)
    return _Entry(box, positions, [(0, len(positions)), *runs], differences, sources)


def _different_values(entries: Sequence[_Entry], values: Sequence[str]) -> str:
    """Say in which values layers with the same operations differ; empty where they do not."""
    first = entries[0].positions
    different: Counter[tuple[str, str]] = Counter()
    for entry in entries[1:]:
        for position, other in zip(first, entry.positions, strict=True):
            if values[position] != values[other]:
                different[values[position], values[other]] += 1
    if not different:
        return ""
    first_value, other_value = different.most_common(1)[0][0]
    number = sum(different.values())
    return f"The values of {counted(number, 'operation')} differ: {first_value} and {other_value}."


def _add_differences(entries: Sequence[_Entry], operations: Sequence[str]) -> None:
    """Say of each numbered module how its operations differ from those of most in its list."""
    numbered = [entry for entry in entries if _is_numbered(entry.part)]
    if len(numbered) < 2:
        return
    most = max(numbered, key=lambda entry: _count(entry))
    if _count(most) < 2:
        return
    usual = _operation_counts(most, operations)
    for entry in numbered:
        if entry is most:
            continue
        counts = _operation_counts(entry, operations)
        further = [f"{name} ×{number}" for name, number in (counts - usual).items()]
        missing = [f"{name} ×{number}" for name, number in (usual - counts).items()]
        parts = []
        if further:
            parts.append(f"also {listed(further)}")
        if missing:
            parts.append(f"without {listed(missing)}")
        text = "; ".join(parts) or "the same operations, used otherwise"
        entry.differences[0] = f"Unlike {_span(most)}: {text}."


def _is_numbered(part: Part) -> bool:
    return isinstance(part, Box) and part.names[0].isdecimal()


def _count(entry: _Entry) -> int:
    return len(entry.part.names) if isinstance(entry.part, Box) else 1


def _span(entry: _Entry) -> str:
    assert isinstance(entry.part, Box)
    return f"{entry.part.names[0]} … {entry.part.names[-1]}"


def _operation_counts(entry: _Entry, operations: Sequence[str]) -> Counter[str]:
    one = entry.positions[: len(entry.positions) // _count(entry)]
    return Counter(operations[position] for position in one)


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
    differences: dict[int, str] = {}
    for entry in entries:
        differences |= {at + 1 + len(runs): text for at, text in entry.differences.items()}
        runs += [(start + len(positions), end + len(positions)) for start, end in entry.runs]
        positions += entry.positions
    box = Box(tuple(name) or ("",), kind, content)
    return _Entry(box, positions, [(0, len(positions)), *runs], differences)
