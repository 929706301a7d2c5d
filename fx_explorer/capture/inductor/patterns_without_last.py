"""This module finds the patterns of which all is in a graph but the last operator, which is where
torch begins to match: torch does not try those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from fx_explorer.capture.inductor.failed_matches import (
    MatchFailure,
    is_operator,
    operator_of,
    operators_in,
    operators_of,
    parts_of,
)
from fx_explorer.capture.inductor.near_match_rows import near_match
from fx_explorer.capture.inductor.pattern_entries import is_of_user, written_at
from fx_explorer.model import NearMatch


def without_last_operator(matcher: Any, graph: torch.fx.Graph) -> list[NearMatch]:
    """Return a row for each pattern of which all but the last operator is in a graph, and is not
    used by such an operator: torch does not try those. Of a pattern of the user's that torch tries
    nowhere, and that is not there without its last operator, return a row without a node.
    """
    nodes: dict[Any, list[torch.fx.Node]] = {}
    for node in graph.nodes:
        if node.op == "call_function":
            nodes.setdefault(node.target, []).append(node)
    entries = {id(entry): entry for of_key in matcher.patterns.values() for entry in of_key}
    rows: list[NearMatch] = []
    for entry in entries.values():
        rows_of_entry = list(_without_last(entry, nodes))
        is_tried = any(nodes.get(target) for target in getattr(entry.pattern, "fns", ()))
        if not rows_of_entry and not is_tried and is_of_user(written_at(entry)[0]):
            whole = _first_operator(entry.pattern)
            if whole is not None:
                failure = MatchFailure("last operator", (), expected=operators_of(whole))
                rows_of_entry.append(near_match(entry, failure, "", 0))
        rows += rows_of_entry
    return rows


def _first_operator(pattern: Any) -> Any:
    operators = operators_in(pattern)
    return operators[0] if operators else None


def _without_last(entry: Any, nodes: dict[Any, list[torch.fx.Node]]) -> Iterator[NearMatch]:
    whole = _first_operator(entry.pattern)
    if whole is None:
        return
    size = len(operators_in(entry.pattern))
    least = 1 if is_of_user(written_at(entry)[0]) else 2
    for part in parts_of(whole):
        if not is_operator(part):
            continue
        matching = len(operators_in(part))
        if matching < least or matching * 2 < size:
            continue
        for node in [node for target in part.fns_set for node in nodes.get(target, ())]:
            if any(user.target in whole.fns_set for user in node.users):
                continue
            match = part.match(node)
            if match:
                matched = tuple(node.name for node in match.nodes)
                users = ", ".join(operator_of(user) for user in node.users) or "nothing"
                failure = MatchFailure(
                    "last operator", matched, node.name, "", operators_of(whole), users
                )
                yield near_match(entry, failure, node.name, matching)
