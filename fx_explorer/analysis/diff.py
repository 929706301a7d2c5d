"""This module computes the difference of two graphs, or of two texts, as rows side by side, and
describes how the graphs of two compilations of one function differ.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

from fx_explorer import model
from fx_explorer.analysis.alignment_words import describe_alignment
from fx_explorer.analysis.graph_alignment import NodePair, align_graphs
from fx_explorer.analysis.naming import SizeNames, has_symbols
from fx_explorer.analysis.words import counted, listed
from fx_explorer.model.bounded_matching import MOST_STEPS, BoundedMatcher
from fx_explorer.session import SessionReader

Sign = Literal[" ", "-", "+", "~", "≈"]
"""``" "`` the same, ``-`` only before, ``+`` only after, ``~`` changed, ``≈`` the same node of a
graph with other sizes.
"""

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class DiffRow(Generic[ItemT]):
    sign: Sign
    before: ItemT | None
    after: ItemT | None


class DiffRows(list[DiffRow[ItemT]]):
    """All rows of a comparison, and whether it was complete."""

    is_cut = False
    """Whether some rows that are shown as different may be the same (MOST_STEPS, MOST_LINES)."""
    words = ""
    """How two graphs differ; empty for texts."""


def graph_diff(before: Sequence[model.Node], after: Sequence[model.Node]) -> DiffRows[model.Node]:
    """Compare two graphs, aligned by their structure: a node that was only renamed is the same, and
    ``≈`` is one with other sizes and no other difference.
    """
    alignment = align_graphs(before, after)
    rows = DiffRows(DiffRow(_sign(pair), pair.before, pair.after) for pair in alignment.pairs)
    rows.is_cut = alignment.is_cut
    rows.words = describe_alignment(alignment)
    return rows


def _sign(pair: NodePair) -> Sign:
    if pair.after is None:
        return "-"
    if pair.before is None:
        return "+"
    if pair.changes:
        return "~"
    return "≈" if pair.sizes else " "


def text_diff(before: Sequence[str], after: Sequence[str]) -> DiffRows[str]:
    """Compare two texts line by line, as far as they are ``comparable``. Lines that repeat often
    are no anchors in long texts, so 10,000 lines take only a moment.
    """
    is_long = max(len(before), len(after)) > MOST_LINES + 1
    before, after = comparable(before), comparable(after)
    matcher = BoundedMatcher(before, after)
    rows = DiffRows(_rows(before, after, matcher, _is_changed_line))
    rows.is_cut = matcher.is_cut or (
        is_long and rows[-1].sign != " "
    )  # the last row is about all that is not compared
    return rows


MOST_LINES = 50_000
"""Maximum number of lines of a text that are compared line by line. The output code of a model with
1,000 kernels has as many.
"""


def comparable(lines: Sequence[str]) -> list[str]:
    """Return ``lines`` up to a limit. A last line then has the number of further lines; it is equal
    for two texts only if these are equal.
    """
    if len(lines) <= MOST_LINES + 1:  # a text that was cut already stays as it is
        return list(lines)
    rest = "\n".join(lines[MOST_LINES:]).encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(rest).hexdigest()[:16]
    return [
        *lines[:MOST_LINES],
        f"… {counted(len(lines) - MOST_LINES, 'more line')} not compared one by one "
        f"(digest {digest})",
    ]


CUT_IN_WORDS = (
    f"the comparison stopped after {MOST_LINES:,} lines or {MOST_STEPS:,} steps, so some lines "
    "shown as different may be equal"
)


def _is_changed_line(before: str, after: str) -> bool:
    return bool(before.strip()) and bool(after.strip())


def _rows(
    before: Sequence[ItemT],
    after: Sequence[ItemT],
    matcher: difflib.SequenceMatcher[str],
    is_changed: Callable[[ItemT, ItemT], bool],
) -> Iterator[DiffRow[ItemT]]:
    """Yield the rows of a comparison. Lines that replace each other share a row if ``is_changed``
    returns True.
    """
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        if kind == "equal":
            for old, new in zip(before[i:i_end], after[j:j_end], strict=True):
                yield DiffRow(" ", old, new)
            continue
        common = min(i_end - i, j_end - j)
        for old, new in zip(before[i : i + common], after[j : j + common], strict=True):
            if is_changed(old, new):
                yield DiffRow("~", old, new)
            else:
                yield DiffRow("-", old, None)
                yield DiffRow("+", None, new)
        for old in before[i + common : i_end]:
            yield DiffRow("-", old, None)
        for new in after[j + common : j_end]:
            yield DiffRow("+", None, new)


def describe_difference(
    rows: Sequence[DiffRow[model.Node]] | Sequence[DiffRow[str]], noun: str = "node"
) -> str:
    """Return ``3 lines removed, 1 added`` or ``no difference``, for graphs also the names of the
    nodes and the sizes (``describe_alignment``). For a comparison that was cut off,
    the text says so, and where.
    """
    if isinstance(rows, DiffRows) and rows.words:
        return f"{rows.words}; {CUT_IN_WORDS}" if rows.is_cut else rows.words
    parts: list[str] = []
    for sign, verb in (("-", "removed"), ("+", "added"), ("~", "changed")):
        count = sum(row.sign == sign for row in rows)
        if count:
            # The noun stands with the first number only.
            amount = f"{count:,}" if parts else counted(count, noun)
            parts.append(f"{amount} {verb}")
    sentence = ", ".join(parts) or "no difference"
    if isinstance(rows, DiffRows) and rows.is_cut:
        sentence += f"; {CUT_IN_WORDS}"
    return sentence


def describe_graphs(reader: SessionReader, before: int, after: int) -> str:
    """Describe how the Dynamo graphs of two compilations (row ids) differ; empty if one has
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
        return "the graphs are equal, except that a constant size or number became an input"
    changed = dict.fromkeys(f"{_call(a)} → {_call(b)}" for a, b in pairs if _call(a) != _call(b))
    if changed:
        return f"the same operations with other arguments: {listed(changed)}"
    return "the same operations on other values"


def _operations(nodes: Sequence[model.Node]) -> list[model.Node]:
    """Return the nodes without shapes and dtypes, and without inputs that are sizes, so that only
    operations and their inputs count.
    """
    kept = [node for node in nodes if node.op != "placeholder" or node.shape is not None]
    return [replace(node, shape=None, dtype="") for node in kept]


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
    """Return the node without the numbers that FX adds to names, also in its arguments: an
    additional operation before it would change all of them.
    """

    def without_its_number(word: re.Match[str]) -> str:
        if word[0] in results:
            return _NUMBERED.sub("", word[0])
        return word[0]

    return replace(node, arguments=_WORD.sub(without_its_number, node.arguments))


_WORD, _NUMBERED = re.compile(r"\b[\w.]+\b"), re.compile(r"_\d+$")


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
        return f"the graphs are equal except for {listed(others)}"
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
        times = f"{number}× " if number > 1 else ""
        names.append(f"{times}{name}")
    return listed(names, 5)


def _call(node: model.Node) -> str:
    return f"{_short(node.target)}({node.arguments})"


def _short(target: str) -> str:
    """Return ``gelu`` for ``torch._C._nn.gelu``, and ``mul`` for ``aten.mul.Tensor``."""
    plain = target.removeprefix("torch.ops.")
    if plain.startswith("aten."):
        return plain.split(".")[1]
    return plain.rpartition(".")[2]
