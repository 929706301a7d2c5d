"""This module says what differs among layers that repeat: the layers of a list, each given as its
nodes of one graph.

Layers are alike if their operations, values and constants are, whatever their nodes are called and
whatever they read. Each layer that differs from most is aligned with one of those
(``graph_alignment.py``), as two graphs are that somebody compares.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.analysis.alignment_words import (
    brief_operation,
    describe_sizes,
    name_operations,
)
from fx_explorer.analysis.graph_alignment import (
    ARGUMENT_PARTS,
    OTHER_INPUTS,
    GraphAlignment,
    NodePair,
    align_graphs,
)
from fx_explorer.analysis.words import counted, listed, operation, value_text

MOST_PATTERNS = 12
"""Maximum number of kinds of layers that are compared with the usual one; the others are told to
differ.
"""

MOST_NAMES = 4
"""Maximum number of layers that a sentence names."""

MOST_GROUPS = 3
"""Maximum number of differences in a sentence on all layers."""

NEARLY_EVERY = 0.7
"""Fraction of the layers (at least three layers) that must have different numbers at one place, for
the numbers to belong to the layers.
"""

OF_SEEDS = ("inductor_lookup_seed",)
"""Operations whose number counts the seeds of a graph, and is another one wherever they stand."""

EACH = "each"
"""First word of the sentence on numbers that differ from layer to layer."""

DIFFERS = "other operations"


@dataclass(frozen=True, slots=True)
class Layer:
    """One of several layers."""

    name: str
    """Its name in the list: ``0``."""
    path: str
    """Path of its module: ``model.layers.0``."""
    nodes: Sequence[model.Node]
    """Its nodes, in the order of the graph."""


@dataclass(frozen=True, slots=True)
class LayerDifferences:
    """What differs among some layers."""

    usual: int
    """Position of the first layer that is as most are."""
    of_layer: Mapping[int, str]
    """Position of a layer that differs from most → how: ``also mul``."""
    numbered: Sequence[str]
    """Operations with a number that is another one in nearly every layer, such as a seed's."""
    names: Sequence[str]
    """Names of all layers."""

    @property
    def sentence(self) -> str:
        """Return ``23: also mul``; empty if all are alike."""
        return self.among(range(len(self.names)))

    def among(self, layers: range) -> str:
        """Return the sentence on some of the layers, by their positions."""
        groups: dict[str, list[str]] = {}
        for position, text in self.of_layer.items():
            if position in layers:
                groups.setdefault(text, []).append(self.names[position])
        parts = [f"{listed(names, MOST_NAMES)}: {text}" for text, names in groups.items()]
        if len(parts) > MOST_GROUPS:
            parts[MOST_GROUPS:] = [f"{len(parts) - MOST_GROUPS:,} more differ"]
        if self.numbered:
            parts.append(f"{EACH} has a different number in {listed(self.numbered)}")
        return "; ".join(parts)


def compare_layers(
    layers: Sequence[Layer], nodes_by_name: Mapping[str, model.Node]
) -> LayerDifferences:
    """Compare layers with the one that most are like. ``nodes_by_name`` are all nodes of their
    graph.
    """
    texts = [_LayerText(layer, nodes_by_name) for layer in layers]
    structures: dict[object, list[int]] = {}
    for position, text in enumerate(texts):
        structures.setdefault(text.structure, []).append(position)
    usual_structure = max(structures.values(), key=len)
    numbered = _number_in_each([texts[position] for position in usual_structure])
    patterns: dict[object, list[int]] = {}
    for position, text in enumerate(texts):
        patterns.setdefault(text.without_numbers(numbered), []).append(position)
    of_structure = set(usual_structure)
    usual = max(
        patterns.values(), key=lambda positions: (positions[0] in of_structure, len(positions))
    )
    of_layer: dict[int, str] = {}
    number = 0
    for positions in patterns.values():
        if positions is usual:
            continue
        number += 1
        difference = DIFFERS
        if number <= MOST_PATTERNS:
            difference = _difference(texts[usual[0]], texts[positions[0]], numbered)
        for position in positions:
            of_layer[position] = difference
    names = [layer.name for layer in layers]
    return LayerDifferences(usual[0], dict(sorted(of_layer.items())), numbered, names)


def _number_in_each(texts: Sequence[_LayerText]) -> list[str]:
    """Return the operations of layers with one structure that have a number which is another one in
    nearly every layer.
    """
    names: dict[str, None] = {}
    for at, node in enumerate(texts[0].nodes):
        name = brief_operation(node)
        most_alike = 1 if name in OF_SEEDS else max(2, NEARLY_EVERY * len(texts))
        columns = zip(*(text.lines[at].parts for text in texts), strict=True)
        for column in columns:
            if len(set(column)) > most_alike:
                names[name] = None
    return list(names)


