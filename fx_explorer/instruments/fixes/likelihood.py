"""How likely fixes hold, and their order by that: by what trials have shown, else by what each
leaves open itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.trial import Trial

Chance = Literal["holds", "likely", "expected", "less likely", "unlikely", "fails"]
"""``holds`` and ``fails``: it was tried, and is good, or refused. ``likely`` and ``unlikely``: the
same fix of another line was. ``expected``: nothing is known against it. ``less likely``: a trial
could not call it good, or did not.
"""

CHANCES: tuple[Chance, ...] = ("holds", "likely", "expected", "less likely", "unlikely", "fails")
"""From the best to the worst."""


def chance_of(fix: Fix, trials: Sequence[Trial] = ()) -> Chance:
    """Return how likely a fix holds. The last trial of the fix itself decides, then those of the
    same fix in other lines, then what the fix says of itself: that less is compiled with it, which
    pays only where that has several breaks, or that it may change something that no call shows.
    """
    own = next((trial for trial in reversed(trials) if trial.fix == fix), None)
    if own is not None:
        return "holds" if own.is_good else "fails" if own.verdict == "refused" else "less likely"
    if fix.refuted:
        return "unlikely"
    alike = [trial for trial in trials if trial.fix.title == fix.title]
    good = sum(trial.is_good for trial in alike)
    refused = sum(trial.verdict == "refused" for trial in alike)
    if refused and refused >= good:
        return "unlikely"
    if fix.compiles_less or fix.unseen:
        return "less likely"
    return "likely" if good else "expected"


def ordered(fixes: Iterable[Fix], trials: Sequence[Trial] = ()) -> list[Fix]:
    """Return the fixes, the likeliest first; those that are as likely as each other stay in the
    order that they had.
    """
    return sorted(fixes, key=lambda fix: CHANCES.index(chance_of(fix, trials)))
