"""What is known about a place, as text: one line for the bottom of the screen, and everything for
the inspector.
"""

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
from fx_explorer.analysis.input_names import InputNames, told_names, with_own_names
from fx_explorer.analysis.kernel_documents import is_level
from fx_explorer.analysis.links.chain import triton_place
from fx_explorer.analysis.links.explain import Explanation, explain
from fx_explorer.analysis.links.linked import Selection
from fx_explorer.analysis.links.selection import copies, nodes_at, own_lines_at, source_of_own
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.nodes import value_text
from fx_explorer.analysis.regions.annotated_regions import region_value
from fx_explorer.analysis.words import annotation_text, counted, listed
from fx_explorer.overview.line_events import line_events
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.kernels import names_of_kernels_of
from fx_explorer.session.queries.links import ancestors
from fx_explorer.session.queries.nodes import operation_counts, operation_names
from fx_explorer.tui.content.places import Entry
from fx_explorer.tui.content.shown_lines import EVENT_GLYPHS

if TYPE_CHECKING:
    from fx_explorer.instruments.profile.places import PlaceTime

MANY_NODES = 400
"""Nodes that are listed or asked for their source at most, of a line that a whole model passes
through.
"""


def summary(selection: Selection) -> list[str]:
    """Return the facts of a place in a few words each, most important first: the inspector line."""
    node = node_at(selection.reader, selection.place)
    if node:
        return _node_summary(selection, node)
    return _kernel_summary(selection) or _line_summary(selection)


def _kernel_summary(selection: Selection) -> list[str]:
    """Return the summary of a line of a Triton kernel, or of a level below it; empty for any other
    line.
    """
    reader, place = selection.reader, selection.place
    if not is_level(place.document) and place.document.language != "triton":
        return []
    from fx_explorer.tui.content import inspect_kernel  # not needed for the first paint

    here, *computed = _line_summary(
        Selection(reader, triton_place(reader, place)) if is_level(place.document) else selection
    )
    own = inspect_kernel.level_words(reader, place) if is_level(place.document) else [here]
    return [*own, *computed, *inspect_kernel.kernel_words(reader, place)]


def _node_summary(selection: Selection, node: model.Node) -> list[str]:
    reader = selection.reader
    value = value_text(node)
    if value and node.stride:
        value += f" stride ({', '.join(node.stride)})"
    regions = [f'region "{region_value(v)}"' for v in (node.annotations or {}).values()]
    parts = [
        _users_name(reader, node),
        node.name,
        node.target if node.target != node.name else node.op,
        f"{value} {node.device}".strip(),
    ]
    return [
        part
        for part in (*parts, where(reader, node), node.module, *regions, *_kernel_words(selection))
        if part
    ]


def _users_name(reader: SessionReader, node: model.Node) -> str:
    """Return what the user calls an input of a graph; empty for other nodes."""
    input_name = InputNames(reader).of([node])[node.id] if node.op == "placeholder" else None
    return input_name.name if input_name and input_name.node else ""


def _line_summary(selection: Selection) -> list[str]:
    """Return the facts of a line: what happened there, what it is a copy of, and what it computes
    or became.
    """
    reader, place, nodes = selection.reader, selection.place, selection.nodes
    here = f"{place.document.title}:{place.line + 1}"
    happened = [
        f"{EVENT_GLYPHS[event.what][0]} {event.text}"
        for event in line_events(reader, place.document).get(place.line, ())
    ]
    if not nodes:
        if place.document.kind == "source":
            why = "no node comes from this line"
        else:
            why = "no node is known for this line"
        return [here, *(happened or [why])]
    own = selection.own_lines
    if place.document.kind == "source" and own:
        copied = (f"{kernel.name}:{at.line + 1}" for kernel, at in copies(reader, own))
        return [
            here,
            *happened,
            f"is {listed(copied)}",
            f"called by {listed(with_own_names(operation_names(reader, nodes)))}",
        ]
    if place.document.kind != "source":
        names = with_own_names(operation_names(reader, nodes))
        written = source_of_own(reader, own)
        if written:
            return [
                here,
                f"is {written.document.title}:{written.line + 1}",
                f"called by {listed(names)}",
            ]
        return [
            here,
            f"computes {listed(names, 6)}"
            if names
            else f"belongs to {counted(len(nodes), 'node')}",
        ]
    traced = operation_names(reader, nodes, "dynamo")
    words = (f"{listed(traced, 5)} " if traced else "") + _became(reader, nodes)
    return [here, *happened, *_kernel_words(selection), words]


