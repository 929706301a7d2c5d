"""Recompiles in the JSON report: what changed, what avoids it, and where a limit was hit."""

from __future__ import annotations

from fx_explorer.instruments.recompiles.causes import ExplainedRecompile, LimitHit
from fx_explorer.instruments.recompiles.changes import GuardChange

Json = dict[str, object]


def recompile(one: ExplainedRecompile) -> Json:
    """Return one recompile: what changed, what it became, and what avoids it."""
    return {
        "compilation": one.compilation,
        "of": one.of,
        "is_cause": one.is_cause,
        "times": one.times,
        "reason": one.reason,
        "in_words": one.in_words,
        "guard": one.guard,
        "file": one.file,
        "line": one.line,
        "change": _change(one.change),
        "called_from": _place(*one.called_from),
        "graphs": one.graphs,
        "remedy": one.remedy,
    }


def _change(one: GuardChange) -> Json:
    return {
        "kind": one.kind,
        "name": one.name,
        "where": one.where or None,
        "index": one.index,
        "old": one.old or None,
        "new": one.new or None,
    }


def _place(file: str, line: int) -> Json | None:
    return {"file": file, "line": line} if file else None


def limit_hit(one: LimitHit) -> Json:
    """Return where torch stopped compiling again, and by which option."""
    return {
        "compilation": one.compilation,
        "function": one.function,
        "file": one.file,
        "line": one.line,
        "option": one.option,
        "limit": one.limit,
        "compiled": one.compiled,
        "raises": one.is_error,
        "in_words": one.in_words,
    }
