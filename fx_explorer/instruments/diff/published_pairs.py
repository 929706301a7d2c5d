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
        stage, other = sides[0].get(key), sides[1].get(key)
        pairs.append(
            StagePair(
                compilation, name, direction, stage, other, _difference(left, right, stage, other)
            )
        )
    return pairs


def _by_key(reader: SessionReader) -> dict[_Key, ShownStage]:
    seen: Counter[tuple[str, str, str]] = Counter()
    found: dict[_Key, ShownStage] = {}
    for stage in published_stages(reader):
        key = stage.document.owner, stage.stage.name, stage.stage.direction
        found[key[0], key[1], key[2], seen[key]] = stage
        seen[key] += 1
    return found


def _difference(
    left: SessionReader, right: SessionReader, stage: ShownStage | None, other: ShownStage | None
) -> str:
    if stage is None or other is None:
        return "only in the second" if stage is None else "only in the first"
    if stage.document.kind != other.document.kind:
        return f"a {_kind(stage)} in the first, a {_kind(other)} in the second"
    if stage.document.kind == "graph":
        return difference_in_words(
            graph_diff(rows_of(left, stage.document), rows_of(right, other.document))
        )
    return difference_in_words(
        text_diff(lines_of(left, stage.document), lines_of(right, other.document)), "line"
    )


def _kind(stage: ShownStage) -> str:
    return "graph" if stage.document.kind == "graph" else "text"
