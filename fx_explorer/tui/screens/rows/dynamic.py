"""Ways of dealing with dynamic shapes as rows, and the text about the one under the cursor."""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer.trials.dynamic import DynamicTrial, Way
from fx_explorer.trials.dynamic_in_words import COLUMNS as TRIAL_COLUMNS
from fx_explorer.trials.dynamic_in_words import advice, cells, told, verdict
from fx_explorer.tui.widgets.row_list import Column, Row

_WAY, *_NUMBERS, _OTHERS = TRIAL_COLUMNS

COLUMNS = (
    Column(_WAY.title, "strong", min_width=13),
    *(
        Column(number.title, align="right", min_width=len(number.title), priority=number.priority)
        for number in _NUMBERS
    ),
    Column(_OTHERS.title, min_width=_OTHERS.least, max_width=120),
)

_SIGNS = {"used again": ("✓", "good"), "compiled again": ("↻", "warning"), "": ("?", "warning")}
"""(sign, kind of highlight.py). A sign is given because colour alone must not carry meaning."""


def way_row(way: Way, trials: Sequence[DynamicTrial], doing: tuple[Way, str] | None) -> Row:
    trial = next((trial for trial in trials if trial.way == way), None)
    if trial is None:
        state = f"… {doing[1]}" if doing and doing[0] == way else "not tried"
        return (way, *[""] * (len(COLUMNS) - 2), (state, "muted"))
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
