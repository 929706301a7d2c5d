"""This module gives everything known about a place as entries, which the inspector lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from fx_explorer import model
from fx_explorer.analysis.documents import (
    Place,
    graph_document,
    node_at,
    place_of_node,
    place_of_source,
    places_of_nodes,
)
from fx_explorer.analysis.input_names import user_names_of_nodes
from fx_explorer.analysis.kernel_documents import kernel_of, triton_place
from fx_explorer.analysis.lineage import graphs_in_use
from fx_explorer.analysis.link_explanations import Explanation, explain
from fx_explorer.analysis.linked_lines import Selection
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.nested_regions import (
    describe_region,
    region_called_by,
    why_traced_again,
)
from fx_explorer.analysis.node_meta import SHOWN_AS, meta_of_node
from fx_explorer.analysis.selected_nodes import (
    lines_of_users_kernel,
    nodes_at,
    place_of_users_kernel,
)
from fx_explorer.analysis.words import annotation_text, counted, listed, size, value_text
from fx_explorer.findings.every_kind import needs_of, search
from fx_explorer.instruments.memory.saved_readers import describe_saved_node, saved_read_by
from fx_explorer.instruments.passes.figures import history_of_node
from fx_explorer.instruments.passes.near_match_reasons import describe_near, near_at
from fx_explorer.instruments.passes.view import keys_of_change, keys_of_near
from fx_explorer.instruments.values.collectives import (
    collectives,
    describe_collective,
    is_communication,
)
from fx_explorer.instruments.values.figures import describe_subclass, values_by_node
from fx_explorer.model.rows.graph import LeftOutReason
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.graphs import callers_of_nested_graph
from fx_explorer.session.queries.links import ancestors
from fx_explorer.tui.content.destinations import Entry, RowOfView
from fx_explorer.tui.content.inspect_decisions import fusion_entries, why_entries
from fx_explorer.tui.content.place_summary import line_summary, users_name

if TYPE_CHECKING:
    from fx_explorer.instruments.profile.figures import PlaceTime


MANY_NODES = 400
"""Maximum number of nodes that are listed, or asked for their source, for a line that a whole model
passes through.
"""


def entries(reader: SessionReader, place: Place, time: PlaceTime | None = None) -> list[Entry]:
    """Return everything known about a place, in the order of the usual questions. ``time`` is the
    time of its node in a profile.
    """
    node = node_at(reader, place)
    if node:
        facts = list(_node_entries(reader, node, time))
    else:
        facts = [Entry("line", part) for part in _facts_of_line(reader, place)]
    if place.document.stage == "kernel":
        from fx_explorer.tui.content.inspect_kernel import (
            kernel_entries,  # not needed for the first paint
        )

        facts += kernel_entries(reader, place)
    facts += why_entries(reader, place, node)
    facts += fusion_entries(reader, place)
    facts += _saved_entries(reader, place)
    if place.document.kind == "source":
        facts += _line_entries(reader, explain(reader, place))
    else:
        facts += _link_entries(reader, explain(reader, place))
    if node:
        facts += _neighbours(reader, "takes", reader.producers(node.id))
        facts += _neighbours(reader, "used by", reader.users(node.id))
    return facts


def _saved_entries(reader: SessionReader, place: Place) -> list[Entry]:
    """Return the saved tensors that a kernel of the backward reads."""
    if place.document.stage != "kernel" or place.document.direction != "backward":
        return []
    kernel = kernel_of(reader, place.document)
    if kernel is None:
        return []
    saved = saved_read_by(reader, kernel.id)
    return [Entry("reads saved", f"{row.name}, {size(row.size_bytes)}") for row in saved]


def search_entries(reader: SessionReader) -> list[Entry]:
    """Return the kinds of problems that were looked for, and those that the session cannot
    show.
    """
    looked_for = search(reader)
    done = [Entry("looked for", kind) for kind in looked_for.looked_for]
    left_out = [
        Entry("not looked for", f"{kind}: it needs {needs_of(kind)}")
        for kind in looked_for.not_looked_for
    ]
    return [*done, *left_out]


def _facts_of_line(reader: SessionReader, place: Place) -> list[str]:
    """Describe the Triton line from which this line below a kernel was made. ``kernel_entries``
    lists the facts about the whole kernel.
    """
    facts = line_summary(Selection(reader, triton_place(reader, place)))
    return facts[1:] if place.document.is_level else facts


def _node_entries(
    reader: SessionReader, node: model.Node, time: PlaceTime | None
) -> Iterable[Entry]:
    """Yield everything that is known about a node."""
    graph = place_of_node(reader, node).document
    if name := users_name(reader, node):
        yield Entry("your name", name)
    yield Entry("name", node.name)
    yield Entry("operation", f"{node.op} {node.target}")
    yield Entry("arguments", node.arguments or "none")
    if node.shape is not None:
        yield Entry("tensor", value_text(node))
        yield Entry("stride", f"({', '.join(node.stride or ())})")
        yield Entry("device", node.device)
    elif node.value:
        yield Entry("value", node.value)
    yield Entry("graph", f"{graph.full_title}, node {node.position + 1} of {graph.line_count}")
    if node.is_backward:
        direction = "backward"
    else:
        direction = graph.direction or "forward and backward are not separate here"
    yield Entry("direction", direction)
    yield from _caller_entries(reader, node)
    if time:
        yield Entry("profile", f"{time.description} in the profile", note=time.meaning)
    yield from _optional_entries(reader, node)
    yield from _left_out_entries(reader, node)
    yield from _pass_entries(reader, node)
    yield from _pattern_entries(reader, node)
    yield from _value_entries(reader, node)
    yield from _stack_entries(reader, node)
    yield from _meta_entries(reader, node)


def _pass_entries(reader: SessionReader, node: model.Node) -> Iterable[Entry]:
    """Yield what passes did with a node; each leads to the pass, where the view lists it."""
    used = graphs_in_use(reader)
    for event in history_of_node(reader, node):
        change = event.change
        row = None
        if change is not None and (used is None or change.graph in used):
            row = RowOfView("passes", keys_of_change(change))
        yield Entry("passes", event.sentence, row=row)


MOST_PATTERNS = 4
"""Maximum number of patterns that did not match at a node that are listed."""


def _pattern_entries(reader: SessionReader, node: model.Node) -> Iterable[Entry]:
    """Yield the patterns that did not match at a node, the nearest first."""
    near = near_at(reader, node)
    for each in near[:MOST_PATTERNS]:
        row = RowOfView("passes", keys_of_near(each))
        yield Entry("patterns", describe_near(reader, each), row=row)
    if len(near) > MOST_PATTERNS:
        yield Entry(
            "patterns", f"{len(near) - MOST_PATTERNS:,} more did not match (ask … patterns)"
        )


def _value_entries(reader: SessionReader, node: model.Node) -> Iterable[Entry]:
    """Yield what AOTAutograd knows of an input or output, which kernels read what is saved for the
    backward, and what is known of a collective.
    """
    if saved := describe_saved_node(reader, node):
        yield Entry("saved", saved)
    for value in values_by_node(reader).get(node.id, ()):
        yield Entry("value", value.text)
    if described := describe_subclass(node):
        yield Entry("value", f"It is {described}.")
    if is_communication(node):
        for collective in collectives(reader):
            wait = collective.wait
            if node.id in (collective.node.id, wait.id if wait else 0):
                yield Entry("collective", describe_collective(collective))


def _meta_entries(reader: SessionReader, node: model.Node) -> Iterable[Entry]:
    """Yield each key of ``node.meta`` with its value, then those that are shown above."""
    shown = []
    for entry in meta_of_node(reader, node):
        if entry.key in SHOWN_AS and entry.text in ("", model.NO_GRADIENT):
            shown.append(entry.key)
        else:
            yield Entry("node.meta", f"{entry.key} = {entry.text}", note=entry.meaning)
    if shown:
        yield Entry("node.meta", f"{', '.join(shown)}: shown above")


def _optional_entries(reader: SessionReader, node: model.Node) -> Iterable[Entry]:
    if node.is_view:
        yield Entry(
            "kind", "a view, a getitem or similar: it computes nothing, so no kernel is made for it"
        )
    if node.module:
        module = f"{node.module} ({node.module_type})" if node.module_type else node.module
        yield Entry("module", module)
    for key, value in (node.annotations or {}).items():
        yield Entry("annotation", f"{key} = {annotation_text(value)}")
    if node.seq_nr >= 0:
        yield Entry(
            "seq_nr",
            str(node.seq_nr),
            note="autograd's sequence number; a backward node has the number of its forward node",
        )
    yield from _nested_entries(reader, node)
    if region := region_called_by(reader, node):
        yield Entry("region", describe_region(region), note=why_traced_again(region))


def _nested_entries(reader: SessionReader, node: model.Node) -> list[Entry]:
    """Return the graphs nested in a node that calls them, or that a ``get_attr`` names."""
    names = (node.target,) if node.op == "get_attr" else node.subgraph_names
    if not names:
        return []
    graphs: dict[str, model.Graph] = {}
    for graph in reader.rows(model.Graph, parent=node.graph):
        graphs[graph.name] = graph
        graphs[graph.name.rpartition(".")[2]] = graph  # ``export.cond_true_0`` of a front end
    entries = []
    for name in names:
        nested = graphs.get(name)
        if nested is not None:
            entries.append(Entry("nested graph", name, Place(graph_document(nested))))
        elif node.subgraph_names:
            entries.append(Entry("nested graph", name))
    return entries


def _caller_entries(reader: SessionReader, node: model.Node) -> list[Entry]:
    """Return the nodes that call the graph of a node, if that is a nested graph."""
    graph = reader.get(model.Graph, node.graph)
    if not graph.parent:
        return []
    calls = reader.by_ids(model.Node, callers_of_nested_graph(reader, graph))
    places = places_of_nodes(reader, [call.id for call in calls])
    return [
        Entry("called by", f"{call.name}   {place.document.title}", place)
        for call, place in zip(calls, places, strict=True)
    ]


_LEFT_OUT: Mapping[LeftOutReason, str] = {
    "unchanged": "nothing: it returned its input unchanged, so AOTAutograd traced no operation",
    "empty": "nothing: it returned nothing, so AOTAutograd traced no operation",
    "unused": "nothing: AOTAutograd traced it, then removed it because nothing used its result",
    "inlined": "the operations of the graph that it calls: AOTAutograd traced those instead",
}


def _left_out_entries(reader: SessionReader, node: model.Node) -> Iterable[Entry]:
    """Explain why AOTAutograd's trace has nothing of a node, where that is known."""
    rows = reader.rows(model.LeftOut, node=node.id)
    if rows and not reader.children([node.id]):
        yield Entry("became", _LEFT_OUT[rows[0].reason])


