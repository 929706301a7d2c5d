"""This module reads which patterns did not match, and says of each which check failed, with what
the pattern has there and what the graph has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.lineage import graphs_in_use
from fx_explorer.analysis.words import counted, listed
from fx_explorer.instruments.passes.figures import describe_pass_at, names_of_users
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import source_paths
from fx_explorer.session.queries.kernels import lines_of_names
from fx_explorer.session.reader import answered_once

NOT_RECORDED = (
    "Patterns that did not match are recorded only on request: capture with --record-patterns."
)

NEAR = 0.75
"""Part of a pattern's nodes that has to be there for it to be listed with the nearest."""

MOST_NAMES = 3
"""Maximum number of patterns that a sentence names."""


@dataclass(frozen=True, slots=True)
class Near:
    """Patterns that did not match at one node, with where that is."""

    row: model.NearMatch
    graph: model.Graph
    line: str
    """``model.py:12``, the user's line of the node that the check failed at, or else of the node at
    which the pattern was tried; empty without one.
    """


def is_recorded(reader: SessionReader) -> bool:
    """Return whether patterns that did not match were asked for."""
    request = reader.request()
    return bool(request and request.record_patterns) or reader.has(model.NearMatch)


@answered_once
def all_near(reader: SessionReader) -> list[Near]:
    """Return every failure of the variants in use, the nearest first; of those that are near, the
    user's own before torch's.
    """
    used = graphs_in_use(reader)
    rows = reader.rows(model.NearMatch)
    if used is not None:
        rows = [row for row in rows if row.graph in used]
    graphs = {graph.id: graph for graph in reader.rows(model.Graph)}
    lines = _lines(reader, rows, graphs)
    near = []
    for row in rows:
        if row.graph in graphs:
            places = (lines.get((row.graph, name), "") for name in (row.at, row.name))
            near.append(Near(row, graphs[row.graph], next(filter(None, places), "")))
    near.sort(key=lambda each: _order(each.row))
    return near


def _order(row: model.NearMatch) -> tuple[object, ...]:
    share = alike_share(row)
    is_far = not row.name, share < NEAR
    # 18 of 19 nodes say more than 2 of 2, and than 18 of 30.
    return *is_far, not row.is_users, -row.alike * share**2, row.id


def alike_share(row: model.NearMatch) -> float:
    """Return the part of a pattern's nodes that are there, from 0 to 1."""
    return min(1.0, row.alike / row.size)


@answered_once
def nearest(reader: SessionReader) -> list[Near]:
    """Return the failures that are worth a look where none is asked for: those of the user's own
    patterns, and of torch's those of which two nodes or more are there, and at least NEAR.
    """
    return [each for each in all_near(reader) if _is_near(each.row)]


def _is_near(row: model.NearMatch) -> bool:
    if row.is_users:
        return True
    return row.alike > 1 and alike_share(row) >= NEAR


def near_about(reader: SessionReader, about: str) -> list[Near]:
    """Return the failures of patterns with these words in their name, or, where there is none, at a
    node: tried there, or with it among what matched, or failed at it.
    """
    wanted = about.casefold()
    every = all_near(reader)
    of_patterns = [
        each for each in every if any(wanted in name.casefold() for name in each.row.patterns)
    ]
    return of_patterns or [each for each in every if _is_about_node(reader, each, about)]


def near_at(reader: SessionReader, node: model.Node) -> list[Near]:
    """Return the failures at a node, of the passes over its graph or over one of the same name in
    its compilation; nearest first.
    """
    compilation = reader.get(model.Graph, node.graph).compilation
    return [
        each
        for each in all_near(reader)
        if each.graph.compilation == compilation and node.name in _nodes(each.row)
    ]


def _is_about_node(reader: SessionReader, near: Near, about: str) -> bool:
    if about in _nodes(near.row):
        return True
    names = names_of_users(reader, near.graph.compilation)
    return any(names.get(name) == about for name in _nodes(near.row))


def _nodes(row: model.NearMatch) -> set[str]:
    return {row.name, row.at, row.input_of, *row.matched} - {""}


def _lines(
    reader: SessionReader, rows: Iterable[model.NearMatch], graphs: dict[int, model.Graph]
) -> dict[tuple[int, str], str]:
    """Return (graph, name of a node) → ``model.py:12``. A node that is not in the graph any more is
    looked for in the others of the compilation.
    """
    wanted = {(row.graph, name) for row in rows for name in (row.at, row.name) if name}
    in_graph: dict[tuple[int, str], tuple[int, int]] = {}
    in_compilation: dict[tuple[int, str], tuple[int, int]] = {}
    names = dict.fromkeys(name for _, name in wanted)
    for name, graph, file, line in lines_of_names(reader, names):
        if graph in graphs:
            in_graph.setdefault((graph, name), (file, line))
            in_compilation.setdefault((graphs[graph].compilation, name), (file, line))
    paths = source_paths(reader)
    lines = {}
    for graph, name in wanted:
        if graph not in graphs:
            continue
        compilation = graphs[graph].compilation
        place = in_graph.get((graph, name)) or in_compilation.get((compilation, name))
        if place is not None and place[0] in paths:
            lines[graph, name] = in_file(paths[place[0]], place[1])
    return lines


