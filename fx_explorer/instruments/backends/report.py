"""This module writes a session's facts about backends: the support of one backend as text,
markdown, CSV and JSON, and for the JSON report what backends other than Inductor published and ran.
The screen has the same tables of support.

The verdict of a support report comes first, then the operators, then the segments of each graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict

from fx_explorer import model
from fx_explorer.analysis.published import (
    BackendSummary,
    PublishedRun,
    ShownStage,
    backend_summaries,
)
from fx_explorer.analysis.words import careful_share, counted, listed, operation, size
from fx_explorer.instruments.backends.amounts import Border, Crossing, Summary, size_of
from fx_explorer.instruments.backends.support import (
    GraphSupport,
    OperatorRow,
    ShownPart,
    Split,
    amount_of,
    operator_rows,
)
from fx_explorer.instruments.backends.verdict import FLOPS_COUNTED, explain_splits, verdict
from fx_explorer.output.formats import (
    Block,
    csv_text,
    in_markdown,
    json_text,
    markdown_list,
    markdown_table,
    text_of,
)
from fx_explorer.output.table import Column, Table
from fx_explorer.output.terminal import LEAST_PROSE
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compilation_names

SCHEMA = "fx-explorer/support/1"

Json = dict[str, object]


def support_text(
    target: str,
    backends: Sequence[Summary],
    graphs: Sequence[GraphSupport],
    width: int | None = None,
) -> str:
    """Return everything as plain text. Lines have at most ``width`` cells; None sets no limit."""
    blocks: list[Block] = [*verdict(backends, graphs), "", _operator_table(graphs)]
    for graph in graphs:
        blocks += ["", f"{graph.document.title} [{graph.compilation}]"]
        blocks += [_part_table(graph)] if graph.parts else []
        blocks += explain_splits(graph)
    return text_of([*blocks, "", FLOPS_COUNTED], width)


def _operator_table(graphs: Sequence[GraphSupport]) -> Table:
    return Table(OPERATOR_COLUMNS, operator_table(operator_rows(graphs)), indent=2)


def _part_table(graph: GraphSupport) -> Table:
    return Table(PART_COLUMNS, part_table(graph), indent=2)


def support_markdown(
    target: str, backends: Sequence[Summary], graphs: Sequence[GraphSupport]
) -> str:
    """Return the verdict as a list, and operators and segments as tables."""
    lines = [*markdown_list(verdict(backends, graphs)), ""]
    lines += markdown_table(_operator_table(graphs))
    for graph in graphs:
        lines += ["", f"**{in_markdown(graph.document.title)} [{graph.compilation}]**", ""]
        lines += [*markdown_table(_part_table(graph)), ""] if graph.parts else []
        lines += markdown_list(explain_splits(graph))
    return "\n".join([*lines, "", FLOPS_COUNTED]) + "\n"


def support_csv(target: str, backends: Sequence[Summary], graphs: Sequence[GraphSupport]) -> str:
    """Return a line for each operator of each graph, in order."""
    return csv_text(
        ("backend", "compilation", "graph", "direction", "node", *_COLUMNS), _operators(graphs)
    )


def _known_number(number: int) -> int | str:
    return "" if number < 0 else number


def _operators(graphs: Sequence[GraphSupport]) -> Iterator[tuple[object, ...]]:
    for graph in graphs:
        where = graph.report.backend, graph.compilation, graph.graph.stage, graph.graph.direction
        for node in graph.nodes:
            row = node.row
            numbers = map(_known_number, (row.flops, row.read_bytes, row.written_bytes))
            yield (
                *where,
                node.node.name,
                operation(node.node),
                row.support,
                row.segment or "",
                row.reason,
                *numbers,
            )


_COLUMNS = ("operator", "support", "segment", "reason", "flops", "read_bytes", "written_bytes")


def support_json(target: str, backends: Sequence[Summary], graphs: Sequence[GraphSupport]) -> str:
    """Return everything as JSON."""
    found = support_object(backends, graphs) or {"graphs": []}
    return json_text({"schema": SCHEMA, "target": target, **found})


def support_object(backends: Sequence[Summary], graphs: Sequence[GraphSupport]) -> Json | None:
    """Return the JSON of the support, without its target and session: the report has it under
    ``support``. None where no backend was asked.
    """
    if not graphs:
        return None
    return {
        "verdict": verdict(backends, graphs),
        "backends": [asdict(backend) for backend in backends],
        "operators": [_operator(row) for row in operator_rows(graphs)],
        "graphs": [_graph(graph) for graph in graphs],
    }


def _operator(row: OperatorRow) -> Json:
    return {
        "operator": row.operator,
        **asdict(row.amount),
        "supported": row.supported,
        "falls_back": row.falls_back,
        "unknown": row.unknown,
        "in_segments": row.in_segments,
        "reasons": list(row.reasons),
    }


def _graph(graph: GraphSupport) -> Json:
    report = graph.report
    parts = [_part(part) for part in graph.parts] if report.is_partitioned else None
    return {
        "backend": report.backend,
        "compilation": graph.compilation,
        "stage": graph.graph.stage,
        "direction": graph.graph.direction or None,
        "said_by": report.said_by,
        "source": report.source or None,
        "notes": list(report.notes),
        "parts": parts,
        "splits": [_split(split) for split in graph.splits],
        "in_words": explain_splits(graph),
    }


def _part(part: ShownPart) -> Json:
    return {
        "segment": part.part.segment or None,
        "nodes": [each.node.name for each in part.nodes],
        **asdict(part.amount),
        "takes": _border(part.takes),
        "gives": _border(part.gives),
    }


def _border(border: Border) -> list[Json]:
    return [_crossing(crossing) for crossing in border.crossings]


def _crossing(crossing: Crossing) -> Json:
    return {
        "node": crossing.node.name,
        "bytes": crossing.size_bytes,
        "varies": crossing.varies,
        "is_given": crossing.is_given,
    }


def _split(split: Split) -> Json:
    return {
        "node": split.node.name,
        "operator": operation(split.node),
        "reason": split.reason or None,
        "needs": list(split.needs),
        "needed_by": list(split.needed_by),
    }


FORMATS: dict[str, Callable[[str, Sequence[Summary], Sequence[GraphSupport]], str]] = {
    "text": support_text,
    "json": support_json,
    "csv": support_csv,
    "markdown": support_markdown,
}


# What backends beside Inductor published and ran.


def backends_of_report(reader: SessionReader) -> list[Json]:
    """Return an object per backend that published something or was counted in its calls."""
    names = compilation_names(reader)
    return [_backend(backend_summary, names) for backend_summary in backend_summaries(reader)]


def _backend(backend_summary: BackendSummary, names: dict[int, str]) -> Json:
    return {
        "backend": backend_summary.backend,
        "in_words": backend_summary.description,
        "stages": [_stage(stage) for stage in backend_summary.stages],
        "entries": [_entry(entry, names) for entry in backend_summary.entries],
        "last_runs": [_run(run) for run in backend_summary.runs],
    }


def _stage(shown: ShownStage) -> Json:
    document = shown.document
    form: Json
    if document.kind == "graph":
        form = {"kind": "graph", "language": None, "nodes": document.line_count, "lines": None}
    else:
        form = {
            "kind": "text",
            "language": document.language,
            "nodes": None,
            "lines": document.line_count,
        }
    return {
        "compilation": document.owner or None,
        "position": shown.stage.position,
        "name": shown.stage.name,
        "direction": shown.stage.direction or None,
        **form,
    }


def _entry(entry: model.BackendEntry, names: dict[int, str]) -> Json:
    outputs = entry.outputs if entry.outputs >= 0 else None
    return {
        "compilation": names.get(entry.compilation),
        "direction": entry.direction or None,
        "calls": entry.calls,
        "outputs": outputs,
    }


def _run(run: PublishedRun) -> Json:
    return {
        "compilation": run.compilation or None,
        "entry": run.run.entry,
        "direction": run.run.direction or None,
        "call": run.run.call,
        "seconds": run.seconds,
        "fell_back": run.fell_back,
        "instructions": [_instruction(instruction) for instruction in run.instructions],
    }


def _instruction(instruction: model.BackendInstruction) -> Json:
    return {
        "name": instruction.name,
        "shapes": instruction.shapes,
        "seconds": instruction.seconds,
        "fell_back": instruction.fell_back,
        "line": instruction.line or None,
    }


# Support and segments as tables.


OPERATOR_COLUMNS = (
    Column("operator", narrowing="cut", least=24),
    Column("calls"),
    Column("FLOPs", priority=1),
    Column("bytes", priority=2),
    Column("supported"),
    Column("in segments", priority=3),
    Column("reason", narrowing="wrapped", least=20),
)
PART_COLUMNS = (
    Column("part"),
    Column("operators"),
    Column("FLOPs", priority=1),
    Column("takes", narrowing="wrapped", least=14),
    Column("gives", narrowing="wrapped", least=14),
    Column("made of", narrowing="wrapped", least=LEAST_PROSE),
)

Cells = tuple[str, ...]


def operator_table(rows: Sequence[OperatorRow]) -> list[Cells]:
    """Return a row for each operator, with its shares of all operators."""
    flops = sum(row.amount.flops for row in rows)
    size_bytes = sum(row.amount.size_bytes for row in rows)
    return [_operator_cells(row, flops, size_bytes) for row in rows]


def _operator_cells(row: OperatorRow, flops: int, size_bytes: int) -> Cells:
    amount = row.amount
    in_segments = f"{row.in_segments:,}" if row.in_segments else ""
    return (
        row.operator,
        f"{amount.count:,}",
        _share(amount.flops, flops, amount.without_flops, amount.count),
        _share(amount.size_bytes, size_bytes, amount.without_bytes, amount.count),
        describe_supported(row),
        in_segments,
        listed(row.reasons, 2),
    )


def _share(part: int, whole: int, without: int, count: int) -> str:
    """Return ``38 %``, empty for no share, ``?`` for a share that could not be counted."""
    if without == count:
        return "?"
    if not part:
        return "?" if without else ""
    more = "+" if without else ""
    return f"{careful_share(part, whole)}{more}"


def describe_supported(row: OperatorRow) -> str:
    """Return ``yes``, ``no``, ``unknown``, or how many of the calls are supported."""
    whole = {row.supported: "yes", row.falls_back: "no", row.unknown: "unknown"}
    return whole.get(row.amount.count) or f"{row.supported:,} of {row.amount.count:,}"


def part_table(graph: GraphSupport) -> list[Cells]:
    """Return a row for each segment and for the operators between that fall back, in order."""
    whole = amount_of(graph.nodes)
    rows: list[Cells] = []
    for part in graph.parts:
        flops = part.amount.flops
        flops_share = careful_share(flops, whole.flops) if flops else ""
        rows.append(
            (
                part_name(part),
                f"{part.amount.count:,}",
                flops_share,
                format_border(part.takes.computed, part.takes.given),
                format_border(part.gives.crossings),
                list_operators(part),
            )
        )
    return rows


def part_name(part: ShownPart) -> str:
    if part.part.segment:
        return f"segment {part.part.segment}"
    return "PyTorch"


def format_border(crossings: Iterable[Crossing], given: Iterable[Crossing] = ()) -> str:
    """Return ``2 values, 1.5 kB; given 3, 8.2 kB``: values that are computed, and values given to
    the graph.
    """
    parts = []
    values, inputs = list(crossings), list(given)
    if values:
        parts.append(f"{counted(len(values), 'value')}, {_sizes(values)}")
    if inputs:
        parts.append(f"{counted(len(inputs), 'input')}, {_sizes(inputs)}")
    return "; ".join(parts)


def _sizes(crossings: Sequence[Crossing]) -> str:
    known, unknown = size_of(crossings)
    if unknown == len(crossings):
        return "unknown size"
    about = "~" if any(crossing.varies for crossing in crossings) else ""
    if unknown:
        return f"{about}{size(known)} and {unknown} of unknown size"
    return f"{about}{size(known)}"


def list_operators(part: ShownPart) -> str:
    """Return ``3 × aten.addmm, aten.relu``: the operators, the most frequent first."""
    counts = Counter(operation(each.node) for each in part.nodes)
    operators = []
    for name, count in counts.most_common():
        times = f"{count} × " if count > 1 else ""
        operators.append(f"{times}{name}")
    return listed(operators, 5)
