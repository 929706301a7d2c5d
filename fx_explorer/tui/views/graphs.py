"""View 3: every FX graph, stage by stage."""

from __future__ import annotations

from bisect import bisect_left

from fx_explorer import model
from fx_explorer.analysis.documents import Place, graph_document, graph_title
from fx_explorer.analysis.regions.region_nodes import RegionKey, nodes_in
from fx_explorer.analysis.versions import functions_of_versions
from fx_explorer.analysis.whole_session import not_decoded, why_not_in_text
from fx_explorer.analysis.words import counted, listed
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.overview.outline import compilation_title
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compilation_names
from fx_explorer.session.queries.graphs import frequent_targets

COLUMNS = (
    TableColumn("frame", "annotation"),
    TableColumn("graph", "strong", min_width=20),
    TableColumn("nodes", is_number=True, total=lambda value: f"{value:,.0f}"),
    TableColumn("calls", is_number=True, priority=2, total=lambda value: f"{value:,.0f}"),
    TableColumn("most frequent operations", "muted", min_width=20, max_width=80, priority=1),
)


def graphs_table(reader: SessionReader) -> ViewTable:
    graphs = [g for g in reader.rows(model.Graph) if g.node_count]
    names = compilation_names(reader)
    frequent = frequent_targets(reader)
    rows = [
        _row(reader, graph, names.get(graph.compilation, ""), frequent.get(graph.id, []))
        for graph in graphs
    ]
    return ViewTable(
        shows="Every FX graph that was captured, in the order torch.compile made them; then "
        "those of other front ends.",
        notice=_notice(graphs),
        origin="FX graph modules, read while they were compiled",
        columns=COLUMNS,
        rows=rows,
        empty=_why_empty(reader),
        versions=functions_of_versions(reader),
        within=lambda reader, region: _within(reader, region, graphs),
    )


def _within(reader: SessionReader, region: RegionKey, graphs: list[model.Graph]) -> list[int]:
    """Return the rows of the graphs that have a node of a region."""
    nodes = sorted(nodes_in(reader, region))
    ends = [
        (
            bisect_left(nodes, graph.first_node),
            bisect_left(nodes, graph.first_node + graph.node_count),
        )
        for graph in graphs
    ]
    return [at for at, (first, end) in enumerate(ends) if first < end]


def _row(
    reader: SessionReader, graph: model.Graph, owner: str, targets: list[tuple[str, int]]
) -> TableRow:
    document = graph_document(graph, owner)
    cells = (
        f"[{owner}]" if owner else "",
        document.title,
        f"{graph.node_count:,}",
        f"{graph.call_count:,}",
        ", ".join(f"{target} ×{count}" for target, count in targets[:6]),
    )
    values = {"nodes": float(graph.node_count), "calls": float(graph.call_count)}
    return TableRow(
        cells,
        Place(document),
        lambda: _detail(reader, graph, targets),
        values=values,
        version=owner,
    )


def _detail(reader: SessionReader, graph: model.Graph, targets: list[tuple[str, int]]) -> Detail:
    if graph.compilation:
        made = compilation_title(reader.get(model.Compilation, graph.compilation))
    else:
        made = graph_title(graph)
    lines = [
        f"{made}: {counted(graph.node_count, 'node')}, {counted(graph.call_count, 'call')}",
        "",
    ]
    lines += [f"{count:>6,}  {target}" for target, count in targets]
    return Detail("\n".join(lines))


def _notice(graphs: list[model.Graph]) -> str:
    if not graphs:
        return ""
    biggest = max(graphs, key=lambda g: g.node_count)
    nested = [g.name for g in graphs if g.parent]
    words = f"The biggest has {counted(biggest.node_count, 'node')}."
    if nested:
        return (
            f"{words} {counted(len(nested), 'graph')} nested in higher-order operations: "
            f"{listed(nested)}."
        )
    return words


def _why_empty(reader: SessionReader) -> str:
    if why := why_not_in_text(reader, "graphs"):
        return why
    if why := not_decoded(reader):
        return why
    if reader.meta("outcome") is None:
        return "No graph yet: the first one appears when Dynamo has read the function."
    return (
        "Nothing was compiled, so there is no graph. The console (8) shows what the program said."
    )
