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
    return [_backend(backend_summary, names) for backend_summary in backend_summaries(reader)]


def _backend(backend_summary: BackendSummary, names: dict[int, str]) -> Json:
    return {
        "backend": backend_summary.backend,
        "in_words": backend_summary.in_words,
        "stages": [_stage(stage) for stage in backend_summary.stages],
        "entries": [_entry(entry, names) for entry in backend_summary.entries],
        "last_runs": [_run(run) for run in backend_summary.runs],
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


def _run(run: ToldRun) -> Json:
    return {
        "compilation": run.compilation or None,
        "entry": run.run.entry,
        "direction": run.run.direction or None,
        "call": run.run.call,
        "seconds": run.seconds,
        "fell_back": run.fell_back,
        "instructions": [
            {
                "name": instruction.name,
                "shapes": instruction.shapes,
                "seconds": instruction.seconds,
                "fell_back": instruction.fell_back,
                "line": instruction.line or None,
            }
            for instruction in run.instructions
        ],
    }
