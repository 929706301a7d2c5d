"""What failed, in the JSON report."""

from __future__ import annotations

from fx_explorer.analysis.overview.console import ExplainedFailure

Json = dict[str, object]


def failure(one: ExplainedFailure) -> Json:
    """Return one failure with its traceback."""
    return {
        "compilation": one.compilation or None,
        "where": one.failure.where,
        "stage": one.failure.stage,
        "kind": one.failure.kind,
        "message": one.failure.message,
        "traceback": one.traceback,
    }
