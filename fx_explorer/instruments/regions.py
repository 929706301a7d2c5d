"""This module is the view of regions: which nodes carry which annotation, into which kernels they
were compiled, and which stayed in eager mode.
"""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import (
    EagerNodes,
    Lowering,
    Region,
    eager_nodes,
    regions,
)
from fx_explorer.analysis.documents import Place, graph_document, places_of_nodes
from fx_explorer.analysis.nested_regions import (
    NestedRegion,
    describe_region,
    nested_regions,
    why_traced_again,
)
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.analysis.words import counted
from fx_explorer.drawing.colours import RegionColours, colours_of
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.session import SessionReader

COLUMNS = (
    TableColumn("region", "annotation", min_width=10),
    TableColumn("compiled", min_width=10),
    TableColumn("nodes by stage", min_width=20, max_width=70),
    TableColumn("forward kernels", "function", min_width=15, priority=1),
    TableColumn("backward kernels", "function", min_width=16, priority=2),
    TableColumn(
        "kept eager",
        "warning",
        is_number=True,
        min_width=10,
        priority=3,
        total=lambda value: counted(int(value), "node"),
    ),
    TableColumn("configs", "muted", min_width=10, priority=4),
    TableColumn("key", "muted", min_width=12, priority=5),
)

HOW_TO_MARK = (
    "Nothing is marked. Press c m on a node or a line of your source, or put your lines into "
    "a block"
)
OF_A_LOG = "No region was marked in the program. Lines are marked with a block"
ANNOTATE = '`with torch.fx.traceback.annotate({"compile_with_inductor": "name"}):`.'


def regions_table(reader: SessionReader) -> ViewTable:
    colours = colours_of(reader)
    why_empty = OF_A_LOG if is_log(reader) else HOW_TO_MARK
    return ViewTable(
        shows="Parts of the program marked with annotate, in the order of their first use; then "
        "nested compile regions.",
        notice=_notice(eager_nodes(reader)),
        origin="meta of FX nodes at every stage; the regions that regional_inductor compiled",
        columns=COLUMNS,
        rows=[
            *[_row(reader, region, colours) for region in regions(reader)],
            *[_nested_row(region) for region in nested_regions(reader)],
        ],
        empty=f"{why_empty} {ANNOTATE}",
    )


def _row(reader: SessionReader, region: Region, colours: RegionColours) -> TableRow:
    kept_eager = ""
    values = {}
    if region.lowerings:
        eager_nodes_of_region = sum(eager.nodes for eager in region.eager)
        kept_eager = str(eager_nodes_of_region)
        values = {"kept eager": float(eager_nodes_of_region)}
    cells = (
        region.name,
        describe_compiled(region),
        _nodes(region),
        ", ".join(_kernels(region, backward=False)),
        ", ".join(_kernels(region, backward=True)),
        kept_eager,
        ", ".join(_configs(region)),
        region.key,
    )
    place = next(iter(places_of_nodes(reader, [region.first_node])), None)
    return TableRow(
        cells, place, lambda: Detail(_text(region)), colours.kind(region.value), values=values
    )


def _nested_row(region: NestedRegion) -> TableRow:
    """Return the row of a region of ``torch.compiler.nested_compile_region``."""
    if region.compiled:
        compiled = f"{region.compiled} × for {counted(region.calls, 'call')}"
    else:
        compiled = "with the whole"
    traced = f"{region.first.stage} {region.first.node_count}"
    if region.traced:
        traced = f"traced {region.traced} ×, reused {region.reused} ×"
    cells = (region.label, compiled, traced, "", "", "", "", "nested_compile_region")
    text = "\n".join(filter(None, (describe_region(region), why_traced_again(region))))
    return TableRow(cells, Place(graph_document(region.first)), lambda: Detail(text))


def _nodes(region: Region) -> str:
    return ", ".join(f"{stage} {count}" for stage, count in region.nodes.items())


def describe_compiled(region: Region) -> str:
    """Describe how the region was compiled: on its own, with everything else, in part, or not. The
    text is needed because colour alone must not carry meaning.
    """
    if not region.lowerings:
        return "with the whole" if region.is_compiled else "no"
    compiled = [lowering for lowering in region.lowerings if lowering.row.subgraph]
    if len(compiled) == len(region.lowerings):
        return "on its own"
    return "in part" if compiled else "no"


def _kernels(region: Region, *, backward: bool) -> list[str]:
    if not region.lowerings:
        return list(region.backward_kernels) if backward else list(region.forward_kernels)
    names: list[str] = []
    for lowering in region.lowerings:
        is_backward = lowering.row.direction == "backward"
        if is_backward == backward:
            names += lowering.kernels
    return list(dict.fromkeys(names))


def _configs(region: Region) -> list[str]:
    configs: list[str] = []
    for lowering in region.lowerings:
        given = lowering.row.configs or {}
        configs += [f"{key}={value}" for key, value in given.items()]
    return list(dict.fromkeys(configs))


def _text(region: Region) -> str:
    lines = [f"{region.name} · {region.key}: {region.value}", f"nodes: {_nodes(region)}"]
    lines += [_lowering_line(lowering) for lowering in region.lowerings]
    lines += [f"{nodes.direction}: kept eager: {_ops(nodes)}" for nodes in region.eager]
    if not region.lowerings:
        lines.append(f"kernels: {', '.join(region.kernels) or 'none was generated for it'}")
    return "\n".join(lines)


def _lowering_line(lowering: Lowering) -> str:
    row: model.RegionLowering = lowering.row
    where = f"[{lowering.compilation}] {row.direction}"
    if not row.subgraph:
        return f"{where}: not compiled: {row.reason}"
    reused = ", as before" if row.is_reused else ""
    return (
        f"{where}: {row.subgraph}, {counted(row.nodes, 'node')} in {row.duration_s:.2f} "
        f"s{reused}: {', '.join(lowering.kernels)}"
    )


def _ops(one: EagerNodes) -> str:
    return ", ".join(f"{count} × {op.removesuffix('.default')}" for op, count in one.ops.items())


def _notice(eager: list[EagerNodes]) -> str:
    parts = [
        f"{counted(nodes.nodes, 'node')} of {nodes.direction} [{nodes.compilation}]"
        for nodes in eager
    ]
    if parts:
        return f"Outside of compiled regions, run in eager mode: {', '.join(parts)}."
    return ""