def _stack_entries(reader: SessionReader, node: model.Node) -> Iterable[Entry]:
    stacks = reader.by_ids(model.Stack, [node.stack]) if node.stack else []
    if not stacks:
        yield Entry("your line", "not known: the node has no user stack")
        return
    files = {file.path: file.id for file in reader.rows(model.SourceFile)}
    for i, frame in enumerate(reversed(stacks[0].frames)):
        if frame.file in files:
            place = place_of_source(reader, files[frame.file], frame.line)
        else:
            place = None
        label = "your line" if i == 0 else "called from"
        yield Entry(
            label,
            f"{in_file(frame.file, frame.line)} in {plain_function(frame.function)}   "
            f"{frame.code.strip()}",
            place,
        )


RELATIONS = {"from": "made from", "became": "became", "kernel": "kernel", "source": "source"}


def _link_entries(reader: SessionReader, explanations: Sequence[Explanation]) -> list[Entry]:
    """Return where a place is linked to, nodes with the user's names."""
    nodes = _nodes_of(reader, explanations)
    both_names = _both_names(
        reader, {node: explanation.name for node, explanation in nodes.items()}
    )
    names = {id(explanation): both_names[node] for node, explanation in nodes.items()}
    return [
        _link_entry(explanation, names.get(id(explanation), explanation.name))
        for explanation in explanations
    ]