def _became(reader: SessionReader, nodes: Sequence[int]) -> str:
    """Say what happened to a line's nodes: ``became 9 forward and 13 backward operations``. They
    are counted in the last graphs there are, since each stage has its own.
    """
    found = operation_counts(reader, nodes)
    if not found:
        return f"became {counted(len(nodes), 'node')}"
    # What a backend publishes may have the same operations several times.
    last = max(
        (stage for stage, _ in found),
        key=lambda stage: -1 if stage == "backend" else model.STAGES.index(stage),
    )
    counts = {direction: count for (stage, direction), count in found.items() if stage == last}
    shown = [
        f"{counts[direction]} {direction}".strip()
        for direction in model.DIRECTIONS
        if direction in counts
    ]
    return f"became {' and '.join(shown)} operation{'' if sum(counts.values()) == 1 else 's'}"


def _kernel_words(selection: Selection) -> list[str]:
    names = names_of_kernels_of(selection.reader, selection.below)
    return [f"{'kernel' if len(names) == 1 else 'kernels'} {listed(names)}"] if names else []


def where(reader: SessionReader, node: model.Node) -> str:
    """Return ``model.py:32`` for the innermost user frame; empty when the node has none."""
    place = place_of_source(reader, node.file, node.line) if node.file else None
    return f"{place.document.title}:{node.line}" if place else ""


def entries(reader: SessionReader, place: Place, time: PlaceTime | None = None) -> list[Entry]:
    """Return everything known about a place, in the order of the questions asked of it. ``time`` is
    that of its node in a profile.
    """
    node = node_at(reader, place)
    if node:
        facts = list(_node_entries(reader, node, time))
    else:
        facts = [Entry("line", part) for part in _said_of_line(reader, place)]
    if place.document.stage == "kernel":
        from fx_explorer.tui.content.inspect_kernel import (
            kernel_entries,  # not needed for the first paint
        )

        facts += kernel_entries(reader, place)
    facts += _link_entries(reader, explain(reader, place))
    if node:
        facts += _neighbours(reader, "takes", reader.producers(node.id))
        facts += _neighbours(reader, "used by", reader.users(node.id))
    return facts


def _said_of_line(reader: SessionReader, place: Place) -> list[str]:
    """Describe the Triton line that this line below a kernel was made from. Facts about the whole
    kernel are listed by ``kernel_entries``.
    """
    said = _line_summary(Selection(reader, triton_place(reader, place)))
    return said[1:] if is_level(place.document) else said


def _node_entries(
    reader: SessionReader, node: model.Node, time: PlaceTime | None
) -> Iterable[Entry]:
    """Yield everything that is known about a node."""
    graph = place_of_node(reader, node).document
    if name := _users_name(reader, node):
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
    yield Entry(
        "graph", f"[{graph.owner}] {graph.title}, node {node.position + 1} of {graph.line_count}"
    )
    yield Entry(
        "direction",
        "backward"
        if node.is_backward
        else graph.direction or "forward and backward are not separate here",
    )
    if time:
        yield Entry("profile", f"{time.in_words} in the profile", note=time.meaning)
    yield from _optional_entries(reader, node)
    yield from _stack_entries(reader, node)


