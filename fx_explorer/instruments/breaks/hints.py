"""This module shows torch's hints about a break as torch's, and beside a hint how the trial of the
option that it names has ended.

Trials are remembered as long as the app runs. A session is not changed by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from fx_explorer.instruments.breaks.call_tree import DistinctFallback
from fx_explorer.instruments.breaks.grouped import DistinctBreak

TORCHS_HINTS = "torch's hints"
OUR_ADVICE = "What to try"

Hinted = DistinctBreak | DistinctFallback

_BreakKey = tuple[Path, str, int, str]

_ends_of_trials: dict[_BreakKey, dict[str, str]] = {}
"""For each break or function in eager mode: name of an option → how its last trial ended."""


def note_trial(session: Path, hinted: Hinted, options: Iterable[str], end: str) -> None:
    """Remember how the trial of a fix ended that sets only these options (by full name)."""
    ends = _ends_of_trials.setdefault(_key(session, hinted), {})
    for option in options:
        ends[option.rpartition(".")[2]] = end


def title_of_hints(graph_break: DistinctBreak) -> str:
    """Return the title above ``hint_lines``: hints for breaks in code that is not the user's are
    ours.
    """
    is_ours = graph_break.elsewhere is not None and bool(graph_break.elsewhere.hints)
    return OUR_ADVICE if is_ours else TORCHS_HINTS


def first_hint(graph_break: DistinctBreak) -> str:
    """Return the first hint for one line, named torch's if it is; empty without hints."""
    if not graph_break.hints:
        return ""
    if title_of_hints(graph_break) == OUR_ADVICE:
        return graph_break.hints[0]
    return f"torch's hint: {graph_break.hints[0]}"


def hint_lines(session: Path, hinted: Hinted) -> Iterator[str]:
    """Yield each hint, and below it how the trial of the option it names ended."""
    ends = _ends_of_trials.get(_key(session, hinted), {})
    for hint in hinted.hints:
        yield f"• {hint}"
        for option, end in ends.items():
            if re.search(rf"\b{re.escape(option)}\b", hint):
                yield f"  Tried here with {option}: {end}"


def _key(session: Path, hinted: Hinted) -> _BreakKey:
    return session, hinted.file, hinted.line, hinted.registry_id
