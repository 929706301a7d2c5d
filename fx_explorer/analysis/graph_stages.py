"""This module describes the stages that turn a graph into a graph: Dynamo, passes, AOTAutograd's
tracing, the partitioner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.lineage import first_variant, saving_variant
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.stage_data import Fate, StagePoint, StageWork
from fx_explorer.analysis.words import counted, listed, operation, value_text
from fx_explorer.model.rows.graph import LeftOutReason
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graphs import (
    NodeOrigin,
    PlainNode,
    left_out,
    origins,
    plain_operations,
    source_lines,
)

Counted = Iterable[tuple[int, str]]
"""Pairs of (number, counted noun). Pairs with the number 0 are left out of a sentence."""


def dynamo_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Return the work of Dynamo: how many lines became how many operations."""
    graphs = [document.id for document in point.after]
    operations, lines = len(plain_operations(reader, graphs)), source_lines(reader, graphs)
    first = first_variant(reader, reader.get(model.Compilation, point.compilation))
    if lines:
        of = (
            f"{counted(lines, 'line')} of source, from {plain_function(first.function)} on, became "
        )
    else:
        of = ""
    breaks = reader.count(model.GraphBreak, compilation=first.id)
    cut = f", up to {counted(breaks, 'graph break')}" if breaks else ""
    sentence = f"{point.title}: {of}{counted(operations, 'operation')}{cut}."
    return StageWork(point, lines, operations, {}, {"made": operations}, sentence)


def published_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Return the work of a stage that a backend published, of which only the size is known."""
    before = len(plain_operations(reader, [document.id for document in point.before]))
    if point.after[0].kind == "graph":
        after = len(plain_operations(reader, [document.id for document in point.after]))
        size = counted(len(point.after), "graph")
    else:
        after = sum(document.line_count for document in point.after)
        size = counted(after, "line")
    given = f"for the {counted(before, 'operation')} that the backend was given"
    return StageWork(point, before, after, {}, {}, f"{point.title}: {size} {given}.")


# passes


def passes_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Return the work of passes that edit a graph."""
    pair = graph_pair(reader, point.before, point.after)
    before, after = len(pair.before), len(pair.after)
    if _are_of_regions(reader, point):
        parts = (
            f"{counted(after, 'operation')} of {before:,} are in "
            f"{counted(len(point.after), 'region')} that are compiled separately"
        )
        return StageWork(point, before, after, {}, {}, f"{point.title}: {parts}.")
    fates = _fates_after_passes(pair)
    was, made = _counts(fates, pair.before), _counts(fates, pair.after)
    amounts = _nonzero(
        [
            (made["kept"], f"{made['kept']:,} kept"),
            (made["changed"], f"{made['changed']:,} changed"),
            (made["replaced"], f"{was['replaced']:,} replaced by {made['replaced']:,}"),
            (made["fused"], f"{was['fused']:,} fused into {made['fused']:,}"),
            (made["decomposed"], f"{was['decomposed']:,} decomposed into {made['decomposed']:,}"),
            (made["made"], f"{made['made']:,} made"),
            (was["removed"], f"{was['removed']:,} removed"),
        ]
    )
    is_as_before = made["kept"] == before == after
    if is_as_before:
        text = f" changed nothing: {counted(before, 'operation')}"
    else:
        text = f": {_became(before, after)}: {amounts}"
    changed = {child: link.parent for child, link in pair.same.items() if link.differs}
    return StageWork(point, before, after, was, made, f"{point.title}{text}.", fates, changed)


class NodeChange(NamedTuple):
    """The texts of an operation before and after a stage; empty strings where they are equal."""

    name: str
    """The name before; the name after is the node's own."""
    operation: str
    """``view → reshape``."""
    value: str
    """``f32[4] → f32[4, 1]``."""
    arguments: str
    """``x, 2 → x, 3``."""

    @property
    def text(self) -> str:
        """Everything that changed, in one line."""
        name = f"was called {self.name}" if self.name else ""
        return "; ".join(filter(None, (self.operation, self.arguments, self.value, name)))


