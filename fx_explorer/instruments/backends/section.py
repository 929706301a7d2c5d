"""Backends beside Inductor in the JSON report: the stages they published, their entries and last
runs.
"""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.published import BackendSummary, ShownStage, ToldRun, backend_summaries
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compilation_names

Json = dict[str, object]


def backends_of_report(reader: SessionReader) -> list[Json]:
    """Return an object per backend that published something or was counted in its calls."""
    names = compilation_names(reader)
    return [_backend(one, names) for one in backend_summaries(reader)]


def _backend(one: BackendSummary, names: dict[int, str]) -> Json:
    return {
        "backend": one.backend,
        "in_words": one.in_words,
        "stages": [_stage(stage) for stage in one.stages],
        "entries": [_entry(entry, names) for entry in one.entries],
        "last_runs": [_run(run) for run in one.runs],
    }


def _stage(shown: ShownStage) -> Json:
    is_graph = shown.document.kind == "graph"
    return {
        "compilation": shown.document.owner or None,
        "position": shown.stage.position,
        "name": shown.stage.name,
        "direction": shown.stage.direction or None,
        "kind": "graph" if is_graph else "text",
        "language": None if is_graph else shown.document.language,
        "nodes": shown.document.line_count if is_graph else None,
        "lines": None if is_graph else shown.document.line_count,
    }


def _entry(entry: model.BackendEntry, names: dict[int, str]) -> Json:
    return {
        "compilation": names.get(entry.compilation),
        "direction": entry.direction or None,
        "calls": entry.calls,
        "outputs": entry.outputs if entry.outputs >= 0 else None,
    }


def _run(told: ToldRun) -> Json:
    return {
        "compilation": told.compilation or None,
        "entry": told.run.entry,
        "direction": told.run.direction or None,
        "call": told.run.call,
        "seconds": told.seconds,
        "fell_back": told.fell_back,
        "instructions": [
            {
                "name": one.name,
                "shapes": one.shapes,
                "seconds": one.seconds,
                "fell_back": one.fell_back,
                "line": one.line or None,
            }
            for one in told.instructions
        ],
    }
