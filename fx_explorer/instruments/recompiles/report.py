"""This module writes recompiles for the JSON report: the change, how to avoid it, and where a limit
was hit.
"""

from __future__ import annotations

from fx_explorer.instruments.recompiles.causes import ExplainedRecompile, LimitHit
from fx_explorer.instruments.recompiles.guard_changes import GuardChange

Json = dict[str, object]


def recompile(explained_recompile: ExplainedRecompile) -> Json:
    """Return one recompile as JSON: the change, and how to avoid it."""
    return {
        "compilation": explained_recompile.compilation,
        "of": explained_recompile.of,
        "is_cause": explained_recompile.is_cause,
        "times": explained_recompile.times,
        "reason": explained_recompile.reason,
        "in_words": explained_recompile.description,
        "guard": explained_recompile.guard,
        "file": explained_recompile.file,
        "line": explained_recompile.line,
        "change": _change(explained_recompile.change),
        "called_from": _place(*explained_recompile.called_from),
        "graphs": explained_recompile.graphs,
        "remedy": explained_recompile.remedy,
    }


def _change(change: GuardChange) -> Json:
    return {
        "kind": change.kind,
        "name": change.name,
        "where": change.where or None,
        "index": change.index,
        "old": change.old or None,
        "new": change.new or None,
    }


def _place(file: str, line: int) -> Json | None:
    return {"file": file, "line": line} if file else None


def limit_hit(hit: LimitHit) -> Json:
    """Return the JSON of a recompile limit that was hit: the function, and the option that sets the
    limit.
    """
    return {
        "compilation": hit.compilation,
        "function": hit.function,
        "file": hit.file,
        "line": hit.line,
        "option": hit.option,
        "limit": hit.limit,
        "compiled": hit.compiled,
        "raises": hit.is_error,
        "in_words": hit.description,
    }
