"""This module shows the difference of two graphs, or of two texts, as rows that stand side by
side.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, NamedTuple, TypeVar

from fx_explorer import model
from fx_explorer.analysis.words import counted
from fx_explorer.model.bounded_matching import MOST_STEPS, BoundedMatcher

Sign = Literal[" ", "-", "+", "~"]
"""``" "`` the same, ``-`` only before, ``+`` only after, ``~`` changed."""

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class DiffRow(Generic[ItemT]):
    sign: Sign
    before: ItemT | None
    after: ItemT | None


class DiffRows(list[DiffRow[ItemT]]):
    """All rows of a comparison, and whether it came to its end."""

    is_cut = False
    """Whether some rows that are shown as different may be the same (MOST_STEPS, MOST_LINES)."""


def graph_diff(before: Sequence[model.Node], after: Sequence[model.Node]) -> DiffRows[model.Node]:
    """Compare two graphs by what a node computes on what: a node that was only renamed, and those
    that use it, are the same.

    ``~`` is a node that computes the same on another size, dtype or number, or that kept its name,
    or its target, in the place of another.
    """
    old, new = _signatures(before), _signatures(after)
    # What a large graph does often is no junk to be passed over, as difflib's heuristic has it.
    matcher = BoundedMatcher(
        [signature.what for signature in old],
        [signature.what for signature in new],
        autojunk=False,
    )
    whole = {}
    for nodes, signatures in ((before, old), (after, new)):
        for node, signature in zip(nodes, signatures, strict=True):
            whole[id(node)] = signature.whole
    rows = DiffRows(
        _compared(row, whole) for row in _rows(before, after, matcher, _is_changed_node)
    )
    rows.is_cut = matcher.is_cut
    return rows


def _compared(row: DiffRow[model.Node], whole: Mapping[int, str]) -> DiffRow[model.Node]:
    if row.sign != " " or whole[id(row.before)] == whole[id(row.after)]:
        return row
    return replace(row, sign="~")


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
"""Most lines of a text that are compared line by line. The output code of a model with 1,000
kernels has as many.
"""


def comparable(lines: Sequence[str]) -> list[str]:
    """Return ``lines`` up to a limit. A last line then says how many more there are; it is equal
    for two texts only if these further lines are equal.
    """
    if len(lines) <= MOST_LINES + 1:  # a text that was cut already stays as it is
        return list(lines)
    rest = "\n".join(lines[MOST_LINES:]).encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(rest).hexdigest()[:16]
    return [
        *lines[:MOST_LINES],
        f"… {len(lines) - MOST_LINES:,} more lines are not compared one by one (digest {digest})",
    ]


CUT_IN_WORDS = (
    f"the comparison was cut off (after {MOST_LINES:,} lines or {MOST_STEPS:,} steps), "
    "so some of what counts as different may be the same"
)


_NAME = re.compile(r"[A-Za-z_]\w*")


_NUMBER = re.compile(r"(?<![\w.#])-?\d[\w.]*")


class _Signature(NamedTuple):
    what: str
    """What a node computes, apart from sizes and numbers: nodes that differ only in these are
    paired.
    """
    whole: str


def _signatures(nodes: Sequence[model.Node]) -> list[_Signature]:
    """Write each node as its target on arguments, which are written by what they compute. Names do
    not count, except those of inputs.
    """
    known: dict[str, str] = {}
    signatures = []
    for node in nodes:
        is_input = node.op == "placeholder"
        arguments = _NAME.sub(lambda match: known.get(match[0], match[0]), node.arguments)
        does = f"{node.op} {node.name if is_input else node.target}"
        what = f"{does}({_NUMBER.sub('N', arguments)})"
        signatures.append(_Signature(what, f"{does}({arguments}) {node.shape} {node.dtype}"))
        if is_input:
            known[node.name] = node.name
        else:
            known[node.name] = f"h{hash(what):x}".replace("-", "_")
    return signatures


def _is_changed_node(before: model.Node, after: model.Node) -> bool:
    return before.op == after.op and (before.name == after.name or before.target == after.target)


def _is_changed_line(before: str, after: str) -> bool:
    return bool(before.strip()) and bool(after.strip())


def _rows(
    before: Sequence[ItemT],
    after: Sequence[ItemT],
    matcher: difflib.SequenceMatcher[str],
    is_changed: Callable[[ItemT, ItemT], bool],
) -> Iterator[DiffRow[ItemT]]:
    """Yield the rows of a comparison. Lines that replace each other share a row where
    ``is_changed`` says so.
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


def difference_in_words(
    rows: Sequence[DiffRow[model.Node]] | Sequence[DiffRow[str]], noun: str = "node"
) -> str:
    """Return ``3 nodes removed, 1 added`` or ``no difference``. A comparison that was cut off says
    so, and at what.
    """
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