# Sentences.


def describe_near(reader: SessionReader, near: Near) -> str:
    """Return ``sum_then_relu matched 1 of 2 nodes at relu (post_grad: own_patterns): for its input
    it takes aten.add.Tensor, and sub is aten.sub.Tensor (model.py:12).``
    """
    row = near.row
    names = listed(row.patterns, MOST_NAMES)
    if not row.name:
        return f"{names}: no node calls its last operator, {row.expected}."
    reason = describe_check(row)
    if near.line:
        reason += f" ({near.line})"
    where = describe_pass_at(reader, near.graph, row.graph_pass)
    return f"{names} matched {matched_text(row)} at {row.name} ({where}): {reason}."


def matched_text(row: model.NearMatch) -> str:
    """Return ``7 of 19 nodes, and 18 are there``; ``all of its 2 nodes`` where they all did."""
    matched = len(row.matched)
    if matched >= row.size:
        return f"all of its {row.size} nodes" if row.size > 1 else "its node"
    there = f", and {row.alike} are there" if row.alike > matched else ""
    return f"{matched} of its {row.size} nodes{there}"


def describe_check(row: model.NearMatch) -> str:
    """Return which check failed, with both values, without a full stop."""
    text = _SENTENCES[row.check](row)
    if row.is_specific and row.check != "traced":
        return f"with the shapes and numbers of your program, {text}"
    return text


def _operator(row: model.NearMatch) -> str:
    where = f"as an input of {row.input_of} it" if row.input_of else "it"
    found = f"{row.at} is {row.found}" if row.at else f"there is {row.found}"
    return f"{where} takes {row.expected}, and {found}"


def _users(row: model.NearMatch) -> str:
    return f"it expects {row.at} with {_uses(row.expected)}, but it has {row.found}"


def _uses(count: str) -> str:
    return counted(int(count), "user") if count.isdecimal() else f"{count} users"


def _last_operator(row: model.NearMatch) -> str:
    return f"it expects {row.expected} as the user of {row.at}, but found {row.found}"


def _check(row: model.NearMatch) -> str:
    name, _, condition = row.expected.partition(": ")
    name = name.rpartition(".")[2]
    at = f" ({in_file(row.check_file, row.check_line)})" if row.check_line else ""
    text = f"its check {name} refused{at}"
    if condition:
        text += f": {condition}"
    if row.found:
        text += f", where {row.found}"
    return text


_SENTENCES: dict[model.FailedCheck, Callable[[model.NearMatch], str]] = {
    "operator": _operator,
    "inputs": lambda row: f"it expects {row.at} with {row.expected}, but it has {row.found}",
    "users": _users,
    "value": lambda row: f"it expects {row.at} with {row.expected}, but it has {row.found}",
    "same node": lambda row: f"it expects {row.expected} again, but found {row.found}",
    "last operator": _last_operator,
    "other": lambda row: f"torch says: {row.torch_says}",
    "traced": lambda row: f"it cannot be traced with the shapes of your program: {row.found}",
    "check": _check,
    "mutation": lambda row: "a mutation is between the nodes that matched",
    "stream": lambda row: "the nodes that matched are on several streams",
}  # fmt: skip


def near_json(reader: SessionReader, rows: Iterable[Near]) -> list[dict[str, object]]:
    """Return one object for each failure."""
    return [_object(reader, near) for near in rows]


def _object(reader: SessionReader, near: Near) -> dict[str, object]:
    row = near.row
    return {
        "patterns": list(row.patterns),
        "node": row.name,
        "matched": len(row.matched),
        "alike": row.alike,
        "size": row.size,
        "check": row.check,
        "sentence": describe_near(reader, near),
        "expected": row.expected,
        "found": row.found,
        "at": row.at,
        "input_of": row.input_of,
        "line": near.line,
        "pass": describe_pass_at(reader, near.graph, row.graph_pass),
        "compilation": _compilation(reader, near.graph),
        "direction": near.graph.direction,
        "matched_nodes": list(row.matched),
        "with_shapes": row.is_specific,
        "check_at": f"{row.check_file}:{row.check_line}" if row.check_line else "",
        "written_at": f"{row.file}:{row.line}" if row.line else "",
        "is_users": row.is_users,
        "torch_says": row.torch_says,
    }


def _compilation(reader: SessionReader, graph: model.Graph) -> str:
    return reader.get(model.Compilation, graph.compilation).name
