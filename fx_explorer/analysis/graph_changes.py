"""This module says in words how the graphs of two compilations of one function differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.diff import DiffRow, graph_diff
from fx_explorer.analysis.naming import SizeNames, has_symbols
from fx_explorer.analysis.words import counted, listed
from fx_explorer.session import SessionReader


def graphs_in_words(reader: SessionReader, before: int, after: int) -> str:
    """Say how the Dynamo graphs of two compilations (row ids) differ; empty when one of them has
    none.
    """
    nodes = []
    for row in (before, after):
        graphs = reader.rows(model.Graph, compilation=row, stage="dynamo", parent=0, limit=1)
        if not graphs:
            return ""
        nodes.append(reader.nodes(graphs[0]))
    sentence = difference(*nodes)
    if not has_symbols(sentence):
        return sentence
    sizes = SizeNames(reader, (before, after))
    return sizes.in_text(before, sizes.in_text(after, sentence))


def difference(before: Sequence[model.Node], after: Sequence[model.Node]) -> str:
    """Return ``the graphs are the same but for sizes``, ``1 operation more: sub`` or
    ``the same operations with other arguments: …``.
    """
    rows = [row for row in graph_diff(_operations(before), _operations(after)) if row.sign != " "]
    calls = [row for row in rows if _is_call(row)]
    if not calls:
        return _same_operations(before, after)
    old, new = _counts(before), _counts(after)
    if old != new:
        return _counted_differences(old, new)
    pairs = [(row.before, row.after) for row in calls if row.before and row.after]
    numbers = _numbers(before) | _numbers(after)
    results = {node.name for node in (*before, *after)} - numbers
    pairs = [(_renamed(a, results), _renamed(b, results)) for a, b in pairs]
    if _numbers(before) != _numbers(after) and all(
        _unnumbered(a, numbers) == _unnumbered(b, numbers) for a, b in pairs
    ):
        return "the graphs are the same; a size or number that was compiled in is an input now"
    changed = dict.fromkeys(f"{_call(a)} → {_call(b)}" for a, b in pairs if _call(a) != _call(b))
    if changed:
        return f"the same operations with other arguments: {listed(changed)}"
    return "the same operations on other values"


def _operations(nodes: Sequence[model.Node]) -> list[model.Node]:
    """Return the nodes without shapes and dtypes, and without inputs that are sizes: which
    operation is applied to what.
    """
    return [
        replace(node, shape=None, dtype="")
        for node in nodes
        if node.op != "placeholder" or node.shape is not None
    ]


def _numbers(nodes: Sequence[model.Node]) -> set[str]:
    """Return the names of the inputs that are sizes or numbers."""
    return {node.name for node in nodes if node.op == "placeholder" and node.shape is None}


def _unnumbered(node: model.Node, numbers: set[str]) -> str:
    """Return the arguments of a node with ``#`` in the place of each number and each size."""

    def without_number(word: re.Match[str]) -> str:
        is_number = word[0] in numbers or word[0][0].isdecimal()
        return "#" if is_number else word[0]

    return _WORD.sub(without_number, node.arguments)


def _renamed(node: model.Node, results: Collection[str]) -> model.Node:
    """Return the node with its arguments as they are without the numbers by which FX distinguishes
    names: one operation more before it, and each has another one.
    """

    def without_its_number(word: re.Match[str]) -> str:
        if word[0] in results:
            return _NUMBER.sub("", word[0])
        return word[0]

    return replace(node, arguments=_WORD.sub(without_its_number, node.arguments))


_WORD, _NUMBER = re.compile(r"\b[\w.]+\b"), re.compile(r"_\d+$")


def _is_call(row: DiffRow[model.Node]) -> bool:
    return any(node is not None and node.op.startswith("call_") for node in (row.before, row.after))


def _same_operations(before: Sequence[model.Node], after: Sequence[model.Node]) -> str:
    old = [node for node in before if node.shape is not None]
    new = [node for node in after if node.shape is not None]
    others = []
    if [node.dtype for node in old] != [node.dtype for node in new]:
        others.append("dtypes")
    if [node.shape for node in old] != [node.shape for node in new]:
        others.append("sizes")
    if others:
        return f"the graphs are the same but for {listed(others)}"
    return "the graphs are the same"


def _counts(nodes: Sequence[model.Node]) -> Counter[str]:
    return Counter(_short(node.target) for node in nodes if node.op.startswith("call_"))


def _counted_differences(old: Counter[str], new: Counter[str]) -> str:
    parts: list[str] = []
    for word, differing in (("more", new - old), ("less", old - new)):
        if differing:
            parts.append(f"{counted(differing.total(), 'operation')} {word}: {_named(differing)}")
    return ", ".join(parts)


def _named(differing: Counter[str]) -> str:
    names = []
    for name, number in differing.most_common():
        names.append(name if number == 1 else f"{number}× {name}")
    return listed(names, 5)


def _call(node: model.Node) -> str:
    return f"{_short(node.target)}({node.arguments})"


def _short(target: str) -> str:
    """Return ``gelu`` for ``torch._C._nn.gelu``, and ``mul`` for ``aten.mul.Tensor``."""
    plain = target.removeprefix("torch.ops.")
    if plain.startswith("aten."):
        return plain.split(".")[1]
    return plain.rpartition(".")[2]