def _nodes_of(reader: SessionReader, explanations: Sequence[Explanation]) -> dict[int, Explanation]:
    """Return node → the explanation that leads to it."""
    of_graphs = [
        explanation for explanation in explanations if explanation.place.document.kind == "graph"
    ]
    graphs = {explanation.place.document.id for explanation in of_graphs}
    first = {graph.id: graph.first_node for graph in reader.by_ids(model.Graph, graphs)}
    return {
        first[explanation.place.document.id] + explanation.place.line: explanation
        for explanation in of_graphs
    }


MOST_INPUTS = 3
"""Maximum number of inputs of a graph that are named in one entry."""


def _line_entries(reader: SessionReader, explanations: Sequence[Explanation]) -> list[Entry]:
    """Return where a line of source is linked to: its operations first, then one entry for the
    inputs of each graph that it reads.
    """
    nodes = _nodes_of(reader, explanations)
    rows = reader.by_ids(model.Node, nodes)
    inputs = {row.id: row.name for row in rows if row.op in ("placeholder", "get_attr")}
    of_inputs = {id(nodes[node]) for node in inputs}
    entries = _link_entries(reader, [each for each in explanations if id(each) not in of_inputs])
    names = user_names_of_nodes(reader, inputs)
    by_graph: dict[int, list[int]] = {}
    for node in inputs:
        by_graph.setdefault(nodes[node].place.document.id, []).append(node)
    for of_graph in by_graph.values():
        first = nodes[of_graph[0]]
        of_users = listed((names[node] for node in of_graph), MOST_INPUTS)
        text = f"{counted(len(of_graph), 'input')}: {of_users}   {first.place.document.title}"
        entries.append(Entry("reads", text, first.place, first.text, first.is_certain))
    return entries


