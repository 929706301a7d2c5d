"""What another value of an option changes: a whole session in figures, and two of them side by side. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.comparing.compare import Figure
from fx_explorer.analysis.guards.kinds import check_count
from fx_explorer.analysis.totals import operations_captured, totals
from fx_explorer.analysis.words import seconds
from fx_explorer.model import Outcome
from fx_explorer.session import SessionReader


@dataclass(frozen=True, slots=True)
class SessionFigures:
    graphs: int
    break_sites: int
    break_hits: int
    left_to_python: int
    """Functions that Dynamo looked at and did not compile."""
    recompiles: int
    guards: int
    dynamic_sizes: int
    operations: int
    """Call nodes of Dynamo's graphs."""
    kernels: int
    compile_s: float


def session_figures(reader: SessionReader) -> SessionFigures:
    counted = totals(reader)
    return SessionFigures(
        counted.graphs,
        counted.graph_breaks,
        counted.graph_break_hits,
        reader.count(model.Compilation, status="skipped"),
        counted.recompiles,
        check_count(reader),
        sum(not row.became for row in reader.rows(model.Symbol) if row.final_range),
        operations_captured(reader),
        counted.kernels,
        counted.compile_s,
    )


_WORDS = {
    "graphs": "graphs",
    "break_sites": "places with a graph break",
    "break_hits": "graph breaks, each hit",
    "left_to_python": "functions left to Python",
    "recompiles": "recompiles",
    "guards": "guards",
    "dynamic_sizes": "dynamic sizes",
    "operations": "operations captured",
    "kernels": "kernels",
}


def compared(before: SessionFigures, after: SessionFigures) -> list[Figure]:
    rows = [Figure(words, f"{getattr(before, name):,}", f"{getattr(after, name):,}") for name, words in _WORDS.items()]
    return [*rows, Figure("compiling took", seconds(before.compile_s), seconds(after.compile_s))]


def ended_in_words(after: Outcome, before: Outcome | None) -> str:
    """``raised: ValueError: no (as before)``; ``before``: how the program had ended, None when that is not known."""
    again = " (as before)" if before and (before.kind, before.message) == (after.kind, after.message) else ""
    return f"{after.kind.replace('_', ' ')}: {after.message}".removesuffix(": ") + again


def settings_in_words(settings: Mapping[str, object]) -> str:
    """``compile.mode = "max-autotune", dynamo.recompile_limit = 2``."""
    return ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in settings.items())


def figures_to_compare_with(reader: SessionReader) -> SessionFigures | None:
    """None for a capture that has not ended, or that somebody changed on the way: it has to be made once more."""
    is_whole = reader.meta("outcome") is not None and not reader.count(model.Intervention)
    has_variants = any(variant.branch_of for variant in reader.rows(model.Compilation))
    return session_figures(reader) if is_whole and not has_variants else None
