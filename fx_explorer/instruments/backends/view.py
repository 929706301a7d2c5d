"""This module makes the two tables of the app about backends.

The first has the stages that backends beside Inductor published, how often what they made was
called, and their last runs, instruction by instruction. The second (view +) has what a backend
supports, operator by operator, and the segments that it cuts graphs into.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import FALLS_BACK
from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.published import (
    BackendSummary,
    PublishedRun,
    backend_summaries,
    place_of_instruction,
    times_called,
)
from fx_explorer.analysis.words import counted, format_node, listed, operation, share, size
from fx_explorer.drawing.colours import RegionColours
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.instruments.backends.amounts import (
    BackendPart,
    Border,
    Crossing,
    reports_in_use,
    reports_to_show,
    summaries_of,
)
from fx_explorer.instruments.backends.report import format_border, operator_table, part_table
from fx_explorer.instruments.backends.support import (
    GraphSupport,
    OperatorRow,
    ShownPart,
    Split,
    operator_rows,
    support_of,
)
from fx_explorer.instruments.backends.verdict import (
    FLOPS_COUNTED,
    explain_splits,
    named_segments,
    of_other_variants,
    verdict,
    why_unknown,
)
from fx_explorer.session import SessionReader

STAGE_COLUMNS = (
    TableColumn("what", "annotation", min_width=11),
    TableColumn("name", "strong", min_width=14, max_width=40),
    TableColumn("shapes or size", min_width=10, max_width=40, priority=1),
    TableColumn("time", is_number=True, min_width=7, total=run_time),
    TableColumn("share", "muted", is_number=True, priority=2),
    TableColumn("how", min_width=22, max_width=40),
    TableColumn("of", "muted", min_width=5, priority=3),
)


def backend_table(reader: SessionReader) -> ViewTable:
    summaries = backend_summaries(reader)
    rows = [row for summary in summaries for row in _rows(reader, summary)]
    return ViewTable(
        shows="What your own backend published, how often its compiled functions were called, and "
        "its last run.",
        notice=_notice(summaries),
        origin="fx_explorer.publish and publish_run; fx-explorer counts the calls",
        columns=STAGE_COLUMNS,
        rows=rows,
        empty=_why_empty(reader),
        answer=_how_often(summaries),
    )


def _how_often(summaries: Sequence[BackendSummary]) -> str:
    """Return how much was published, and how often what was made was called."""
    stages = sum(len(summary.stages) for summary in summaries)
    entries = [entry for summary in summaries for entry in summary.entries]
    runs = sum(len(summary.runs) for summary in summaries)
    parts = [
        counted(number, what)
        for number, what in ((stages, "stage published"), (runs, "run recorded"))
        if number
    ]
    parts += [f"{entry.direction or entry.backend} {times_called(entry)}" for entry in entries[:2]]
    if len(entries) > 2:
        parts.append(counted(len(entries) - 2, "more entry"))
    return "; ".join(parts).capitalize() + "." if parts else ""


def _rows(reader: SessionReader, backend_summary: BackendSummary) -> Iterator[TableRow]:
    for shown in backend_summary.stages:
        owner = f"[{shown.document.owner}]" if shown.document.owner else ""
        cells = (
            "stage",
            shown.stage.name,
            shown.size,
            "",
            "",
            shown.stage.direction or shown.backend,
            owner,
        )
        text = (
            f"{shown.document.title}: {shown.size}, published by {shown.backend or 'a backend'} "
            f"{owner}"
        )
        yield TableRow(cells, Place(shown.document), partial(Detail, text))
    names = {row.id: f"[{row.name}]" for row in reader.rows(model.Compilation)}
    for entry in backend_summary.entries:
        owner = names.get(entry.compilation, "")
        cells = (
            "entry",
            entry.direction or entry.backend,
            _outputs(entry),
            "",
            "",
            times_called(entry),
            owner,
        )
        text = (
            f"What {entry.backend} made from the {entry.direction or 'Dynamo'} graph of {owner}: "
            f"{times_called(entry)}."
        )
        yield TableRow(cells, None, partial(Detail, text))
    for run in backend_summary.runs:
        yield from _run(reader, run)


def _outputs(entry: model.BackendEntry) -> str:
    if entry.outputs >= 0:
        return counted(entry.outputs, "output")
    return ""


def _run(reader: SessionReader, published: PublishedRun) -> Iterator[TableRow]:
    """Yield a run, then its instructions."""
    run = published.run
    owner = f"[{published.compilation}]" if published.compilation else ""
    place = Place(published.program) if published.program else None
    if published.fell_back:
        how = f"{published.fell_back:,} fell back"
    else:
        how = "none fell back"
    size = counted(len(published.instructions), "instruction")
    text = (
        f"Call {run.call:,} of {run.entry}: {size}, {run_time(published.seconds)}, {how} "
        "to PyTorch."
    )
    if run.direction and run.direction not in run.entry:
        direction = f" {run.direction}"
    else:
        direction = ""
    cells = (
        "run",
        f"{run.entry}{direction}, call {run.call:,}",
        size,
        run_time(published.seconds),
        "",
        how,
        owner,
    )
    # A run is what its instructions are: where there are some, these are added up.
    values = {} if published.instructions else {"time": published.seconds}
    yield TableRow(cells, place, lambda: Detail(text), values=values, part=1)
    for instruction in published.instructions:
        yield _instruction(reader, published, instruction, owner)


def _instruction(
    reader: SessionReader, run: PublishedRun, instruction: model.BackendInstruction, owner: str
) -> TableRow:
    how = "fell back to PyTorch" if instruction.fell_back else "supported"
    if run.program and instruction.line:
        where = f", line {instruction.line:,} of {run.program.title}"
    else:
        where = ""
    part = share(instruction.seconds, run.seconds) if run.seconds else ""
    cells = (
        f"{instruction.position:>4,}",
        instruction.name,
        instruction.shapes,
        run_time(instruction.seconds),
        part,
        how,
        owner,
    )
    text = (
        f"{instruction.name} · {instruction.shapes or 'shapes not known'} · "
        f"{run_time(instruction.seconds)} · {how}{where}"
    )
    place = place_of_instruction(reader, run, instruction)
    kind = "problem" if instruction.fell_back else ""
    return TableRow(
        cells, place, lambda: Detail(text), kind=kind, values={"time": instruction.seconds}, part=1
    )


def _notice(summaries: list[BackendSummary]) -> str:
    described = (summary for summary in summaries if summary.description)
    parts = [f"{summary.backend}: {summary.description}" for summary in described]
    return f"{'. '.join(parts)}." if parts else ""


def _why_empty(reader: SessionReader) -> str:
    backends = {row.backend for row in reader.rows(model.Compilation)} - {"", "inductor"}
    if not backends:
        return "Everything was compiled by Inductor, whose stages have their own views."
    return (
        f"Nothing was published by {', '.join(sorted(backends))}: a backend publishes with "
        "fx_explorer.publish (docs/extend/publish.md)."
    )


# What a backend supports (view +).


SUPPORT_COLUMNS = (
    TableColumn("operator or part", "function", min_width=16, max_width=40),
    TableColumn("calls", is_number=True, min_width=5, total=lambda value: f"{value:,.0f}"),
    TableColumn("FLOPs", is_number=True, min_width=5),
    TableColumn("bytes", is_number=True, min_width=5, priority=3),
    TableColumn("supported", min_width=9),
    TableColumn("takes", min_width=16, max_width=40, priority=2),
    TableColumn("gives", min_width=14, max_width=30, priority=2),
    TableColumn("why not, or made of", "muted", min_width=20, max_width=200, priority=1),
)

MOST_VALUES = 12
"""Maximum number of values of a border, and calls of an operator, that are listed one by one."""


def support_table(reader: SessionReader) -> ViewTable:
    reports = reports_to_show(reader)
    graphs = support_of(reader, reports)
    others = of_other_variants(reader)
    sentences = [*verdict(summaries_of(reader, reports), graphs), *others]
    first = sentences[:1] if reports_in_use(reader) else []
    part_rows = [row for graph in graphs for row in _part_rows(graph)]
    return ViewTable(
        shows="The parts of each graph, in a possible run order; then every operator.",
        notice=" ".join([*first, *others]),
        origin="answers of the backend, torch's partitioner and FLOP formulas",
        columns=SUPPORT_COLUMNS,
        rows=[*part_rows, *_operator_rows(graphs, sentences)],
        empty=why_unknown(reader),
    )


def _part_rows(graph: GraphSupport) -> Iterator[TableRow]:
    colours = RegionColours()
    for shown, (name, count, flops, takes, gives, made_of) in zip(
        graph.parts, part_table(graph), strict=True
    ):
        where = f"{graph.document.title} [{graph.compilation}]"
        cells = (name, count, flops, "", "", takes, gives, f"{where}: {made_of}")
        if shown.nodes:
            place = Place(graph.document, shown.nodes[0].node.position)
        else:
            place = None
        kind = colours.kind(name) if shown.part.segment else "warning"
        yield TableRow(cells, place, partial(_part_detail, graph, shown), kind)


def _part_detail(graph: GraphSupport, shown: ShownPart) -> Detail:
    """Describe the values that cross the borders of a part, one by one, and why the graph is split
    here.
    """
    number = shown.part.segment
    title = f"segment {number}" if number else f"PyTorch runs what {FALLS_BACK}"
    lines = [f"{title} · {graph.document.title}"]
    lines += _border_lines("takes", shown.takes) + _border_lines("gives", shown.gives)
    splits = [split for split in graph.splits if _concerns(split, shown.part)]
    lines += [_split_line(split) for split in splits[:MOST_VALUES]]
    return Detail("\n".join([*lines, "", *explain_splits(graph)]))


def _concerns(split: Split, part: BackendPart) -> bool:
    if part.segment in (*split.needs, *split.needed_by):
        return True
    return split.node.id in part.nodes


def _split_line(split: Split) -> str:
    reason = f": {split.reason}" if split.reason else ""
    between = f"{named_segments(split.needs)} and {named_segments(split.needed_by)}"
    return f"{operation(split.node)} ({split.node.name}) stands between {between}{reason}"


def _crossing_line(crossing: Crossing) -> str:
    """Return a line about a value that crosses a border: its size, about (~) where it varies."""
    text = ""
    if crossing.size_bytes is not None:
        text = size(crossing.size_bytes)
        if crossing.varies:
            text = f"~{text}"
    return f"  {text:>10}  {format_node(crossing.node)}"


def _border_lines(word: str, border: Border) -> list[str]:
    words = format_border(border.computed, border.given)
    if not words:
        return []
    lines = [f"{word} {words}"]
    lines += [_crossing_line(crossing) for crossing in border.crossings[:MOST_VALUES]]
    more = len(border.crossings) - MOST_VALUES
    if more > 0:
        lines.append(f"  and {more} more")
    return lines


def _operator_rows(graphs: Sequence[GraphSupport], sentences: Iterable[str]) -> Iterator[TableRow]:
    rows = operator_rows(graphs)
    documents = {graph.graph.id: graph.document for graph in graphs}
    for row, (name, calls, flops, size_bytes, is_supported, _, reason) in zip(
        rows, operator_table(rows), strict=True
    ):
        place = Place(documents[row.first.graph], row.first.position)
        cells = (name, calls, flops, size_bytes, is_supported, "", "", reason)
        # Only operators are added up: the parts are the same calls once more.
        values = {
            "calls": float(row.amount.count),
            "FLOPs": float(row.amount.flops),
            "bytes": float(row.amount.size_bytes),
        }
        yield TableRow(
            cells,
            place,
            lambda row=row: Detail(_operator_text(graphs, row, sentences)),  # type: ignore[misc]
            values=values,
            part=1,
        )


def _operator_text(
    graphs: Sequence[GraphSupport], row: OperatorRow, sentences: Iterable[str]
) -> str:
    """Describe an operator: its calls, why it is not supported, and then the whole answer."""
    calls = []
    for graph in graphs:
        for supported in graph.nodes:
            if operation(supported.node) != row.operator:
                continue
            segment = supported.row.segment
            where = f" · segment {segment}" if segment else ""
            calls.append(f"  [{graph.compilation}] {format_node(supported.node)}{where}")
    lines = [row.operator]
    if row.reasons:
        lines.append(f"why not: {listed(row.reasons)}")
    lines += calls[:MOST_VALUES]
    if len(calls) > MOST_VALUES:
        lines.append(f"  and {len(calls) - MOST_VALUES} more")
    return "\n".join([*lines, "", *sentences, FLOPS_COUNTED])
