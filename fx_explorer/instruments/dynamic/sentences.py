"""What came of trying ``dynamic=None``, ``True``, ``False`` and ``mark_dynamic``: a table, a
verdict, and what to write.

The command and the app say the same, because both ask here.
"""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer.analysis.words import counted, first_line
from fx_explorer.instruments.dynamic.trial import WAYS, DynamicTrial
from fx_explorer.output.table import Column

COLUMNS = (
    Column("way"),
    Column("compiled", is_number=True),
    Column("graphs", is_number=True, priority=5),
    Column("guards", is_number=True, priority=2),
    Column("free sizes", is_number=True),
    Column("fixed sizes", is_number=True, priority=1),
    Column("kernels", is_number=True, priority=4),
    Column("compile s", is_number=True, priority=3),
    Column("other inputs", narrowing="wrapped", least=18),
)

ALWAYS = "torch.compile(…, dynamic=True)"


def cells(trial: DynamicTrial) -> tuple[str, ...]:
    """Return the cells of a trial's row under COLUMNS. For a program that did not come to its end,
    they are the way and, in the last place, the reason.
    """
    if not trial.is_whole:
        return (trial.way, *[""] * (len(COLUMNS) - 2), told(trial))
    session_figures = trial.figures
    if session_figures.recompiles:
        compiled = f"{session_figures.compiled} ({session_figures.recompiles} again)"
    else:
        compiled = str(session_figures.compiled)
    numbers = (
        session_figures.graphs,
        session_figures.guards,
        session_figures.free_sizes,
        session_figures.fixed_sizes,
        session_figures.kernels,
    )
    return (
        trial.way,
        compiled,
        *map(str, numbers),
        f"{session_figures.compile_s:.1f}",
        told(trial),
    )


def told(trial: DynamicTrial) -> str:
    """Say what becomes of the other inputs and why; or how the program ended."""
    if not trial.is_whole:
        return f"{trial.outcome.kind.replace('_', ' ')}: {trial.outcome.message}".removesuffix(": ")
    return f"{trial.others or 'not known'}: {trial.reason}".removesuffix(": ")


def advice(trials: Sequence[DynamicTrial]) -> str:
    """Say what to write into the program, one line per size; empty when nothing helps, or nothing
    is needed.
    """
    found = {trial.way: trial for trial in trials}
    if _fits(found.get("dynamic=None")):
        return ""
    marked = found.get("mark_dynamic")
    if marked and _fits(marked) and marked.free_sizes:
        return "\n".join(
            f"torch._dynamo.mark_dynamic({name}, {size})" for name, size in marked.free_sizes
        )
    return ALWAYS if _fits(found.get("dynamic=True")) else ""


def verdict(trials: Sequence[DynamicTrial]) -> str:
    """Say in a few sentences what the trials showed that were made so far."""
    parts = [_best(trials)] if trials else []
    parts += [
        f"{trial.way} did not come to its end: {told(trial)}."
        for trial in trials
        if not trial.is_whole
    ]
    if len(trials) < len(WAYS):
        parts.append(f"{len(trials)} of {len(WAYS)} ways were tried.")
    return " ".join(part for part in parts if part)


def _best(trials: Sequence[DynamicTrial]) -> str:
    found = {trial.way: trial for trial in trials}
    default, marked, always = (
        found.get(way) for way in ("dynamic=None", "mark_dynamic", "dynamic=True")
    )
    if _fits(default):
        return "The compiled code takes the other inputs as it is: nothing has to be marked."
    if marked and _fits(marked) and marked.free_sizes:
        return (
            f"mark_dynamic makes one compilation serve both{_rather_than(marked, always)}. "
            f"{_default(default)}"
        ).rstrip()
    if _fits(always):
        return (
            f"dynamic=True makes one compilation serve both{_but_not(marked)}. {_default(default)}"
        ).rstrip()
    refused = next(
        (
            trial
            for trial in (marked, always, default)
            if trial and trial.others == "compiled again"
        ),
        None,
    )
    if refused:
        return f"No way makes one compilation serve both: {first_line(refused.reason)}."
    reason = next((trial.reason for trial in trials if trial.is_whole and trial.reason), "")
    if reason:
        return (
            "Whether the other inputs are compiled again is not known: "
            f"{first_line(reason).rstrip('.')}."
        )
    return ""


def _fits(trial: DynamicTrial | None) -> bool:
    return trial is not None and trial.is_whole and trial.others == "used again"


def _rather_than(marked: DynamicTrial, always: DynamicTrial | None) -> str:
    if always is None or not _fits(always):
        return ""
    of_always, of_marked = always.figures, marked.figures
    if (of_always.free_sizes, of_always.guards) == (of_marked.free_sizes, of_marked.guards):
        return "; dynamic=True does the same"
    return (
        f"; dynamic=True does too, with {counted(of_always.free_sizes, 'free size')} in place "
        f"of {of_marked.free_sizes}"
    )


def _but_not(marked: DynamicTrial | None) -> str:
    if marked is None or not marked.is_whole or marked.others != "compiled again":
        return ""
    return f", mark_dynamic does not ({first_line(marked.reason)})"


def _default(default: DynamicTrial | None) -> str:
    if default is None or default.others != "compiled again":
        return ""
    return (
        "By default torch compiles once more when a size has changed, and keeps that size "
        "dynamic from then on."
    )
