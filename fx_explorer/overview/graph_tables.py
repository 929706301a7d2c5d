"""Three views show what was compiled: every FX graph (v a), what each stage did to the
operations (3), and the dynamic sizes (v s), where each comes from, and whether it stayed dynamic.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import RegionKey, nodes_in
from fx_explorer.analysis.documents import Place, graph_document, graph_title
from fx_explorer.analysis.function_versions import functions_of_versions
from fx_explorer.analysis.lineage import graphs_in_use, variants_in_use
from fx_explorer.analysis.naming import plain_code, plain_function
from fx_explorer.analysis.stage_data import EXPLAINED, StagePoint
from fx_explorer.analysis.stage_work import MOST_COMPILATIONS, points_in_use, stage_work
from fx_explorer.analysis.whole_session import is_log, is_text, not_decoded, why_not_in_text
from fx_explorer.analysis.words import counted, listed
from fx_explorer.drawing.view_table import DIRECTION, Detail, TableColumn, TableRow, ViewTable
from fx_explorer.instruments.guards.symbols import (
    ExplainedSymbol,
    describe_symbol_event,
    plain_range,
    symbols,
)
from fx_explorer.instruments.kernels.counts import kernels_by_direction
from fx_explorer.instruments.values.figures import describe_graph_values
from fx_explorer.overview.outline import compilation_title
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import compilation_names
from fx_explorer.session.queries.graphs import frequent_targets

GRAPH_COLUMNS = (
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
        _graph_row(reader, graph, names.get(graph.compilation, ""), frequent.get(graph.id, []))
        for graph in graphs
    ]
    return ViewTable(
        shows="Every captured FX graph, in the order torch.compile made them; then the graphs of "
        "other front ends.",
        notice=_graph_notice(graphs),
        origin="FX graph modules, read while they were compiled",
        columns=GRAPH_COLUMNS,
        rows=rows,
        empty=_why_no_graph(reader),
        versions=functions_of_versions(reader),
        within=lambda reader, region: _graphs_within(reader, region, graphs),
        answer=_largest_graph(graphs, names),
    )


def _graphs_within(
    reader: SessionReader, region: RegionKey, graphs: list[model.Graph]
) -> list[int]:
    """Return the rows of the graphs that have a node of a region."""
    nodes = sorted(nodes_in(reader, region))
    rows = []
    for at, graph in enumerate(graphs):
        first = bisect_left(nodes, graph.first_node)
        end = bisect_left(nodes, graph.first_node + graph.node_count)
        if first < end:
            rows.append(at)
    return rows


def _graph_row(
    reader: SessionReader, graph: model.Graph, owner: str, targets: list[tuple[str, int]]
) -> TableRow:
    document = graph_document(graph, owner)
    compilation = f"[{owner}]" if owner else ""
    cells = (
        compilation,
        document.title,
        f"{graph.node_count:,}",
        f"{graph.call_count:,}",
        ", ".join(f"{target} ×{count}" for target, count in targets[:6]),
    )
    values = {"nodes": float(graph.node_count), "calls": float(graph.call_count)}
    return TableRow(
        cells,
        Place(document),
        lambda: _graph_detail(reader, graph, targets),
        values=values,
        version=owner,
    )


def _graph_detail(
    reader: SessionReader, graph: model.Graph, targets: list[tuple[str, int]]
) -> Detail:
    if graph.compilation:
        made = compilation_title(reader.get(model.Compilation, graph.compilation))
    else:
        made = graph_title(graph)
    lines = [
        f"{made}: {counted(graph.node_count, 'node')}, {counted(graph.call_count, 'call')}",
        "",
    ]
    about_values = describe_graph_values(reader, graph.id)
    if about_values:
        lines += [*about_values, ""]
    lines += [f"{count:>6,}  {target}" for target, count in targets]
    return Detail("\n".join(lines))


def _largest_graph(graphs: list[model.Graph], names: Mapping[int, str]) -> str:
    if not graphs:
        return ""
    largest = max(graphs, key=lambda graph: graph.node_count)
    owner = names.get(largest.compilation, "")
    where = graph_document(largest, owner).full_title
    nodes = counted(largest.node_count, "node")
    if len(graphs) == 1:
        return f"One graph: {where}, {nodes}."
    return f"The largest of {len(graphs):,} graphs is {where}: {nodes}."


def _graph_notice(graphs: list[model.Graph]) -> str:
    nested = [g.name for g in graphs if g.parent]
    if not nested:
        return ""
    count = counted(len(nested), "graph")
    return f"{count} nested in higher-order operations: {listed(nested)}."


def _why_no_graph(reader: SessionReader) -> str:
    if why := why_not_in_text(reader, "graphs"):
        return why
    if why := not_decoded(reader):
        return why
    if reader.meta("outcome") is None:
        return "No graph yet: the first one appears when Dynamo has traced the function."
    return (
        "Nothing was compiled, so there is no graph. The console (8) shows what the program "
        "printed."
    )


MOST_NODES = 20_000
"""Maximum number of nodes of a session for which a stage's effect is read at once; in larger ones
it is read when the stage is selected: 300,000 nodes take 3 s.
"""

STAGE_COLUMNS = (
    TableColumn("frame", "annotation", priority=3),
    TableColumn("stage", "strong", min_width=18, max_width=32),
    replace(DIRECTION, kind="muted"),
    TableColumn("before", is_number=True, priority=2),
    TableColumn("after", is_number=True, priority=2),
    TableColumn("effect", min_width=32, max_width=200),
)


def stages_table(reader: SessionReader) -> ViewTable:
    points = points_in_use(reader)
    left_out = max(0, len(variants_in_use(reader)) - MOST_COMPILATIONS)
    if left_out:
        further = f" {counted(left_out, 'later compilation')} are left out."
    else:
        further = ""
    if sum(graph.node_count for graph in reader.rows(model.Graph)) <= MOST_NODES:
        rows = [_stage_row(reader, point) for point in points]
    else:
        rows = [_unread_stage_row(reader, point) for point in points]
    return ViewTable(
        shows="What each stage of the compiler did, in order; the backward comes after the "
        "forward.",
        notice=("Enter shows the operations before and after a stage next to each other.")
        + further,
        origin="the graphs and the IR that were recorded between the stages, and the links "
        "between them",
        columns=STAGE_COLUMNS,
        rows=rows,
        empty="No stage has been recorded: nothing was compiled yet.",
        answer=_whole_way(reader) if rows else "",
    )


def _whole_way(reader: SessionReader) -> str:
    """Return a summary of all compiled operations and their results."""
    graphs = graphs_in_use(reader)
    calls = 0
    for graph in reader.rows(model.Graph, stage="dynamo"):
        if graphs is None or graph.id in graphs:
            calls += graph.call_count
    operations = counted(calls, "operation")
    kernels = kernels_by_direction(reader)
    generated = sum(direction.generated for direction in kernels)
    libraries = sum(direction.library_calls for direction in kernels)
    if not generated and not libraries:
        return f"Dynamo recorded {operations}; no kernel has been generated for them yet."
    became = []
    if generated:
        became.append(counted(generated, "generated kernel"))
    if libraries:
        became.append(counted(libraries, "library call"))
    if not calls:
        return f"The stages made {listed(became)}."
    return f"{operations} became {listed(became)}."


def _stage_row(reader: SessionReader, point: StagePoint) -> TableRow:
    work = stage_work(reader, point)
    words = work.sentence.removeprefix(point.title).lstrip(":, ")
    cells = (
        f"[{point.owner}]",
        point.title,
        point.direction,
        f"{work.before:,}",
        f"{work.after:,}",
        words,
    )
    values = {"before": float(work.before), "after": float(work.after)}
    detail = f"{work.sentence}\n\n{EXPLAINED[point.key]}"
    return TableRow(
        cells, _stage_place(point), lambda: Detail(detail), values=values, version=point.owner
    )


def _unread_stage_row(reader: SessionReader, point: StagePoint) -> TableRow:
    cells = (
        f"[{point.owner}]",
        point.title,
        point.direction,
        "",
        "",
        "⏎ computes this, which takes a while for so many operations",
    )
    return TableRow(
        cells, _stage_place(point), lambda: Detail(EXPLAINED[point.key]), version=point.owner
    )


def _stage_place(point: StagePoint) -> Place | None:
    return Place(point.after[0]) if point.after else None


SIZE_COLUMNS = (
    TableColumn("frame", "annotation", priority=4),
    TableColumn("size or number", "strong", min_width=16, max_width=40),
    TableColumn("now", is_number=True, min_width=5),
    TableColumn("result", min_width=18, max_width=34),
    TableColumn("decided at", "link", min_width=14, priority=1),
    TableColumn("guards", is_number=True, min_width=6, priority=2),
    TableColumn("made at", "muted", min_width=14, priority=3),
    TableColumn("in torch", "muted", min_width=6, priority=5),
)


TRIES = "x d tries other settings and other inputs."


def sizes_table(reader: SessionReader) -> ViewTable:
    sizes = symbols(reader)
    tries = "" if is_log(reader) else f" {TRIES}"
    return ViewTable(
        shows="Dynamic and specialized sizes.",
        notice=_size_notice(sizes, tries),
        origin="torch's ShapeEnv and its structured records",
        columns=SIZE_COLUMNS,
        rows=[_size_row(symbol) for symbol in sizes],
        empty=_why_no_size(reader),
    )


def _size_row(explained_symbol: ExplainedSymbol) -> TableRow:
    symbol, fixed = explained_symbol.symbol, explained_symbol.specialized
    decided = fixed or next((event for event in explained_symbol.events if event.line), None)
    decided_at = _file_and_line(decided.file, decided.line) if decided else ""
    cells = (
        f"[{explained_symbol.compilation}]",
        _size_name(explained_symbol),
        symbol.hint or "–",
        explained_symbol.state,
        decided_at,
        str(len(explained_symbol.guards)),
        _file_and_line(*explained_symbol.made_at),
        symbol.name,
    )
    kind = "warning" if symbol.became else ""
    return TableRow(
        cells,
        explained_symbol.place,
        lambda: Detail(_size_detail(explained_symbol)),
        kind=kind,
    )


def _size_name(symbol: ExplainedSymbol) -> str:
    """Return ``size 0 of x``, or where the program computes it."""
    return symbol.comes_from or symbol.name.strip("‹›")


def _file_and_line(file: str, line: int) -> str:
    return in_file(file, line) if file else ""


def _size_detail(explained_symbol: ExplainedSymbol) -> str:
    decided = [
        f"{describe_symbol_event(event, explained_symbol.of)}   "
        f"{_file_and_line(event.file, event.line)}"
        for event in explained_symbol.events
    ]
    guards = [plain_code(guard.code, explained_symbol.of) for guard in explained_symbol.guards]
    stack = [
        f"{frame.file}:{frame.line} in {plain_function(frame.function)}"
        for frame in explained_symbol.stack
    ]
    happened = "specialized" if explained_symbol.specialized else "made"
    lines = [
        *_size_heading(explained_symbol),
        "",
        "what was decided",
        *_indented(decided or ["nothing"]),
        "",
        "guards that mention it",
        *_indented(guards or ["none"]),
        "",
        f"your stack where it was {happened}",
        *_indented(stack or ["not known"]),
        "",
        "torch's name for it",
        f"  {explained_symbol.symbol.name}",
    ]
    return "\n".join(lines)


def _size_heading(explained_symbol: ExplainedSymbol) -> list[str]:
    """Return the meaning of a size, where it was created, and its other names."""
    symbol = explained_symbol.symbol
    file, line = explained_symbol.made_at
    lines = [f"{_size_name(explained_symbol)}: {explained_symbol.state}"]
    if file:
        lines.append(f"made at {file}:{line}, {plain_range(symbol.range)}")
    else:
        lines.append(f"made with {plain_range(symbol.range)}")
    others = [source for source in symbol.sources if source != symbol.source]
    if others:
        names = (plain_code(source, explained_symbol.of) for source in others)
        lines.append(f"also {', '.join(names)}")
    return lines


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _size_notice(sizes: list[ExplainedSymbol], tries: str) -> str:
    """Return a sentence on how many sizes there are; ``tries`` says what the user can do."""
    sizes = [size for size in sizes if not size.is_of_given_up_attempt]
    if not sizes:
        return ""
    names = {size.symbol.name for size in sizes}
    became = [size for size in sizes if size.symbol.became]
    # What became another symbol still differs from call to call: it is the same size twice.
    twice = [size for size in became if size.symbol.became in names]
    fixed = [size for size in became if size not in twice]
    words = f"{counted(len(sizes) - len(became), 'size or number')} may differ from call to call"
    if fixed:
        first = fixed[0].specialized
        where = ""
        if first and first.file:
            where = f", {_size_name(fixed[0])} at {_file_and_line(first.file, first.line)}"
        words += f"; {len(fixed)} could have, and torch specialized {_them(fixed)}{where}"
    if twice:
        words += f"; {counted(len(twice), 'more symbol')} turned out to be equal to one of these"
    return f"{words}.{tries}"


def _them(sizes: list[ExplainedSymbol]) -> str:
    return "it" if len(sizes) == 1 else "them"


def _why_no_size(reader: SessionReader) -> str:
    if reader.meta("outcome") is None:
        return "None so far."
    if not reader.count(model.Compilation):
        return "Nothing was compiled."
    if is_text(reader):
        return (
            "This text has no sizes: TORCH_LOGS=dynamic prints them with the line that "
            "specialized each, and a TORCH_TRACE log or a capture has them."
        )
    if is_log(reader):
        tries = ""
    else:
        tries = " x d tries remedies."
    return f"Every size is specialized: other sizes recompile.{tries}"