def node_change(before: model.Node, after: model.Node) -> NodeChange:
    """Compare an operation before a stage with the same one after it."""
    return NodeChange(
        before.name if before.name != after.name else "",
        _arrow(_within_aten(before), _within_aten(after)),
        _arrow(value_text(before), value_text(after)),
        _arrow(before.arguments, after.arguments),
    )


def node_changes(
    reader: SessionReader, work: StageWork, graph: model.Graph
) -> dict[int, NodeChange]:
    """Return the changes of a graph's operations in a stage, by the id of the node: for the graph
    before the stage as for the one after it.
    """
    nodes = range(graph.first_node, graph.first_node + graph.node_count)
    pairs = [(was, now) for now, was in work.changed.items() if was in nodes or now in nodes]
    ids = {node for pair in pairs for node in pair}
    by_id = {node.id: node for node in reader.by_ids(model.Node, sorted(ids))}
    changes = {}
    for was, now in pairs:
        change = node_change(by_id[was], by_id[now])
        changes[was] = changes[now] = change
    return changes


def describe_change(reader: SessionReader, work: StageWork, node: int) -> str:
    """Return what a stage changed in an operation, by its id before or after the stage; empty for
    one that it did not change.
    """
    for now, was in work.changed.items():
        if node in (now, was):
            return node_change(reader.get(model.Node, was), reader.get(model.Node, now)).text
    return ""


def _within_aten(node: model.Node) -> str:
    return operation(node).removeprefix("aten.")


def _arrow(before: str, after: str) -> str:
    return f"{before} → {after}" if before != after else ""


def _are_of_regions(reader: SessionReader, point: StagePoint) -> bool:
    """Return whether only regions of the graph were compiled, each by itself, so that nothing is
    known of the other nodes.
    """
    before = {document.id for document in point.before}
    graphs = reader.by_ids(model.Graph, [document.id for document in point.after])
    return point.key == "post_grad" and any(graph.parent in before for graph in graphs)


def _fates_after_passes(pair: StageGraphs) -> dict[int, Fate]:
    """Return the fate of each operation in the graphs before and after a pass. An operation that is
    still there has the same fate in both; the others are judged by the new operations that come
    from them.
    """
    fates: dict[int, Fate] = {}
    for child, link in pair.same.items():
        fates[child] = fates[link.parent] = "changed" if link.differs else "kept"
    gone = {node.id for node in pair.before} - fates.keys()
    places: dict[int, list[int]] = {}
    """Id of a new operation → those that are gone and that it comes from."""
    for node in pair.after:
        if node.id not in fates:
            parents = [link.parent for link in pair.parents.get(node.id, ())]
            places[node.id] = [parent for parent in parents if parent in gone]
    takers: dict[int, list[int]] = {}
    for child, parents in places.items():
        for parent in parents:
            takers.setdefault(parent, []).append(child)
    for child, parents in places.items():
        fates[child] = _fate_of_new(parents, places, takers)
    for parent in gone:
        if parent in takers:
            fates[parent] = fates[takers[parent][0]]
        else:
            fates[parent] = "removed"
    return fates


def _fate_of_new(
    parents: Sequence[int], places: Mapping[int, list[int]], takers: Mapping[int, list[int]]
) -> Fate:
    """Return how a new operation came to be: several became one, one became several, or any other
    replacement.
    """
    if not parents:
        return "made"
    if len(parents) > 1:
        is_fused = all(len(takers[parent]) == 1 for parent in parents)
        return "fused" if is_fused else "replaced"
    others = takers[parents[0]]
    if len(others) > 1 and all(len(places[other]) == 1 for other in others):
        return "decomposed"
    return "replaced"


# AOTAutograd


