"""A ledger as text, markdown, CSV and JSON: the verdict first, then where the time goes by kind, by
line of the user's, and step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import counted
from fx_explorer.highlight import printable
from fx_explorer.instruments.ledger.figures import (
    LedgerEntry,
    LedgerFigures,
    LineTime,
    line_times,
    rate,
)
from fx_explorer.instruments.ledger.ledger_rows import (
    GAP_COLUMNS,
    KIND_COLUMNS,
    LINE_COLUMNS,
    MOST_GAPS,
    Cells,
    ToldGap,
    gap_rows,
    kind_rows,
    line_rows,
    shown_gaps,
    step_name,
    step_table,
)
from fx_explorer.instruments.ledger.remedies import describe_checks, remedies
from fx_explorer.instruments.ledger.verdict import verdict
from fx_explorer.output.formats import (
    Block,
    csv_of_objects,
    json_text,
    markdown_list,
    markdown_table,
    text_of,
)
from fx_explorer.output.table import Table

SCHEMA = "fx-explorer/ledger/1"

MOST_LINES = 12
"""Maximum number of the user's lines that the text has; the other formats have all."""

Format = Callable[[LedgerFigures, bool], str]


def ledger_text(figures: LedgerFigures, steps: bool, width: int | None = None) -> str:
    """Return the verdict and the tables as plain text; with ``steps`` every step of the call. Lines
    have at most ``width`` cells; None sets no limit.
    """
    blocks: list[Block] = [*verdict(figures), ""]
    for table in _tables(figures, _most(line_rows(figures)), MOST_GAPS, steps):
        blocks += [table, ""]
    return text_of([*blocks, *_guards(figures), *_notes(figures)], width)


def ledger_markdown(figures: LedgerFigures, steps: bool) -> str:
    """Return the verdict as a list and the tables, to be put into an issue."""
    lines = markdown_list([*verdict(figures), *_guards(figures), *_notes(figures)])
    for table in _tables(figures, line_rows(figures), None, steps):
        lines += ["", *markdown_table(table)]
    return "\n".join(lines) + "\n"


def _tables(
    figures: LedgerFigures, lines: Sequence[Cells], most_gaps: int | None, steps: bool
) -> Iterator[Table]:
    """Yield the tables of the time by kind and by line, of the GPU's gaps, and of every step if
    requested.
    """
    yield Table(KIND_COLUMNS, kind_rows(figures))
    yield Table(LINE_COLUMNS, lines)
    if figures.gaps:
        yield Table(GAP_COLUMNS, gap_rows(figures)[:most_gaps])
    if steps:
        yield step_table(figures)


def ledger_csv(figures: LedgerFigures, steps: bool) -> str:
    """Return a line for each step in order, with times in seconds."""
    rows = [_step(figures, entry) for entry in figures.entries]
    for row, entry in zip(rows, figures.entries, strict=True):
        row["lines"] = " ".join(f"{line.file}:{line.line}" for line, _ in entry.lines)
    return csv_of_objects(rows)


def ledger_json(figures: LedgerFigures, steps: bool) -> str:
    """Return everything as JSON."""
    return json_text({"schema": SCHEMA, **ledger_object(figures)})


def ledger_object(figures: LedgerFigures) -> dict[str, object]:
    """Return everything as the report has it under ``ledger``."""
    call = {name: _or_null(value) for name, value in asdict(figures.call).items() if name != "id"}
    times = line_times(figures)
    return {
        "verdict": verdict(figures),
        **call,
        "accounted_s": figures.accounted_s,
        "unaccounted_s": figures.unaccounted_s,
        "by_kind": [{"kind": kind, "seconds": took_s} for kind, took_s in figures.by_kind],
        "by_line": [_line(line) for line in times.lines],
        "steps": [_step(figures, entry) for entry in figures.entries],
        "gaps": [_gap(figures, gap) for gap in shown_gaps(figures)],
        "uncompiled_operators": [_operator(row) for row in figures.operators],
        "ceilings": {kind: row.rate for kind, row in figures.ceilings.items()},
        "guards": {
            "in_cpp": figures.guards.in_cpp,
            "in_python": figures.guards.in_python,
            "filters": _filters(figures),
        },
        "remedies": [asdict(remedy) for remedy in remedies(figures)],
    }


