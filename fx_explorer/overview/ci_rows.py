"""A program's capture as a row of the CSV files with which PyTorch's own CI tells what its models
do, and such a file as what is expected.

Columns and rules: pytorch/pytorch, ``benchmarks/dynamo/common.py``, ``check_graph_breaks.py`` and
``check_accuracy.py``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.whole_session import totals
from fx_explorer.errors import UsageError
from fx_explorer.instruments.numerics.figures import numerics_of
from fx_explorer.instruments.numerics.verdict import is_wrong
from fx_explorer.overview.check_findings import break_findings, left_findings
from fx_explorer.overview.checks import EXPECTED, Check, CheckFinding, placed
from fx_explorer.overview.child_processes import children
from fx_explorer.session import SessionReader

NAME, ACCURACY = "name", "accuracy"

COLUMNS = (
    NAME,
    ACCURACY,
    "graph_breaks",
    "unique_graph_breaks",
    "calls_captured",
    "unique_graphs",
    "fallbacks_to_eager",
    "compilation_latency",
)

LESS_IS_BETTER = {
    "graph_breaks": True,
    "calls_captured": False,
    "unique_graphs": False,
    "fallbacks_to_eager": True,
}
"""Column that is compared with what is expected → whether less is better (``TRACKED_METRICS`` of
check_graph_breaks.py).
"""

PASS, FAIL_ACCURACY, FAIL_TO_RUN = "pass", "fail_accuracy", "fail_to_run"

MOST_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class CiRow:
    """The cells of one program, column → text; a cell that is not known is empty."""

    names: tuple[str, ...]
    """The names that its row may have, the best first."""
    cells: Mapping[str, str]


def ci_row(reader: SessionReader, names: Iterable[str]) -> CiRow:
    """Return the row of a session, which may be called any of ``names``."""
    known = tuple(dict.fromkeys(filter(None, names))) or (reader.path.name,)
    figures = totals(reader)
    graphs = reader.rows(model.Graph, stage="dynamo", parent=0)
    processes = children(reader)
    cells = {
        NAME: known[0],
        ACCURACY: _accuracy(reader),
        "graph_breaks": str(figures.graph_break_hits + processes.graph_breaks),
        "unique_graph_breaks": str(figures.graph_breaks),
        "calls_captured": str(sum(graph.call_count for graph in graphs)),
        "unique_graphs": str(figures.graphs + processes.graphs),
        "fallbacks_to_eager": str(len(list(left_findings(reader)))),
        "compilation_latency": f"{figures.compile_s:.2f}",
    }
    return CiRow(known, cells)


def _accuracy(reader: SessionReader) -> str:
    outcome = reader.meta("outcome")
    if outcome is None or not model.Outcome.from_json(outcome).went_well:
        return FAIL_TO_RUN
    numerics = numerics_of(reader)
    if numerics is None:
        return ""
    return FAIL_ACCURACY if is_wrong(numerics) else PASS


def csv_text(rows: Sequence[CiRow]) -> str:
    """Return the rows as a CSV file."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(row.cells)
    return out.getvalue()


# What is expected.


def read_expected(path: Path) -> dict[str, dict[str, str]]:
    """Return the rows of a CSV file by their names. Raises UsageError for a file that is none."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(f"--expected {path} is too large for a CSV file of expected rows")
        text = path.read_text(encoding="utf-8-sig")
        rows = list(csv.DictReader(io.StringIO(text)))
    except OSError as error:
        raise UsageError(f"--expected {path}: {error.strerror}") from error
    except (ValueError, csv.Error) as error:
        raise UsageError(f"--expected {path} is not a CSV file: {error}") from error
    if not rows or NAME not in rows[0]:
        raise UsageError(f"--expected {path} is not a CSV file with a column {NAME}, and rows")
    return {row[NAME]: row for row in rows if row[NAME]}


Verdict = Literal["FAIL", "IMPROVED", "PASS", "XFAIL", "NOT COMPARED"]


def expected_checks(
    reader: SessionReader, row: CiRow, expected: Mapping[str, Mapping[str, str]]
) -> list[Check]:
    """Judge a program by the row that is expected of it, by the rules of PyTorch's CI."""
    name = next((name for name in row.names if name in expected), None)
    if name is None:
        text = f"FAIL: the expected file has no row called {' or '.join(row.names)}"
        return [placed(reader, Check(f"{EXPECTED}row", 0, text, is_met=False))]
    checks = []
    if ACCURACY in expected[name]:
        checks.append(_accuracy_check(row.cells[ACCURACY], expected[name][ACCURACY]))
    for column, is_less_better in LESS_IS_BETTER.items():
        if column in expected[name]:
            checks.append(_metric(column, row, expected[name][column], is_less_better))
    if not checks:
        text = f"FAIL: the row {name} of the expected file has no column that can be compared"
        checks = [Check(f"{EXPECTED}row", 0, text, is_met=False)]
    return [check if check.is_met else _with_lines(reader, check) for check in checks]


def _check(column: str, verdict: Verdict, detail: str) -> Check:
    return Check(
        f"{EXPECTED}{column.replace('_', '-')}",
        0,
        f"{verdict}: {column}: {detail}",
        is_met=verdict != "FAIL",
    )


def _accuracy_check(now: str, expected: str) -> Check:
    if not now:
        detail = "results were not compared with eager mode (--close-to-eager does this)"
        return _check(ACCURACY, "NOT COMPARED", detail)
    verdict: Verdict
    if now == expected:
        verdict = "PASS" if now == PASS else "XFAIL"
    else:
        verdict = "IMPROVED" if now == PASS else "FAIL"
    return _check(ACCURACY, verdict, f"{expected} expected, {now} now")


def _metric(column: str, row: CiRow, cell: str | None, is_less_better: bool) -> Check:
    try:
        before = float(cell or "")
    except ValueError:
        return _check(column, "NOT COMPARED", f"{cell!r} is expected, but is not a number")
    now = float(row.cells[column])
    verdict: Verdict = "PASS"
    if now != before:
        is_better = now < before if is_less_better else now > before
        verdict = "IMPROVED" if is_better else "FAIL"
    return _check(column, verdict, f"{before:,.0f} expected, {now:,.0f} now")


Findings = Callable[[SessionReader], Iterator[CheckFinding]]

_LINES: dict[str, Findings] = {
    "graph-breaks": break_findings,
    "fallbacks-to-eager": left_findings,
}


def _with_lines(reader: SessionReader, check: Check) -> Check:
    findings = _LINES.get(check.condition.removeprefix(EXPECTED))
    parts = tuple(findings(reader)) if findings else ()
    return placed(reader, Check(check.condition, 0, check.measured, parts, is_met=False))
