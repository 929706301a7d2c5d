"""This module aligns two graphs by their structure: which node of the one is which of the other,
and how the two differ. Names do not count, and sizes are apart: a graph for another batch is the
same graph with other sizes.

Operations are aligned first, in their order: those of the same module with the same arguments, then
those with the same arguments, then those with the same target between them. Inputs follow their
users: an input is that of the other graph which the same operations take at the same place. Last
come inputs and operations that kept their names.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from fx_explorer import model
from fx_explorer.model.bounded_matching import BoundedMatcher

OTHER_INPUTS = "other inputs"
"""What differs of an operation that takes other nodes than its counterpart does."""

Size = tuple[str, str]
"""A size before and after: ``("8", "16")``, ``("8", "s77")``."""


@dataclass(frozen=True, slots=True)
class NodePair:
    """A node of the first graph and its counterpart; None for a node that only one graph has."""

    before: model.Node | None
    after: model.Node | None
    sizes: tuple[Size, ...] = ()
    """The sizes that differ, in its shape and among its arguments."""
    changes: tuple[str, ...] = ()
    """What else differs: ``f32 → bf16``, ``other inputs``. Empty for a node without a
    counterpart.
    """


@dataclass(frozen=True, slots=True)
class GraphAlignment:
    """Two graphs, node by node, in the order of the first."""

    pairs: tuple[NodePair, ...]
    is_cut: bool = False
    """Whether the search was cut off, so that some nodes without a counterpart may have one."""

    @property
    def sizes(self) -> dict[Size, int]:
        """Return each pair of sizes that differs → in how many nodes, the most frequent first."""
        counts: Counter[Size] = Counter()
        for pair in self.pairs:
            counts.update(set(pair.sizes))
        return dict(counts.most_common())

    @property
    def resized(self) -> int:
        """Return how many nodes have other sizes."""
        return sum(bool(pair.sizes) for pair in self.pairs)


def align_graphs(before: Sequence[model.Node], after: Sequence[model.Node]) -> GraphAlignment:
    """Align two graphs. The order of the nodes is that of the session."""
    left, right = _Side(before), _Side(after)
    partners = _Partners()
    is_cut = _pair_operations(left, right, partners)
    _pair_inputs(left, right, partners)
    _pair_by_name(left, right, partners)
    symbols = _renamed_symbols(left, right, partners)
    pairs = [
        _pair(left, right, partners, *row, symbols) for row in _in_order(left, right, partners)
    ]
    return GraphAlignment(tuple(pairs), is_cut)


# the nodes of one side, read for the comparison

ARGUMENT_PARTS = re.compile(r"""'[^']*'|"[^"]*"|[A-Za-z_][\w.]*|-?\d[\w.]*|\S""")
"""Matches the parts of a node's arguments: texts, names, numbers, signs."""

TokenKind = Literal["node", "size", "number", "other"]


class Token(NamedTuple):
    kind: TokenKind
    text: str
    node: int = -1
    """Position of the node, of a token that is one."""


class _Side:
    """One graph: its nodes, and the arguments of each in parts."""

    def __init__(self, nodes: Sequence[model.Node]) -> None:
        self.nodes = nodes
        self._positions = {node.name: position for position, node in enumerate(nodes)}
        self.tokens = [self._tokens(node) for node in nodes]
        self.operations = [at for at, node in enumerate(nodes) if not _is_input(node)]

    def _tokens(self, node: model.Node) -> list[Token]:
        if node.op == "placeholder":
            return []
        return [self._token(text) for text in ARGUMENT_PARTS.findall(node.arguments)]

    def _token(self, text: str) -> Token:
        position = self._positions.get(text)
        if position is not None:
            kind: TokenKind = "size" if is_size(self.nodes[position]) else "node"
            return Token(kind, text, position)
        if _SYMBOL.fullmatch(text):
            return Token("size", text)
        is_number = text[0].isdigit() or (text[0] == "-" and len(text) > 1)
        return Token("number" if is_number else "other", text)

    def arguments(self, position: int) -> str:
        """Return the arguments without names, sizes and numbers: inputs as what they are, results
        as the operation that made them.
        """
        return " ".join(map(self._masked, self.tokens[position]))

    def _masked(self, token: Token) -> str:
        if token.kind == "number" or token.kind == "size":
            return "N"
        if token.kind == "node":
            node = self.nodes[token.node]
            return "input" if _is_input(node) else node.target
        return token.text

    def written(self, token: Token) -> str:
        """Return a number, or a size by its symbol: ``8``, ``s77``."""
        if token.kind != "size" or token.node < 0:
            return token.text
        value = self.nodes[token.node].value
        return value.removeprefix("Sym(").removesuffix(")") or token.text

    def inputs_of(self, position: int) -> list[int]:
        """Return the nodes that a node takes, in the order of its arguments, without sizes."""
        return [token.node for token in self.tokens[position] if token.kind == "node"]