def tracing_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Return the work of AOTAutograd's tracing."""
    pair = graph_pair(reader, point.before, point.after)
    before, after = len(pair.before), len(pair.after)
    fates = _fates_after_tracing(pair)
    was, made = _counts(fates, pair.before), _counts(fates, pair.after)
    made_of_them = _nonzero(
        [
            (made["kept"], f"{made['kept']:,} kept"),
            (made["decomposed"], f"{made['decomposed']:,} by decomposition"),
            (made["backward"], f"{made['backward']:,} for the backward"),
            (made["view"], counted(made["view"], "view")),
            (made["made"], f"{made['made']:,} of no known origin"),
        ]
    )
    if was["removed"] == before and made["made"] == after:
        text = "; how they are related is not known"
    else:
        parts = filter(None, (made_of_them, _without_successor(was, before)))
        text = f": {'; '.join(parts)}"
    sentence = f"{point.title}: {_became(before, after)}{text}."
    return StageWork(point, before, after, was, made, sentence, fates)


def _without_successor(was: Mapping[Fate, int], before: int) -> str:
    """Return a phrase on operations that left no node in AOTAutograd's graph, and why; empty
    without any.
    """
    texts = []
    for fate, (of_one, of_several) in _LEFT_OUT.items():
        number = was[fate]
        if number:
            what = of_one if number == 1 else of_several
            texts.append(f"{number:,} {what}")
    if not texts:
        return ""
    return f"of the {before:,}, {listed(texts, len(texts))}"


_LEFT_OUT: Mapping[Fate, tuple[str, str]] = {
    "unchanged": ("returned its input unchanged", "returned their input unchanged"),
    "empty": (
        "returned nothing and has nothing to trace",
        "returned nothing and have nothing to trace",
    ),
    "unused": (
        "was traced, then removed because nothing used its result",
        "were traced, then removed because nothing used their results",
    ),
    "inlined": (
        "was replaced by the operations of the graph it calls",
        "were replaced by the operations of the graphs they call",
    ),
    "removed": ("has no known successor", "have no known successor"),
}
"""Fate → its description after a count of one, and after any other count."""


def _fates_after_tracing(pair: StageGraphs) -> dict[int, Fate]:
    """Return the fate of each operation before and after AOTAutograd's tracing."""
    backward = {node.id for node in pair.after if node.is_backward}
    forward = {}
    for parent, children in pair.children.items():
        forward[parent] = [child for child in children if child not in backward]
    fates: dict[int, Fate] = dict.fromkeys(backward, "backward")
    for node in pair.after:
        parents = [link.parent for link in pair.parents.get(node.id, ())]
        if node.id in fates:
            continue
        if not parents:
            fates[node.id] = "made"
        elif all(len(forward[parent]) == 1 for parent in parents):
            fates[node.id] = "kept"
        else:
            fates[node.id] = "view" if node.is_view else "decomposed"
    for node in pair.before:
        made = len(forward.get(node.id, ()))
        if made > 1:
            fates[node.id] = "decomposed"
        elif made:
            fates[node.id] = "kept"
        elif node.id in forward:
            fates[node.id] = "backward"
        else:
            fates[node.id] = pair.left_out.get(node.id, "removed")
    return fates


# the partitioner


def partition_work(reader: SessionReader, point: StagePoint) -> StageWork:
    """Return the work of the partitioner: the direction of each operation of the joint graph."""
    of_forward = [document for document in point.after if document.stage != "backward"]
    of_backward = [document for document in point.after if document.stage == "backward"]
    forward = graph_pair(reader, point.before, of_forward)
    backward = graph_pair(reader, point.before, of_backward)
    fates: dict[int, Fate] = {}
    for node in forward.before:
        in_forward, in_backward = node.id in forward.children, node.id in backward.children
        if in_forward and in_backward:
            fates[node.id] = "both"
        elif in_forward:
            fates[node.id] = "forward"
        elif in_backward:
            fates[node.id] = "backward"
        else:
            fates[node.id] = "removed"
    for pair in (forward, backward):
        for node in pair.after:
            parents = pair.parents.get(node.id)
            if parents:
                fates[node.id] = fates.get(parents[0].parent, "made")
            else:
                fates[node.id] = "made"
    was, made = _counts(fates, forward.before), _counts(fates, (*forward.after, *backward.after))
    again = [node for node in forward.before if fates[node.id] == "both"]
    variant = reader.get(model.Compilation, point.compilation)
    saved = reader.count(model.SavedTensor, compilation=saving_variant(reader, variant).id)
    amounts = _nonzero(
        [
            (was["both"], f"{was['both']:,} in both, so recomputed{_views_among(again)}"),
            (was["removed"], f"{was['removed']:,} removed"),
            (made["made"], f"{made['made']:,} made"),
            (saved, f"{counted(saved, 'value')} saved for the backward"),
        ]
    )
    before, forwards, backwards = len(forward.before), len(forward.after), len(backward.after)
    who = _who_cut(reader, point, was["removed"] + made["made"])
    sentence = (
        f"{who}: {counted(before, 'operation')} became {forwards:,} in the forward and "
        f"{backwards:,} in the backward"
    )
    if amounts:
        sentence += f": {amounts}"
    return StageWork(point, before, forwards + backwards, was, made, f"{sentence}.", fates)