class _Line(NamedTuple):
    """What a node of a layer does, without names."""

    operation: str
    value: str
    parts: tuple[str, ...]
    """The parts of its arguments: nodes of the layer are numbered in it, and what it reads from
    outside is ``input``.
    """


class _LayerText:
    """Text of a layer, equal for layers that do the same."""

    def __init__(self, layer: Layer, nodes_by_name: Mapping[str, model.Node]) -> None:
        self.nodes = layer.nodes
        self._all = nodes_by_name
        self._own = {node.name: number for number, node in enumerate(layer.nodes)}
        parent, _, name = layer.path.rpartition(".")
        last = parent.rpartition(".")[2]
        self._address = re.compile(rf"\b{re.escape(last)}([._]){re.escape(name)}\b")
        self.lines = [self._line(node) for node in layer.nodes]

    @property
    def structure(self) -> tuple[object, ...]:
        """Return what the operations are and which takes the result of which."""
        lines: list[object] = []
        for line in self.lines:
            parts = map(_without_number, line.parts)
            lines.append((line.operation, *parts))
        return tuple(lines)

    def without_numbers(self, numbered: Container[str]) -> tuple[object, ...]:
        """Return all that layers have in common which are alike; ``numbered`` are the operations
        whose numbers do not count.
        """
        lines: list[object] = []
        for node, line in zip(self.nodes, self.lines, strict=True):
            if brief_operation(node) in numbered:
                line = line._replace(parts=tuple(map(_without_number, line.parts)))
            lines.append(line)
        return tuple(lines)

    def _line(self, node: model.Node) -> _Line:
        if node.op in ("placeholder", "get_attr"):
            return _Line(node.op, value_text(node), ())
        parts = map(self._part, ARGUMENT_PARTS.findall(self._without_address(node.arguments)))
        return _Line(operation(node), value_text(node), tuple(parts))

    def _part(self, text: str) -> str:
        if text in self._own:
            return f"#{self._own[text]}"
        return "input" if text in self._all else text

    def _without_address(self, text: str) -> str:
        """Return the text with the number of the layer left out of names like ``layers.3.attn``."""
        return self._address.sub(r"layer", text)

    def has(self, node: model.Node) -> bool:
        """Return whether a node is one of the layer's, and not only read by it."""
        return node.name in self._own

    def graph(self) -> list[model.Node]:
        """Return the layer as a graph of its own: what it reads from outside is an input."""
        inputs: dict[str, model.Node] = {}
        own: list[model.Node] = []
        for node in self.nodes:
            arguments = self._without_address(node.arguments)
            own.append(replace(node, module="", arguments=arguments))
            if node.op == "placeholder":
                continue
            for text in ARGUMENT_PARTS.findall(arguments):
                if text in self._all and text not in self._own:
                    inputs[text] = replace(self._all[text], op="placeholder", arguments="")
        return [*inputs.values(), *own]


def _without_number(part: str) -> str:
    return "N" if part.lstrip("-")[:1].isdecimal() else part


def _difference(usual: _LayerText, other: _LayerText, numbered: Container[str]) -> str:
    """Describe how a layer differs from the usual one. The numbers of operations ``numbered`` do
    not count.
    """
    added: list[model.Node] = []
    removed: list[model.Node] = []
    both: list[NodePair] = []
    for pair in align_graphs(usual.graph(), other.graph()).pairs:
        # What a layer reads from outside is no node of it.
        before = pair.before if pair.before and usual.has(pair.before) else None
        after = pair.after if pair.after and other.has(pair.after) else None
        if before and after:
            if brief_operation(after) not in numbered:
                both.append(pair)
        elif after:
            added.append(after)
        elif before:
            removed.append(before)
    parts: list[str] = []
    if added:
        parts.append(f"also {name_operations(added)}")
    if removed:
        parts.append(f"without {name_operations(removed)}")
    rewired = [pair for pair in both if pair.changes == (OTHER_INPUTS,)]
    changed = [pair for pair in both if pair.changes and pair not in rewired]
    if changed:
        parts.append(_describe_changes(changed))
    alignment = GraphAlignment(tuple(both))
    if alignment.sizes:
        parts.append(describe_sizes(alignment.sizes, alignment.resized))
    if not parts and rewired:
        return f"{counted(len(rewired), 'operation')} with other inputs"
    return "; ".join(parts) or DIFFERS


def _describe_changes(pairs: Sequence[NodePair]) -> str:
    """Return ``0.5 → 0.25 in mul``."""
    counts: Counter[str] = Counter()
    for pair in pairs:
        assert pair.after is not None
        name = brief_operation(pair.after)
        counts.update(f"{change} in {name}" for change in pair.changes)
    texts = [f"{what} {count:,}×" if count > 1 else what for what, count in counts.most_common()]
    return listed(texts)
