"""This module puts a graph that is folded by module into words: its answer in a sentence, its rows
as a table and as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.repeated_layers import EACH
from fx_explorer.analysis.words import careful_share, counted, listed, operation, size, value_text
from fx_explorer.errors import UsageError
from fx_explorer.instruments.modules.folded_graph import FoldedGraph, NodeGroup
from fx_explorer.output.table import Column, Table
from fx_explorer.session import SessionReader

NO_MODULES = "torch recorded no module for the nodes of this graph, so there is nothing to fold"

MOST_LISTS = 2
"""Maximum number of lists of layers that the answer names."""


@dataclass(frozen=True, slots=True)
class GraphSeconds:
    """The times of a graph's nodes in a profile, by position."""

    seconds: Sequence[float]
    whole: float


def describe_folded(graph: FoldedGraph) -> str:
    """Return the answer: ``4 layers, layers.0 … 3, have 349 of the 427 nodes and are alike.``"""
    count = len(graph.positions)
    lists = list(_outermost_layers(graph))
    if not lists:
        if not graph.has_modules:
            return f"{counted(count, 'node')}: {NO_MODULES}."
        modules = [row for row in graph.outermost if graph.is_group(row)]
        return f"{counted(count, 'node')} in {counted(len(modules), 'part')}; no layer repeats."
    sentences: list[str] = []
    for group in lists[:MOST_LISTS]:
        if group.node_count == count:
            share = f"all {count:,} nodes"
        else:
            share = f"{group.node_count:,} of the {count:,} nodes"
        if not group.difference:
            differences = "and are alike"
        elif group.difference.startswith(EACH):
            differences = f"and are alike; {group.difference}"
        else:
            differences = f"and are alike except for {group.difference}"
        sentences.append(
            f"{len(group.layers)} layers, {whole_name(group)}, have {share} {differences}."
        )
    if len(lists) > MOST_LISTS:
        sentences.append(f"{counted(len(lists) - MOST_LISTS, 'more list')} of repeated layers.")
    return " ".join(sentences)


def _outermost_layers(graph: FoldedGraph) -> Iterator[NodeGroup]:
    """Yield the lists of layers that are in no other."""
    row = 0
    while row < len(graph.rows):
        group = graph.rows[row]
        if isinstance(group, NodeGroup) and group.kind == "layers":
            yield group
            row = group.after
        else:
            row += 1


def whole_name(group: NodeGroup) -> str:
    """Return the path of a group from the compiled function: ``model.layers.0 … 47``."""
    if group.kind != "layers":
        return group.path
    parent = group.path.rpartition(".")[0]
    names = group.name.rpartition(".")[2] if " … " in group.name else ", ".join(group.layers)
    return f"{parent}.{names}" if parent else names


def title_of(group: NodeGroup) -> str:
    """Return the name of a group in its row: ``layers.0 … 47 ×48``."""
    if group.kind == "layers":
        return f"{group.name} ×{len(group.layers)}"
    if group.kind == "module":
        return group.name
    if not group.calls:
        return "inputs"
    return "its own" if group.path else "in no module"


def nodes_text(graph: FoldedGraph, row: int) -> str:
    """Return the number of nodes below a row: ``44``; ``48 × 44`` for layers of one size."""
    group = graph.rows[row]
    if isinstance(group, int):
        return ""
    if group.kind == "layers":
        sizes = {_node_count(graph, layer) for layer in graph.inside(row)}
        if len(sizes) == 1:
            return f"{len(group.layers)} × {sizes.pop():,}"
    return f"{group.node_count:,}"


def _node_count(graph: FoldedGraph, row: int) -> int:
    return len(graph.lines(row))


def parameters_text(group: NodeGroup) -> str:
    """Return ``9 parameters, 12.3 MB``; empty without any."""
    if not group.parameters:
        return ""
    number = counted(group.parameters, "parameter")
    return number if group.parameter_bytes is None else f"{number}, {size(group.parameter_bytes)}"


def describe_group(graph: FoldedGraph, row: int, seconds: GraphSeconds | None) -> list[str]:
    """Return what is known of a group in a few words each, the most important first."""
    group = graph.rows[row]
    assert isinstance(group, NodeGroup)
    nodes = counted(group.node_count, "node")
    if group.kind == "layers":
        name = whole_name(group)
        likeness = f"differ: {group.difference}" if group.difference else "alike"
        texts = [f"{len(group.layers)} layers {name}", group.type, nodes, likeness]
    elif group.kind == "module":
        differs = f"unlike most: {group.difference}" if group.difference else ""
        texts = [group.path, group.type, nodes, differs]
    else:
        texts = [f"{nodes} {f'of {group.path} itself' if group.path else 'in no module'}"]
    texts += [parameters_text(group), time_text(graph, row, seconds), group.operations]
    return [text for text in texts if text]


