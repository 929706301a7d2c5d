"""Ways of dealing with dynamic shapes as rows, and the text about the one under the cursor."""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer.trials.dynamic import DynamicTrial, Way
from fx_explorer.trials.dynamic_in_words import HEADER, advice, cells, told, verdict
from fx_explorer.tui.widgets.row_list import Column, Row

_PRIORITIES = {"graphs": 2, "guards": 1, "fixed sizes": 3, "kernels": 4}
"""Priorities of columns: where there is no room for all, the highest go first."""

COLUMNS = (
    Column(HEADER[0], "strong", min_width=13),
    *(
        Column(title, align="right", min_width=len(title), priority=_PRIORITIES.get(title, 0))
        for title in HEADER[1:-1]
    ),
    Column(HEADER[-1], min_width=18, max_width=120),
)

_SIGNS = {"used again": ("✓", "good"), "compiled again": ("↻", "warning"), "": ("?", "warning")}
"""(sign, kind of highlight.py). A sign is given because colour alone must not carry meaning."""


def way_row(way: Way, trials: Sequence[DynamicTrial], doing: tuple[Way, str] | None) -> Row:
    trial = next((trial for trial in trials if trial.way == way), None)
    if trial is None:
        state = f"… {doing[1]}" if doing and doing[0] == way else "not tried"
        return (way, *[""] * (len(HEADER) - 2), (state, "muted"))
    sign, kind = _SIGNS[trial.others] if trial.is_whole else ("✗", "bad")
    *numbers, last = cells(trial)
    return (*numbers, (f"{sign} {last}", kind))


def words(way: Way, trials: Sequence[DynamicTrial], *, is_running: bool) -> list[str]:
    """Return the text about the way under the cursor; once the trials have ended, also a conclusion
    from all of them.
    """
    here = [f"{trial.way}: {told(trial)}" for trial in trials if trial.way == way]
    if is_running:
        return here
    return [
        *here,
        "\n".join(
            part
            for part in (verdict(trials), *(f"  {line}" for line in advice(trials).splitlines()))
            if part
        ),
    ]
