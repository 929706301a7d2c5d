"""This module makes the JSON of what Inductor decided about kernels."""

from __future__ import annotations

from collections.abc import Iterable

from fx_explorer.instruments.decisions.figures import Explained


def decisions_of_report(decisions: Iterable[Explained]) -> list[dict[str, object]]:
    return [_decision(explained) for explained in decisions]


def _decision(explained: Explained) -> dict[str, object]:
    row = explained.decision
    line = explained.line
    return {
        "kernel": explained.kernel.name,
        "direction": explained.kernel.direction,
        "line": f"{line[0]}:{line[1]}" if line else "",
        "about": row.kind,
        "why": row.outcome,
        "sentence": explained.reason.text,
        "may_change_it": explained.reason.change,
        "inductor_says": row.reason,
        "decided_in": row.check,
        "numbers": row.numbers,
        "texts": row.texts,
        "times": explained.count,
    }