def _views_among(nodes: Sequence[PlainNode]) -> str:
    """Say how many of the nodes are views, which take no work: others count without them."""
    views = sum(node.is_view for node in nodes)
    if not views:
        return ""
    noun = "a view" if views == 1 else "views"
    return f" ({views:,} of them {noun})"


def _who_cut(reader: SessionReader, point: StagePoint, differing: int) -> str:
    """Return who did it. If the joint graph after its passes was not recorded, the passes cannot be
    distinguished from the partitioner.
    """
    graphs = reader.by_ids(model.Graph, [document.id for document in point.before])
    is_known = all(graph.name.startswith(model.AFTER_PASSES) for graph in graphs)
    if is_known or not differing:
        return point.title
    return f"{point.title}, with the passes before it"


def _counts(fates: Mapping[int, Fate], nodes: Iterable[PlainNode]) -> Counter[Fate]:
    return Counter(fates[node.id] for node in nodes)


def _nonzero(amounts: Counted) -> str:
    """Return the texts of the amounts that are not 0, as a list in a sentence."""
    texts = [text for number, text in amounts if number]
    return listed(texts, len(texts))


def _became(before: int, after: int) -> str:
    return f"{counted(before, 'operation')} became {after:,}"


# The operations before and after a stage, and which came from which: by the links of the session,
# never by name.


@dataclass(frozen=True)
class StageGraphs:
    """The operations before and after, in the order of their graphs."""

    before: Sequence[PlainNode]
    after: Sequence[PlainNode]
    links: Sequence[NodeOrigin]
    left_out: Mapping[int, LeftOutReason] = field(default_factory=dict)
    """Operation before → why AOTAutograd may have no node for it."""

    @cached_property
    def parents(self) -> dict[int, list[NodeOrigin]]:
        """Return operation after → the operations from which it came."""
        parents: dict[int, list[NodeOrigin]] = {}
        for link in self.links:
            parents.setdefault(link.child, []).append(link)
        return parents

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """Return operation before → the result."""
        children: dict[int, list[int]] = {}
        for link in self.links:
            children.setdefault(link.parent, []).append(link.child)
        return children

    @cached_property
    def same(self) -> dict[int, NodeOrigin]:
        """Return the operations that a stage left in the graph: operation after → its link to the
        single operation of which it is a copy.
        """
        copies: dict[int, list[NodeOrigin]] = {}
        for links in self.parents.values():
            if len(links) == 1 and links[0].is_copy:
                copies.setdefault(links[0].parent, []).append(links[0])
        return {links[0].child: links[0] for links in copies.values() if len(links) == 1}


def graph_pair(
    reader: SessionReader, before: Sequence[Document], after: Sequence[Document]
) -> StageGraphs:
    """Read the operations of both, and how they are linked."""
    ids_before = [document.id for document in before]
    ids_after = [document.id for document in after]
    return StageGraphs(
        plain_operations(reader, ids_before),
        plain_operations(reader, ids_after),
        origins(reader, ids_before, ids_after),
        left_out(reader, ids_before),
    )
