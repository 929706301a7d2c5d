"""This module makes the JSON of what Inductor decided about kernels."""

from __future__ import annotations

from collections.abc import Iterable

from fx_explorer import model
from fx_explorer.instruments.decisions.figures import Explained
from fx_explorer.instruments.kernels.launched import METRIC, may_be_tuned, measured_choices
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compilation_names


def decisions_of_report(decisions: Iterable[Explained]) -> list[dict[str, object]]:
    return [_decision(explained) for explained in decisions]


def timed_choices_of_report(reader: SessionReader, name: str = "") -> list[dict[str, object]]:
    """Return what Inductor's autotuner measured, as a log has it: one object for each operation,
    with the kernels of that operation in the compilation. With a name, of kernels with it in
    theirs. A log does not say which of several calls of an operation was timed.
    """
    names = compilation_names(reader)
    rows: list[dict[str, object]] = []
    for choice in measured_choices(reader):
        kernels = [
            kernel.name
            for kernel in reader.rows(model.Kernel, compilation=choice.compilation)
            if may_be_tuned(kernel) and choice.operation in kernel.name
        ]
        kernels = list(dict.fromkeys(kernels))
        if name and not any(name.casefold() in kernel.casefold() for kernel in kernels):
            continue
        rows.append(
            {
                "kernel": " or ".join(kernels) or choice.best,
                "node": "",
                "direction": "",
                "modules": [],
                "line": "",
                "about": "candidates",
                "why": "timed",
                "sentence": f"[{names.get(choice.compilation, '')}] {choice.description}.",
                "may_change_it": "",
                "inductor_says": METRIC,
                "decided_in": "",
                "numbers": {
                    "choices": choice.choices,
                    "triton_choices": choice.triton_choices,
                    "best_ns": round(choice.best_s * 1e9),
                    "best_triton_ns": round(choice.best_triton_s * 1e9),
                },
                "texts": {"best": choice.best, "options": choice.best_description},
                "times": 1,
            }
        )
    return rows


def _decision(explained: Explained) -> dict[str, object]:
    row = explained.decision
    line = explained.line
    return {
        "kernel": explained.kernel.name,
        "node": explained.node,
        "direction": explained.kernel.direction,
        "modules": list(explained.modules),
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