def time_text(graph: FoldedGraph, row: int, seconds: GraphSeconds | None) -> str:
    """Return the time of all nodes below a row, and its share; empty where it is not known."""
    if seconds is None:
        return ""
    part = sum(seconds.seconds[position] for position in graph.lines(row))
    return share_text(part, seconds.whole)


def share_text(part: float, whole: float) -> str:
    """Return ``12.3 µs 48 %``; empty for no time, or less than a rounding error of the whole."""
    if part <= whole * ROUNDING:
        return ""
    return f"{run_time(part)} {careful_share(part, whole)}"


ROUNDING = 1e-9
"""A difference of sums below this fraction of the whole is rounding, not time."""


# as a table, and as JSON

INDENT = "  "

COLUMNS = (
    Column("module", narrowing="cut", least=20),
    Column("nodes", is_number=True),
    Column("profiled", is_number=True),
    Column("parameters", priority=2),
    Column("class", narrowing="cut", least=10, priority=3),
    Column("operations", narrowing="cut", least=16, priority=4),
    Column("layers differ in", narrowing="wrapped", least=20, priority=1),
)


def folded_table(
    reader: SessionReader,
    graph: model.Graph,
    folded: FoldedGraph,
    rows: Sequence[int],
    seconds: GraphSeconds | None = None,
) -> Table:
    """Return rows of a folded graph as a table."""
    nodes = _nodes_of_rows(reader, graph, folded, rows)
    least = min((folded.depths[row] for row in rows), default=0)
    texts: list[tuple[str, ...]] = []
    for row in rows:
        group = folded.rows[row]
        indent = INDENT * (folded.depths[row] - least)
        time = time_text(folded, row, seconds)
        if isinstance(group, int):
            node = nodes[group]
            texts.append((f"{indent}{node.name}", "1", time, "", "", operation(node), ""))
            continue
        name = title_of(group)
        if not indent:
            name = whole_name(group) or name
        texts.append(
            (
                f"{indent}{name}",
                nodes_text(folded, row),
                time,
                parameters_text(group),
                group.type,
                group.operations,
                likeness(group),
            )
        )
    return Table(COLUMNS, texts, elsewhere="-o FILE")


def likeness(group: NodeGroup) -> str:
    """Return how layers differ, or ``alike``; empty for what is no layer, or is as most are."""
    if group.kind == "layers":
        return group.difference or "alike"
    return group.difference


def folded_rows(
    reader: SessionReader,
    graph: model.Graph,
    folded: FoldedGraph,
    rows: Sequence[int],
    seconds: GraphSeconds | None = None,
) -> list[dict[str, object]]:
    """Return rows of a folded graph for JSON."""
    nodes = _nodes_of_rows(reader, graph, folded, rows)
    entries: list[dict[str, object]] = []
    for row in rows:
        group = folded.rows[row]
        entry: dict[str, object] = {"depth": folded.depths[row]}
        if isinstance(group, int):
            node = nodes[group]
            entry |= {"node": node.name, "target": node.target, "nodes": 1}
            entry["value"] = value_text(node)
        else:
            entry |= {
                "module": whole_name(group) or title_of(group),
                "is": group.kind,
                "class": group.type,
                "nodes": group.node_count,
                "operations": group.calls,
                "most_frequent": group.operations,
                "layers": len(group.layers) or None,
                "differ": likeness(group),
                "parameters": group.parameters or None,
                "parameter_bytes": group.parameter_bytes if group.parameters else None,
            }
        if seconds is not None:
            entry["seconds"] = sum(seconds.seconds[position] for position in folded.lines(row))
        entries.append(entry)
    return entries


def _nodes_of_rows(
    reader: SessionReader, graph: model.Graph, folded: FoldedGraph, rows: Sequence[int]
) -> Mapping[int, model.Node]:
    """Return the position of each node that is a row itself → the node."""
    positions = [entry for entry in (folded.rows[row] for row in rows) if isinstance(entry, int)]
    ids = [graph.first_node + position for position in positions]
    return {node.position: node for node in reader.by_ids(model.Node, ids)}


def rows_inside(folded: FoldedGraph, path: str) -> list[int]:
    """Return the rows to show of a module, or of layers: it, and what is in it. Raises UsageError
    where there is no such module.
    """
    names: list[str] = []
    for row, group in enumerate(folded.rows):
        if not isinstance(group, NodeGroup) or group.kind == "operations":
            continue
        if path in (group.path, whole_name(group)) and not _is_first_of_layers(group, path):
            return [row, *folded.inside(row)]
        if len(names) < SUGGESTED:
            names.append(whole_name(group))
    raise UsageError(f"no module {path!r} is in this graph; there are: {listed(names, SUGGESTED)}")


SUGGESTED = 12


def _is_first_of_layers(group: NodeGroup, path: str) -> bool:
    """Return whether a path is that of the first layer, of a group that stands for all of them."""
    return group.kind == "layers" and path == group.path