def _is_input(node: model.Node) -> bool:
    return node.op in ("placeholder", "get_attr")


def is_size(node: model.Node) -> bool:
    """Return whether the value of a node is a size or a number, and no tensor."""
    is_number_input = node.op == "placeholder" and node.shape is None and not node.value
    return node.value.startswith("Sym(") or is_number_input


# which node is which


class _Partners:
    """The counterparts that were found so far, by positions."""

    def __init__(self) -> None:
        self.of_left: dict[int, int] = {}
        self.of_right: dict[int, int] = {}

    def add(self, left: int, right: int) -> None:
        if left not in self.of_left and right not in self.of_right:
            self.of_left[left] = right
            self.of_right[right] = left


Label = Callable[[_Side, int], str]

_Gap = tuple[Sequence[int], Sequence[int]]


def _by_module(side: _Side, position: int) -> str:
    node = side.nodes[position]
    return f"{node.module} {_by_arguments(side, position)}"


def _by_arguments(side: _Side, position: int) -> str:
    node = side.nodes[position]
    return f"{node.op} {node.target}({side.arguments(position)})"


def _by_target(side: _Side, position: int) -> str:
    node = side.nodes[position]
    return f"{node.op} {node.target}"


LABELS: tuple[Label, ...] = (_by_module, _by_arguments, _by_target)
"""What two operations must have in common, the most certain first. Each is asked about what the one
before it has left between its counterparts.
"""


def _pair_operations(left: _Side, right: _Side, partners: _Partners) -> bool:
    """Find the counterparts of operations. Returns whether the search was cut off."""
    is_cut = False
    gaps: list[_Gap] = [(left.operations, right.operations)]
    for label in LABELS:
        rest: list[_Gap] = []
        for gap in gaps:
            was_cut, inside = _match(left, right, partners, *gap, label)
            is_cut = is_cut or was_cut
            rest += inside
        gaps = rest
    return is_cut


def _match(
    left: _Side,
    right: _Side,
    partners: _Partners,
    before: Sequence[int],
    after: Sequence[int],
    label: Label,
) -> tuple[bool, list[_Gap]]:
    """Pair operations of a gap that have one label, in their order. Returns whether the search was
    cut off, and the gaps that are left.
    """
    old, new = [label(left, at) for at in before], [label(right, at) for at in after]
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        partners.add(before[first], after[first])
        first += 1
    # What a large graph does often is no junk to be passed over, as difflib's heuristic has it.
    matcher = BoundedMatcher(old[first:], new[first:], autojunk=False)
    gaps: list[_Gap] = []
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        of_left = before[first + i : first + i_end]
        of_right = after[first + j : first + j_end]
        if kind == "equal":
            for position, other in zip(of_left, of_right, strict=True):
                partners.add(position, other)
        elif kind == "replace":
            gaps.append((of_left, of_right))
    return matcher.is_cut, gaps


def _pair_inputs(left: _Side, right: _Side, partners: _Partners) -> None:
    """Pair inputs that operations which are counterparts take at the same place; then those that
    nothing takes with others that look the same.
    """
    votes: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for position, other in partners.of_left.items():
        taken, others = _inputs_at(left, position), _inputs_at(right, other)
        for place, taken_input in taken.items():
            if place in others:
                votes[taken_input][others[place]] += 1
    ranked: list[tuple[int, int, int]] = []
    for taken_input, counts in votes.items():
        ranked += [(-count, taken_input, other) for other, count in counts.items()]
    for _, position, other in sorted(ranked):
        partners.add(position, other)
    alike: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for other, node in enumerate(right.nodes):
        if _is_input(node) and other not in partners.of_right:
            alike[_look(node)].append(other)
    for position, node in enumerate(left.nodes):
        if _is_input(node) and position not in partners.of_left and alike[_look(node)]:
            partners.add(position, alike[_look(node)].pop(0))


def _look(node: model.Node) -> tuple[object, ...]:
    return node.op, node.dtype, node.shape, node.value


def _inputs_at(side: _Side, position: int) -> dict[int, int]:
    """Return place among the nodes that an operation takes → input of the graph."""
    taken = enumerate(side.inputs_of(position))
    return {place: node for place, node in taken if _is_input(side.nodes[node])}


def _pair_by_name(left: _Side, right: _Side, partners: _Partners) -> None:
    """Pair what is left and has kept its name: inputs that nothing takes, and operations that took
    the place of another.
    """
    positions = {node.name: position for position, node in enumerate(right.nodes)}
    for position, node in enumerate(left.nodes):
        other = positions.get(node.name)
        if other is not None and right.nodes[other].op == node.op:
            partners.add(position, other)


