"""This module reads what passes changed, and tells the history of a node.

A node keeps its name from graph to graph of a compilation, so its history is found by its name:
passes over the joint graph, then over the graph of its direction.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fx_explorer import model
from fx_explorer.analysis.input_names import user_names_of_nodes
from fx_explorer.analysis.lineage import graphs_in_use
from fx_explorer.analysis.words import listed
from fx_explorer.session import SessionReader
from fx_explorer.session.reader import answered_once

STAGE_PASSES = ("pre_grad", "joint", "post_grad")
"""Names of the rows that stand for all passes of a stage."""


@dataclass(frozen=True, slots=True)
class PassStep:
    """A pass that changed something, with what it did itself."""

    row: model.GraphPass
    depth: int
    """Number of passes that it runs inside."""
    changes: Sequence[model.PassChange]
    replaced: int
    """Number of nodes that it made in the place of one of the same operator, which it removed,
    passes inside included.
    """


@dataclass(frozen=True, slots=True)
class GraphPasses:
    """The passes over one graph."""

    graph: model.Graph
    steps: Sequence[PassStep]
    """Those that changed something, in the order in which they ran."""
    without_effect: Sequence[str]
    """Names of those that changed nothing."""
    duration_s: float


@answered_once
def passes_by_graph(reader: SessionReader) -> list[GraphPasses]:
    """Return the passes over each graph of the variants in use."""
    used = graphs_in_use(reader)
    rows: dict[int, list[model.GraphPass]] = defaultdict(list)
    for row in reader.rows(model.GraphPass):
        if used is None or row.graph in used:
            rows[row.graph].append(row)
    changes: dict[tuple[int, int], list[model.PassChange]] = defaultdict(list)
    for change in reader.rows(model.PassChange):
        changes[change.graph, change.graph_pass].append(change)
    graphs = {graph.id: graph for graph in reader.rows(model.Graph)}
    return [
        _passes_of(graphs[graph], rows[graph], changes) for graph in sorted(rows) if graph in graphs
    ]


@answered_once
def names_of_users(reader: SessionReader, compilation: int) -> dict[str, str]:
    """Return torch's name → the user's, of the inputs and chosen results in the graphs of a
    compilation.
    """
    nodes: dict[int, str] = {}
    for graph in reader.rows(model.Graph, compilation=compilation):
        for node in reader.rows(model.Node, graph=graph.id, op="placeholder"):
            nodes[node.id] = node.name
        for node in reader.rows(model.Node, graph=graph.id, target="operator.getitem"):
            nodes[node.id] = node.name
    names: dict[str, str] = {}
    for node_id, name in user_names_of_nodes(reader, nodes).items():
        names.setdefault(nodes[node_id], name)
    return names


def in_users_words(text: str, names: Mapping[str, str]) -> str:
    """Return the text of a node with the user's names of inputs and results in it."""
    return _NAME.sub(lambda match: names.get(match[0], match[0]), text)


_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
"""Matches a node's name, and no part of a target (``_operator.getitem``)."""


def _passes_of(
    graph: model.Graph,
    rows: list[model.GraphPass],
    changes: dict[tuple[int, int], list[model.PassChange]],
) -> GraphPasses:
    rows.sort(key=lambda row: row.position)
    by_position = {row.position: row for row in rows}
    steps, without_effect = [], []
    duration_s = 0.0
    replaced: Counter[int] = Counter()
    for row in rows:
        count = len(replaced_nodes(changes.get((graph.id, row.position), [])))
        for position in (row.position, *_outer(row, by_position)):
            replaced[position] += count
    for row in rows:
        if row.parent < 0:
            duration_s += row.duration_s
        own = changes.get((graph.id, row.position), [])
        depth = len(list(_outer(row, by_position)))
        if row.made or row.erased or row.changed:
            steps.append(PassStep(row, depth, own, replaced[row.position]))
        elif row.name not in STAGE_PASSES:
            without_effect.append(row.name)
    return GraphPasses(graph, steps, without_effect, duration_s)


def _outer(row: model.GraphPass, by_position: dict[int, model.GraphPass]) -> Iterator[int]:
    """Yield the positions of the passes that a pass runs inside, innermost first."""
    while row.parent in by_position:
        row = by_position[row.parent]
        yield row.position


def replaced_nodes(changes: Sequence[model.PassChange]) -> dict[str, model.PassChange]:
    """Return, of what one pass did, name of a node that it made → the node of the same operator
    that it removed and in whose place the new one is used.
    """
    erased = {change.name: change for change in changes if change.kind == "erased"}
    pairs = {}
    for change in changes:
        if change.kind != "made" or len(change.replaced) != 1:
            continue
        old = erased.get(change.replaced[0])
        if (
            old
            and old.replaced == (change.name,)
            and _operator(old.before) == _operator(change.after)
        ):
            pairs[change.name] = old
    return pairs


def _operator(text: str) -> str:
    return text.partition("(")[0]


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """What happened to a node: the decomposition that made it, or a pass."""

    sentence: str
    change: model.PassChange | None = None
    """What the pass did; None for a decomposition."""