def _both_names(reader: SessionReader, names: Mapping[int, str]) -> dict[int, str]:
    """Return ``fc1.weight · primals_3`` for an input of a graph: the user's name, and torch's
    beside it.
    """
    users_names = user_names_of_nodes(reader, names)
    both = dict(names)
    for node, name in names.items():
        if users_names[node] != name:
            both[node] = f"{users_names[node]} · {name}"
    return both


def _link_entry(explanation: Explanation, name: str) -> Entry:
    document = explanation.place.document
    if explanation.relation in ("from", "became"):
        text = f"{name}   {document.title}"
    else:
        text = name
    return Entry(
        RELATIONS[explanation.relation],
        text,
        explanation.place,
        explanation.text,
        explanation.is_certain,
    )


def _neighbours(reader: SessionReader, label: str, nodes: Sequence[int]) -> list[Entry]:
    shown = list(nodes[:MANY_NODES])
    rows = {node.id: node for node in reader.by_ids(model.Node, shown)}
    neighbour_places = zip(
        (n for n in shown if n in rows), places_of_nodes(reader, shown), strict=True
    )
    names = _both_names(reader, {node.id: node.name for node in rows.values()})
    neighbours = [
        Entry(label, f"{names[n]}   {_operation(rows[n])} {value_text(rows[n])}".rstrip(), place)
        for n, place in neighbour_places
    ]
    if len(nodes) > len(shown):
        neighbours.append(Entry(label, f"… and {len(nodes) - len(shown):,} more"))
    return neighbours or [Entry(label, "nothing")]


def _operation(node: model.Node) -> str:
    """Return the operation of a node; for an input only its kind."""
    return "" if node.op == "placeholder" else node.target


def links(reader: SessionReader, place: Place) -> list[Entry]:
    """Return where Enter can lead from a place: the graphs nested in it, and everything it is
    linked to; from a line below a kernel to the lines of that.
    """
    if place.document.is_level:
        from fx_explorer.tui.content.inspect_kernel import kernel_entries

        return [entry for entry in kernel_entries(reader, place) if entry.place]
    node = node_at(reader, place)
    nested = _nested_entries(reader, node) if node else []
    return [entry for entry in nested if entry.place] + _link_entries(
        reader, explain(reader, place)
    )


def user_line(reader: SessionReader, place: Place) -> tuple[str, int] | None:
    """Return path and line (from 1) of the user's source for a place, for the editor; None when no
    user line is known.
    """
    if place.document.kind == "source":
        return reader.get(model.SourceFile, place.document.id).path, place.line + 1
    if written := place_of_users_kernel(
        reader, lines_of_users_kernel(reader, triton_place(reader, place))
    ):
        return reader.get(model.SourceFile, written.document.id).path, written.line + 1
    nodes = nodes_at(reader, triton_place(reader, place))
    # Nodes that torch made have no line of their own; those that they were made from may have one.
    for group in (nodes, sorted(ancestors(reader, nodes))):
        for node in reader.by_ids(model.Node, islice(group, MANY_NODES)):
            if node.file:
                return reader.get(model.SourceFile, node.file).path, node.line
    return None
