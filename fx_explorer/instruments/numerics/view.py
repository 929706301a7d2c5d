"""This module shows in the app whether compiled code computes what eager mode does: the answer,
each way of running the program, and the nodes of the graph that differs with their errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fx_explorer.analysis.documents import Document, Place
from fx_explorer.analysis.whole_session import NO_PROGRAM, is_log
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.instruments.numerics.figures import numerics_of
from fx_explorer.instruments.numerics.report import RESULTS, number_text
from fx_explorer.instruments.numerics.verdict import STATES, verdict
from fx_explorer.model import Numerics, NumericsNode, NumericsRun, SourceFile
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

COLUMNS = (
    TableColumn("node", "strong", min_width=10, max_width=40),
    TableColumn("operation", "muted", min_width=12, max_width=40, priority=1),
    TableColumn("eager error", is_number=True, min_width=11, priority=2),
    TableColumn("compiled error", is_number=True, min_width=14),
    TableColumn("results", "muted", min_width=12),
    TableColumn("your line", "link", min_width=12, priority=3, keeps="end"),
)

NONE_YET = (
    "Results were not compared yet. Press x n: the program is called in eager mode, in float64 "
    "and compiled."
)


def numerics_table(reader: SessionReader) -> ViewTable:
    empty = f"Results were not compared. {NO_PROGRAM}" if is_log(reader) else NONE_YET
    table = ViewTable(
        shows="Whether compiled code gives the same results as eager mode, and which operator "
        "differs first.",
        notice="",
        origin="errors are root mean squares against the same graph in float64; results count as "
        "equal by PyTorch's own rule",
        columns=COLUMNS,
        rows=[],
        empty=empty,
    )
    numerics = numerics_of(reader)
    if numerics is None:
        return table
    return replace(table, notice=verdict(numerics)[0], rows=list(_rows(reader, numerics)))


def _rows(reader: SessionReader, numerics: Numerics) -> Iterator[TableRow]:
    text = "\n".join(verdict(numerics))
    for run in numerics.runs:
        yield _run_row(run, text)
    finding = numerics.finding
    if finding is None:
        return
    files = {row.path: row.id for row in reader.rows(SourceFile)}
    for node in finding.nodes:
        is_first = node.name == finding.node
        yield _node_row(node, files, text if is_first else node.note, is_first)


def _run_row(run: NumericsRun, text: str) -> TableRow:
    results = RESULTS[run.agreement] if run.state == "measured" else STATES[run.state]
    errors = (number_text(run.eager_error), number_text(run.error))
    kind = "problem" if run.differs or run.state != "measured" else ""
    cells = (run.name, "the whole program", *errors, results, run.where)
    return TableRow(cells, None, lambda: Detail(text), kind)


def _node_row(node: NumericsNode, files: dict[str, int], text: str, is_first: bool) -> TableRow:
    line = in_file(node.file, node.line) if node.file else ""
    place = None
    if node.file in files:
        place = Place(Document("source", files[node.file]), node.line - 1)
    results = RESULTS[node.verdict]
    if is_first:
        results = f"{results}, first"
    cells = (
        node.name,
        node.operation,
        number_text(node.eager_error),
        number_text(node.error),
        results,
        line,
    )
    kind = "problem" if node.verdict == "differs" else ""
    detail = (lambda: Detail(text)) if text else None
    return TableRow(cells, place, detail, kind, part=1)