def history_of_node(reader: SessionReader, node: model.Node) -> list[NodeEvent]:
    """Return which operator a node is a part of, and what passes did with it, from the first to
    the last; empty where it is the operator that was called, and no pass touched it.
    """
    graph = reader.get(model.Graph, node.graph)
    graphs = reader.rows(model.Graph, compilation=graph.compilation)
    events = []
    decomposed = decomposition_of(reader, node)
    if decomposed is not None:
        events.append(NodeEvent(_describe_decomposition(decomposed)))
    for changed in graphs:
        if _is_on_the_way(changed, graph):
            changes = reader.rows(model.PassChange, name=node.name, graph=changed.id)
            events += [NodeEvent(_sentence(reader, changed, change), change) for change in changes]
    if not graph.direction:
        return _without_repetition(reader, events)
    return events


def _without_repetition(reader: SessionReader, events: Sequence[NodeEvent]) -> list[NodeEvent]:
    """Return the events of a node of the joint graph, where what passes did to it in the forward
    and in the backward graph alike is one event.
    """
    directions: dict[str, list[str]] = {}
    for event in events:
        of_sentence = directions.setdefault(event.sentence, [])
        if event.change is not None:
            direction = reader.get(model.Graph, event.change.graph).direction
            if direction and direction not in of_sentence:
                of_sentence.append(direction)
    once = {event.sentence: event for event in reversed(events)}
    kept = []
    for sentence, of_sentence in directions.items():
        event = once[sentence]
        if of_sentence:
            event = replace(event, sentence=f"{sentence} ({listed(of_sentence)})")
        kept.append(event)
    return kept


def decomposition_of(reader: SessionReader, node: model.Node) -> model.Decomposed | None:
    """Return the decomposition that made a node, whichever graph after tracing it is in; None where
    it is the operator that was called, or where a pass made it.
    """
    graph = reader.get(model.Graph, node.graph)
    if graph.stage in ("dynamo", "pre_grad"):
        return None
    for traced in reader.rows(model.Graph, compilation=graph.compilation):
        is_other = traced.direction and graph.direction and traced.direction != graph.direction
        if traced.stage not in ("joint", "forward") or is_other:
            continue
        for namesake in reader.rows(model.Node, name=node.name, graph=traced.id):
            rows = reader.rows(model.Decomposed, node=namesake.id)
            if rows:
                return rows[0]
    return None


def _describe_decomposition(decomposed: model.Decomposed) -> str:
    if not decomposed.function:
        return f"AOTAutograd traced it as a part of {decomposed.operator}"
    file = decomposed.file.replace("\\", "/").rpartition("/")[2]
    return (
        f"AOTAutograd traced it as a part of {decomposed.operator}, by its decomposition "
        f"{decomposed.function} ({file}:{decomposed.line})"
    )


def _is_on_the_way(changed: model.Graph, graph: model.Graph) -> bool:
    """Return whether the passes over a graph may have changed a node of another graph, before or
    after it was there: not those over the other direction, over Dynamo's names, or over another
    nested graph.
    """
    is_dynamos = graph.stage in ("dynamo", "pre_grad")
    if (changed.stage == "pre_grad") != is_dynamos:
        return False
    if changed.direction and graph.direction and changed.direction != graph.direction:
        return False
    return changed.parent == 0 or changed.id == graph.id


def _sentence(reader: SessionReader, graph: model.Graph, change: model.PassChange) -> str:
    where = describe_pass(reader, graph, change)
    match change.kind:
        case "made":
            text = f"{where} made it"
            if change.replaced:
                text += f" in place of {listed(change.replaced, 4)}"
            return f"{text}: {change.after}"
        case "erased":
            text = f"{where} removed it"
            if change.replaced:
                text += f"; replaced by {listed(change.replaced, 4)}"
            return text
        case _:
            return f"{where} changed it: {change.before} → {change.after}"


def describe_pass(reader: SessionReader, graph: model.Graph, change: model.PassChange) -> str:
    """Return ``joint: pass_pattern_1 › pattern_matcher, pattern div_softmax_pattern``."""
    pattern = f", pattern {change.pattern}" if change.pattern else ""
    return describe_pass_at(reader, graph, change.graph_pass) + pattern


def describe_pass_at(reader: SessionReader, graph: model.Graph, position: int) -> str:
    """Return ``joint: pass_pattern_1 › pattern_matcher`` of a pass over a graph."""
    names = list(_names(reader, graph, position))
    stage: str = graph.stage
    if names and names[0] in STAGE_PASSES:
        stage = names.pop(0)
    if names:
        path = " › ".join(names)
    else:
        path = "a pass without a name"
    return f"{stage}: {path}"


def _names(reader: SessionReader, graph: model.Graph, position: int) -> Iterator[str]:
    """Yield the names of a pass and of those that it runs inside, outermost first."""
    rows = _passes_by_position(reader, graph.id)
    path = []
    while position in rows:
        path.append(rows[position].name)
        position = rows[position].parent
    yield from reversed(path)


@answered_once
def _passes_by_position(reader: SessionReader, graph: int) -> dict[int, model.GraphPass]:
    return {row.position: row for row in reader.rows(model.GraphPass, graph=graph)}