def _optional_entries(reader: SessionReader, node: model.Node) -> Iterable[Entry]:
    if node.is_view:
        yield Entry(
            "kind", "a view, getitem or the like: it computes nothing, no kernel can be expected"
        )
    if node.module:
        yield Entry(
            "module", f"{node.module} ({node.module_type})" if node.module_type else node.module
        )
    for key, value in (node.annotations or {}).items():
        yield Entry("annotation", f"{key} = {annotation_text(value)}")
    if node.seq_nr >= 0:
        yield Entry(
            "seq_nr",
            str(node.seq_nr),
            note="autograd's sequence number; a backward node has that of its forward",
        )
    nested = {}
    if node.subgraph_names:
        nested = {graph.name: graph for graph in reader.rows(model.Graph, parent=node.graph)}
    for name in node.subgraph_names:
        graph = nested.get(name)
        yield Entry("nested graph", name, Place(graph_document(graph)) if graph else None)


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
    of_graphs = [
        explanation for explanation in explanations if explanation.place.document.kind == "graph"
    ]
    graphs = {explanation.place.document.id for explanation in of_graphs}
    first = {graph.id: graph.first_node for graph in reader.by_ids(model.Graph, graphs)}
    nodes = {
        first[explanation.place.document.id] + explanation.place.line: explanation
        for explanation in of_graphs
    }
    told = _both_names(reader, {node: explanation.name for node, explanation in nodes.items()})
    names = {id(explanation): told[node] for node, explanation in nodes.items()}
    return [
        _link_entry(explanation, names.get(id(explanation), explanation.name))
        for explanation in explanations
    ]


def _both_names(reader: SessionReader, names: Mapping[int, str]) -> dict[int, str]:
    """Return ``fc1.weight · primals_3`` for an input of a graph: the user's name, and torch's
    beside it.
    """
    told = told_names(reader, names)
    return {
        node: name if told[node] == name else f"{told[node]} · {name}"
        for node, name in names.items()
    }


def _link_entry(explanation: Explanation, name: str) -> Entry:
    document = explanation.place.document
    text = f"{name}   {document.title}" if explanation.relation in ("from", "became") else name
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
    found = zip((n for n in shown if n in rows), places_of_nodes(reader, shown), strict=True)
    names = _both_names(reader, {node.id: node.name for node in rows.values()})
    neighbours = [
        Entry(label, f"{names[n]}   {_operation(rows[n])} {value_text(rows[n])}".rstrip(), place)
        for n, place in found
    ]
    if len(nodes) > len(shown):
        neighbours.append(Entry(label, f"… and {len(nodes) - len(shown):,} more"))
    return neighbours or [Entry(label, "nothing")]


def _operation(node: model.Node) -> str:
    """Return what a node does; of an input there is no more to say than its name."""
    return "" if node.op == "placeholder" else node.target


def links(reader: SessionReader, place: Place) -> list[Entry]:
    """Return where Enter can lead from a place: everything it is linked to; from a line below a
    kernel to the lines of that.
    """
    if is_level(place.document):
        from fx_explorer.tui.content.inspect_kernel import kernel_entries

        return [entry for entry in kernel_entries(reader, place) if entry.place]
    return _link_entries(reader, explain(reader, place))


def user_line(reader: SessionReader, place: Place) -> tuple[str, int] | None:
    """Return path and line (from 1) of the user's source for a place, for the editor; None when no
    user line is known.
    """
    if place.document.kind == "source":
        return reader.get(model.SourceFile, place.document.id).path, place.line + 1
    if written := source_of_own(reader, own_lines_at(reader, triton_place(reader, place))):
        return reader.get(model.SourceFile, written.document.id).path, written.line + 1
    nodes = nodes_at(reader, triton_place(reader, place))
    # Nodes that torch made have no line of their own; those that they were made from may have one.
    for group in (nodes, sorted(ancestors(reader, nodes))):
        for node in reader.by_ids(model.Node, islice(group, MANY_NODES)):
            if node.file:
                return reader.get(model.SourceFile, node.file).path, node.line
    return None
