"""The stages that backends published in two sessions, paired by their names."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fx_explorer.analysis.diff import difference_in_words, graph_diff, text_diff
from fx_explorer.analysis.documents import lines_of, rows_of
from fx_explorer.analysis.published import ShownStage, published_stages
from fx_explorer.session import SessionReader

_Key = tuple[str, str, str, int]
"""(compilation, name, direction, how many of these were published before)."""


@dataclass(frozen=True, slots=True)
class StagePair:
    """A stage of the same name, compilation and direction of each side; None where a side has
    none.
    """

    compilation: str
    name: str
    direction: str
    left: ShownStage | None
    right: ShownStage | None
    difference: str
    """``2 lines changed``, ``no difference``, ``only in the first``."""

    @property
    def differs(self) -> bool:
        return self.difference != "no difference"


def stage_pairs(left: SessionReader, right: SessionReader) -> list[StagePair]:
    """Return every stage that either session has, in the order of publishing."""
    sides = _by_key(left), _by_key(right)
    pairs = []
    for key in dict.fromkeys((*sides[0], *sides[1])):
        compilation, name, direction, _ = key
        one, other = sides[0].get(key), sides[1].get(key)
        pairs.append(
            StagePair(
                compilation, name, direction, one, other, _difference(left, right, one, other)
            )
        )
    return pairs


def _by_key(reader: SessionReader) -> dict[_Key, ShownStage]:
    seen: Counter[tuple[str, str, str]] = Counter()
    found: dict[_Key, ShownStage] = {}
    for one in published_stages(reader):
        key = one.document.owner, one.stage.name, one.stage.direction
        found[key[0], key[1], key[2], seen[key]] = one
        seen[key] += 1
    return found


def _difference(
    left: SessionReader, right: SessionReader, one: ShownStage | None, other: ShownStage | None
) -> str:
    if one is None or other is None:
        return "only in the second" if one is None else "only in the first"
    if one.document.kind != other.document.kind:
        return f"a {_kind(one)} in the first, a {_kind(other)} in the second"
    if one.document.kind == "graph":
        return difference_in_words(
            graph_diff(rows_of(left, one.document), rows_of(right, other.document))
        )
    return difference_in_words(
        text_diff(lines_of(left, one.document), lines_of(right, other.document)), "line"
    )


def _kind(one: ShownStage) -> str:
    return "graph" if one.document.kind == "graph" else "text"
