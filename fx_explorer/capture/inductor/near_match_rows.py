"""This module makes the rows of the patterns that were tried at a node of a graph and were not
applied: one for each node and kind of failure, with the patterns that failed in this way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch

from fx_explorer.capture.inductor.alike_nodes import AlikeNodes
from fx_explorer.capture.inductor.failed_matches import (
    MatchFailure,
    MatchLog,
    operators_in,
    torch_says,
)
from fx_explorer.capture.inductor.pattern_entries import (
    is_of_user,
    pattern_name,
    plain_function,
    written_at,
    written_check,
)
from fx_explorer.capture.recording.fx_graphs import qualified_name
from fx_explorer.model import NearMatch

MOST_OF_NODE = 40
"""Maximum number of rows that are kept of one node in one pass, those that matched most."""

COMPARED = 3
"""Maximum number of patterns that failed alike of which it is counted how much is there: the
smallest, of different sizes.
"""

MOST_CHARACTERS = 300
"""Maximum number of characters of torch's own text."""


@dataclass(eq=False)
class MatchAttempt:
    """One pattern that was tried at one node."""

    entry: Any
    node: torch.fx.Node
    log: MatchLog
    match: Any = None
    """Torch's Match; None where the pattern did not match."""
    was_checked: bool = False
    was_applied: bool = False
    has_replaced: bool = False
    """Whether nothing uses the node since. The function of a pattern may leave the graph as it is.
    """
    failure: MatchFailure | None = None
    """Why it is not applied; None where it is."""


def rows_of_attempts(attempts: Iterable[MatchAttempt]) -> list[NearMatch]:
    """Return a row for each node and kind of failure, with the patterns that failed in this way."""
    by_node: dict[torch.fx.Node, dict[MatchFailure, list[MatchAttempt]]] = {}
    replaced: set[torch.fx.Node] = set()
    for attempt in attempts:
        failure = _failure_of(attempt)
        if attempt.has_replaced:
            replaced.add(attempt.node)
        if failure is not None and attempt.node not in replaced:
            by_node.setdefault(attempt.node, {}).setdefault(failure, []).append(attempt)
    rows: list[NearMatch] = []
    alike = AlikeNodes()
    for node, groups in by_node.items():
        of_node = [_row(node, failure, group, alike) for failure, group in groups.items()]
        of_node.sort(key=lambda row: (-row.alike / row.size, -row.size))
        rows += of_node[:MOST_OF_NODE]
    return rows


def _row(
    node: torch.fx.Node, failure: MatchFailure, group: list[MatchAttempt], alike_nodes: AlikeNodes
) -> NearMatch:
    """Return the row of patterns that failed alike: that of the nearest, with all names."""
    entries = {len(operators_in(attempt.entry.pattern)): attempt.entry for attempt in group}
    rows = []
    for size in sorted(entries)[:COMPARED]:
        alike = len(failure.matched)
        if failure.is_of_structure:
            alike = max(alike, alike_nodes.count(entries[size].pattern, node))
        rows.append(near_match(entries[size], failure, node.name, alike))
    nearest = max(rows, key=lambda row: (row.alike / row.size, row.size))
    names = dict.fromkeys([*nearest.patterns, *(pattern_name(each.entry) for each in group)])
    return replace(nearest, patterns=tuple(names))


def _failure_of(attempt: MatchAttempt) -> MatchFailure | None:
    """Return why a pattern was not applied at a node; None where it was."""
    if attempt.was_applied:
        return None
    if attempt.failure is not None:
        return attempt.failure
    if attempt.match is None:
        return attempt.log.failure()
    matched = tuple(node.name for node in attempt.match.nodes)
    if attempt.was_checked:
        # It answered with a symbolic truth value that torch does not take for a yes.
        name = qualified_name(plain_function(written_check(attempt.entry)))
        return MatchFailure("check", matched, expected=name, found="not known while compiling")
    regions = {node.meta.get("mutation_region_id") for node in attempt.match.nodes}
    return MatchFailure("mutation" if len(regions) > 1 else "stream", matched)


def near_match(entry: Any, failure: MatchFailure, node: str, alike: int) -> NearMatch:
    """Return the row of a pattern that failed at a node; the graph and the pass are filled in when
    they are stored.
    """
    file, line = written_at(entry)
    return NearMatch(
        id=0,
        graph=0,
        graph_pass=0,
        name=node,
        patterns=(pattern_name(entry),),
        is_users=is_of_user(file),
        file=file,
        line=line,
        matched=failure.matched,
        alike=alike,
        size=max(1, len(operators_in(entry.pattern))),
        check=failure.check,
        is_specific=failure.is_specific,
        at=failure.at,
        input_of=failure.input_of,
        expected=failure.expected,
        found=failure.found,
        check_file=failure.check_file,
        check_line=failure.check_line,
        torch_says=cut(torch_says(failure.failed)),
    )


def cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