def _in_order(
    left: _Side, right: _Side, partners: _Partners
) -> Iterator[tuple[int | None, int | None]]:
    """Yield the pairs in the order of the first graph, and what only the second has where it stands
    there.
    """
    shown = 0
    for position in range(len(left.nodes)):
        other = partners.of_left.get(position)
        while other is not None and shown < other:
            if shown not in partners.of_right:
                yield None, shown
            shown += 1
        yield position, other
    for rest in range(shown, len(right.nodes)):
        if rest not in partners.of_right:
            yield None, rest


# how two counterparts differ


@dataclass
class _Found:
    """What differs between two counterparts."""

    sizes: list[Size] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)


def _pair(
    left: _Side,
    right: _Side,
    partners: _Partners,
    position: int | None,
    other: int | None,
    symbols: Mapping[str, str],
) -> NodePair:
    before = left.nodes[position] if position is not None else None
    after = right.nodes[other] if other is not None else None
    if before is None or after is None or position is None or other is None:
        return NodePair(before, after)
    found = _Found()
    if before.target != after.target and not _is_input(before):
        found.changes.append(f"{before.target} → {after.target}")
    _compare_values(before, after, symbols, found)
    if not _is_input(before):
        _compare_arguments(left, right, partners, position, other, symbols, found)
    return NodePair(before, after, tuple(found.sizes), tuple(dict.fromkeys(found.changes)))


def _compare_values(
    before: model.Node, after: model.Node, symbols: Mapping[str, str], found: _Found
) -> None:
    if before.dtype != after.dtype:
        found.changes.append(f"{before.dtype or 'no tensor'} → {after.dtype or 'no tensor'}")
    old, new = before.shape, after.shape
    if old is None or new is None:
        if (old is None) != (new is None) and before.dtype == after.dtype:
            found.changes.append("another kind of value")
        return
    if len(old) != len(new):
        found.changes.append(f"[{', '.join(old)}] → [{', '.join(new)}]")
        return
    for size, other in zip(old, new, strict=True):
        if _in_symbols(size, symbols) != other:
            found.sizes.append((size, other))


def _compare_arguments(
    left: _Side,
    right: _Side,
    partners: _Partners,
    position: int,
    other: int,
    symbols: Mapping[str, str],
    found: _Found,
) -> None:
    """Note how the arguments differ. A number that differs as a size of the node or of what it
    takes does is a size; any other number is part of the computation.
    """
    tokens, others = left.tokens[position], right.tokens[other]
    if [_mask(token) for token in tokens] != [_mask(token) for token in others]:
        found.changes.append("other arguments")
        return
    numbers: list[Size] = []
    for token, counterpart in zip(tokens, others, strict=True):
        if token.kind == "node" and partners.of_left.get(token.node) != counterpart.node:
            found.changes.append(OTHER_INPUTS)
        elif token.kind in ("number", "size"):
            number = left.written(token), right.written(counterpart)
            if _in_symbols(number[0], symbols) != number[1]:
                numbers.append(number)
    if not numbers:
        return
    known = {*found.sizes, *_sizes_of_inputs(left, right, position, other)}
    for number in numbers:
        if number in known or not all(map(_is_number, number)):
            found.sizes.append(number)
        else:
            found.changes.append(f"{number[0]} → {number[1]}")


def _is_number(text: str) -> bool:
    return text.lstrip("-")[:1].isdecimal()


def _sizes_of_inputs(left: _Side, right: _Side, position: int, other: int) -> Iterator[Size]:
    """Yield the sizes that differ between what two counterparts take."""
    taken = zip(left.inputs_of(position), right.inputs_of(other), strict=False)
    for at, at_other in taken:
        old, new = left.nodes[at].shape or (), right.nodes[at_other].shape or ()
        yield from (pair for pair in zip(old, new, strict=False) if pair[0] != pair[1])


def _mask(token: Token) -> str:
    """Return a part of the arguments as two that may be the same are written."""
    if token.kind == "number" or token.kind == "size":
        return "N"
    return "node" if token.kind == "node" else token.text


# names of symbolic sizes, which differ from compile to compile

_SYMBOL = re.compile(r"\b[su]\d+\b")


def _renamed_symbols(left: _Side, right: _Side, partners: _Partners) -> dict[str, str]:
    """Return symbol → its name in the other graph, where it has one name throughout."""
    names: defaultdict[str, set[str]] = defaultdict(set)
    backwards: defaultdict[str, set[str]] = defaultdict(set)
    for position, other in partners.of_left.items():
        old, new = left.nodes[position].shape or (), right.nodes[other].shape or ()
        for size, counterpart in zip(old, new, strict=False):
            if _SYMBOL.fullmatch(size) and _SYMBOL.fullmatch(counterpart):
                names[size].add(counterpart)
                backwards[counterpart].add(size)
    return {
        name: next(iter(others))
        for name, others in names.items()
        if len(others) == 1 and len(backwards[next(iter(others))]) == 1
    }


def _in_symbols(size: str, symbols: Mapping[str, str]) -> str:
    if not symbols:
        return size
    return _SYMBOL.sub(lambda match: symbols.get(match[0], match[0]), size)
