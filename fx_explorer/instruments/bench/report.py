"""A bench as text, markdown, CSV and JSON: the verdict first, then a row for each cell. The columns
are those of the screen too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from itertools import chain

from fx_explorer.analysis.measured_times import Interval, factor, run_time, with_spread
from fx_explorer.analysis.words import counted, seconds, size
from fx_explorer.instruments.bench.cells import BenchFigures, CellFigures
from fx_explorer.instruments.bench.verdict import difference, verdict
from fx_explorer.output.formats import (
    csv_of_objects,
    json_text,
    markdown_list,
    markdown_table,
    text_of,
)
from fx_explorer.output.table import Column, Table

MS = 1e-3

CellRow = tuple[str, ...]

COLUMNS = (
    Column("size", narrowing="cut", least=12),
    Column("contender", narrowing="cut", least=16),
    Column("a call"),
    Column("speed-up", narrowing="wrapped", least=20),
    Column("first call", priority=2),
    Column("pays after", priority=1),
    Column("memory", priority=4),
    Column("graphs", narrowing="wrapped", least=9, priority=3),
    Column("results", narrowing="wrapped", least=12),
)

RESULTS = {
    "equal": "equal",
    "within_error": "within eager's error",
    "differs": "differs",
    "not_compared": "not compared",
    "": "",
}

STATES = {
    "failed": "failed",
    "out_of_memory": "out of memory",
    "timed_out": "timed out",
    "not_measured": "not measured",
}


def bench_table(figures: BenchFigures) -> Table:
    return Table(COLUMNS, [row_of(cell) for cell in figures.cells])


def row_of(cell_figures: CellFigures) -> CellRow:
    """Return the cells of the table for one cell of the bench, in the order of COLUMNS."""
    cell = cell_figures.cell
    if cell.state != "measured":
        return (cell.size, cell.contender, STATES[cell.state], *[""] * (len(COLUMNS) - 3))
    if cell.first_call_s >= MS:
        first_call = seconds(cell.first_call_s)
    else:
        first_call = run_time(cell.first_call_s)
    pays_after = "" if cell_figures.pays_after is None else f"{cell_figures.pays_after:,}"
    peak = "" if cell.peak_bytes < 0 else size(cell.peak_bytes)
    results = RESULTS[cell.agreement] if cell.is_compiled else ""
    return (
        cell.size,
        cell.contender,
        _call(cell_figures),
        _speed_up(cell_figures),
        first_call,
        pays_after,
        peak,
        _graphs(cell_figures),
        results,
    )


def _call(cell: CellFigures) -> str:
    """Return the time of a call, with its spread if there are enough rounds."""
    if cell.call_s is None:
        return ""
    if cell.interval:
        return with_spread(cell.call_s, cell.iqr_s)
    return run_time(cell.call_s)


def _speed_up(cell: CellFigures) -> str:
    interval = cell.speed_up
    if cell.is_wrong:
        return "results differ"
    if interval is None and cell.rough_speed_up is not None:
        rough = cell.rough_speed_up
        seen = f"{factor(rough.low)} to {factor(rough.high)}"
        return f"about {factor(rough.middle)} ({seen}, {counted(cell.rounds, 'round')})"
    if interval is None and cell.cell.is_compiled:
        return "one timing each" if cell.rounds else ""
    if interval is None:
        return "1" if cell.rounds else ""
    shown = f"{factor(interval.middle)} ({factor(interval.low)} to {factor(interval.high)})"
    if cell.is_faster or cell.is_slower:
        return shown
    return f"{shown}, no measurable difference"


def _graphs(cell_figures: CellFigures) -> str:
    cell = cell_figures.cell
    if not cell.is_compiled:
        return ""
    parts = [f"{cell.graphs:,}"]
    parts += [counted(cell.graph_breaks, "break")] if cell.graph_breaks else []
    parts += [counted(cell.recompiles, "recompile")] if cell.recompiles else []
    return ", ".join(parts)


SCHEMA = "fx-explorer/bench/1"


def bench_text(figures: BenchFigures, width: int | None = None) -> str:
    """Return the verdict and the table as plain text. Lines have at most ``width`` cells; None sets
    no limit.
    """
    return text_of([*verdict(figures), "", bench_table(figures), "", *_notes(figures)], width)


def bench_markdown(figures: BenchFigures) -> str:
    """Return the verdict as a list and the cells as a table, to be put into an issue or a
    README.
    """
    sentences = [*verdict(figures), *_notes(figures)]
    lines = [*markdown_list(sentences), "", *markdown_table(bench_table(figures))]
    return "\n".join(lines) + "\n"


def bench_csv(figures: BenchFigures) -> str:
    """Return a line for each cell, with times in seconds and sizes in bytes."""
    return csv_of_objects([_plain(cell) for cell in figures.cells])


def bench_json(figures: BenchFigures) -> str:
    """Return everything as JSON."""
    return json_text({"schema": SCHEMA, "target": figures.target, **bench_object(figures)})


def bench_object(figures: BenchFigures) -> dict[str, object]:
    """Return the JSON of the bench, without the target and session it belongs to: the report has it
    under ``bench``.
    """
    return {
        "verdict": verdict(figures),
        "machine": figures.machine,
        "state": figures.state,
        "budget_s": figures.budget_s,
        "preparing_s": figures.preparing_s,
        "measuring_s": figures.measuring_s,
        "cells": [_nested(cell) for cell in figures.cells],
    }


FORMATS: dict[str, Callable[[BenchFigures], str]] = {
    "text": bench_text,
    "json": bench_json,
    "csv": bench_csv,
    "markdown": bench_markdown,
}


def _notes(figures: BenchFigures) -> list[str]:
    """Return sentences on the figures: the notes of the cells, and the device and clock they were
    measured with.
    """
    notes = chain.from_iterable(cell.cell.notes for cell in figures.cells)
    parts = list(dict.fromkeys(notes))
    cell = next((cell.cell for cell in figures.cells if cell.cell.state == "measured"), None)
    if cell:
        if cell.device != "cpu":
            on = cell.device
        else:
            on = str(figures.machine.get("processor", "the CPU"))
        if cell.clock == "events":
            clock = "CUDA events around each call, with a cleared L2 cache"
        else:
            clock = "a timer around blocks of calls"
        parts.append(
            f"Measured on {on}, {counted(cell.threads, 'thread')}, torch {cell.torch}, by {clock}."
        )
        if len(figures.sizes) == 1:
            parts.append(f"Inputs: {cell.inputs}.")
    return parts


def _interval(interval: Interval | None) -> dict[str, float] | None:
    return asdict(interval) if interval else None


def _nested(cell: CellFigures) -> dict[str, object]:
    return {
        "contender": cell.cell.contender,
        "size": cell.cell.size,
        "sizes": cell.cell.sizes,
        "state": cell.cell.state,
        "message": cell.cell.message,
        "call_s": cell.call_s,
        "call_interval_s": _interval(cell.interval),
        "iqr_s": cell.iqr_s,
        "rounds": cell.rounds,
        "rounds_left_out": cell.left_out,
        "rounds_disturbed": cell.disturbed,
        "undisturbed_part": cell.undisturbed_part,
        "speed_up": _interval(cell.speed_up),
        "rough_speed_up": _interval(cell.rough_speed_up),
        "pays_after_calls": cell.pays_after,
        "difference": difference(cell),
        **{name: value for name, value in asdict(cell.cell).items() if name in _OF_CELL},
    }


_OF_CELL = (
    "is_compiled",
    "inputs",
    "trains",
    "first_call_s",
    "warm_up_s",
    "warm_up_calls",
    "is_unstable",
    "graphs",
    "graph_breaks",
    "recompiles",
    "peak_bytes",
    "work_s",
    "agreement",
    "largest_difference",
    "where",
    "place",
    "error",
    "reference_error",
    "reference_error",
    "device",
    "torch",
    "threads",
    "clock",
    "notes",
)


def _or_empty(value: float | None) -> float | str:
    return "" if value is None else value


def _plain(cell_figures: CellFigures) -> dict[str, object]:
    cell = cell_figures.cell
    speed_up: dict[str, object] = {"speed_up": "", "speed_up_low": "", "speed_up_high": ""}
    if cell_figures.speed_up:
        interval = cell_figures.speed_up
        speed_up = {
            "speed_up": interval.middle,
            "speed_up_low": interval.low,
            "speed_up_high": interval.high,
        }
    peak_bytes = cell.peak_bytes if cell.peak_bytes >= 0 else None
    return {
        "contender": cell.contender,
        **cell.sizes,
        "state": cell.state,
        "call_s": _or_empty(cell_figures.call_s),
        "iqr_s": cell_figures.iqr_s,
        "rounds": cell_figures.rounds,
        **speed_up,
        "first_call_s": cell.first_call_s,
        "pays_after_calls": _or_empty(cell_figures.pays_after),
        "peak_bytes": _or_empty(peak_bytes),
        "graphs": cell.graphs,
        "graph_breaks": cell.graph_breaks,
        "recompiles": cell.recompiles,
        "results": cell.agreement,
        "largest_difference": cell.largest_difference,
        "message": cell.message,
    }