FORMATS: dict[str, Format] = {
    "text": ledger_text,
    "json": ledger_json,
    "csv": ledger_csv,
    "markdown": ledger_markdown,
}


def tried_text(sentences: Sequence[str]) -> str:
    """Return the sentences on the remedies as plain text, a line for each."""
    return "".join(f"{printable(sentence)}\n" for sentence in sentences)


def tried_markdown(sentences: Sequence[str]) -> str:
    """Return the sentences on the remedies as a list."""
    return "".join(f"{line}\n" for line in markdown_list(sentences))


TRIED: dict[str, Callable[[Sequence[str]], str]] = {"text": tried_text, "markdown": tried_markdown}


def _or_null(value: object) -> object:
    """Return null for an unknown time or amount."""
    if isinstance(value, float | int) and value < 0:
        return None
    return value


def _line(line_time: LineTime) -> dict[str, object]:
    return {
        **asdict(line_time.line),
        "compiled_s": _or_null(line_time.compiled_s),
        "uncompiled_s": _or_null(line_time.uncompiled_s),
    }


def _step(figures: LedgerFigures, entry: LedgerEntry) -> dict[str, object]:
    step, reached = entry.step, rate(figures, entry)
    rates: dict[str, float | None] = {"bytes_per_s": None, "flops_per_s": None}
    if reached:
        rates = {"bytes_per_s": reached.bytes_per_s, "flops_per_s": reached.flops_per_s}
    return {
        "kind": step.kind,
        "name": step.name,
        "compilation": step.compilation,
        "direction": step.direction,
        "output_code_line": step.line,
        "began_s": entry.began_s,
        "host_s": step.host_s,
        "iqr_s": step.iqr_s,
        "device_s": _or_null(step.device_s),
        "bytes": _or_null(step.moved_bytes),
        "flops": _or_null(step.flops),
        **rates,
        "lines": [{**asdict(line), "part": part} for line, part in entry.lines],
    }


def _gap(figures: LedgerFigures, gap: ToldGap) -> dict[str, object]:
    position = {id(entry): at for at, entry in enumerate(figures.entries)}
    steps = [
        {"step": position[id(entry)], "name": step_name(figures, entry), "seconds": took_s}
        for entry, took_s in gap.meanwhile
    ]
    return {
        "before": gap.gap.before,
        "after": gap.gap.after,
        "seconds": gap.gap.seconds,
        "meanwhile": steps,
    }


def _operator(row: object) -> dict[str, object]:
    fields = asdict(row)  # type: ignore[call-overload]
    return {name: value for name, value in fields.items() if name not in ("id", "call", "position")}


def _most(rows: list[Cells]) -> list[Cells]:
    """Return the longest lines, and the last row, which belongs to no line."""
    left_out = len(rows) - 1 - MOST_LINES
    if left_out <= 0:
        return rows
    return [*rows[:MOST_LINES], (f"and {counted(left_out, 'line')} more", "", "", ""), rows[-1]]


def _filters(figures: LedgerFigures) -> list[dict[str, object]]:
    return [asdict(effect) for effect in figures.guards.filters]


def _guards(figures: LedgerFigures) -> Iterator[str]:
    guards = figures.guards
    if guards.whole:
        if guards.most_expensive:
            dear = f"; the most expensive ones: {guards.most_expensive}"
        else:
            dear = ""
        yield (
            f"Guards: {describe_checks(guards.in_cpp, guards.in_python)}{dear}. View 5 of the "
            "app lists them."
        )
    for filtered in guards.dropped:
        yield (
            f"The guard filter {filtered.filter} dropped {filtered.dropped:,} of the "
            f"{counted(filtered.guards, 'guard')} of this program."
        )


def _notes(figures: LedgerFigures) -> Iterator[str]:
    call = figures.call
    yield (
        f"Measured on {call.device}, {counted(call.threads, 'thread')}, torch {call.torch}, with "
        f"{call.inputs}: means of the middle half of {counted(call.calls, 'call')}, which "
        f"alternated with calls without a timer. The timer took {run_time(call.clock_s)} of a "
        "call, which is subtracted."
    )
