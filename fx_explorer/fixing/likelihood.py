"""How likely fixes hold, and their order by that: by what trials have shown, else by what each leaves
open itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from fx_explorer.fixing.fix import Fix
from fx_explorer.fixing.trial import Trial

Chance = Literal["holds", "likely", "expected", "less likely", "unlikely", "fails"]
"""``holds`` and ``fails``: it was tried, and is good, or refused. ``likely`` and ``unlikely``: the same
fix of another line was. ``expected``: nothing is known against it. ``less likely``: a trial could
not call it good, or did not.
"""

CHANCES: tuple[Chance, ...] = ("holds", "likely", "expected", "less likely", "unlikely", "fails")
"""From the best to the worst."""


@dataclass(frozen=True, slots=True)
class Likelihood:
    chance: Chance
    why: str
    """The reason, as a sentence without its full stop."""


def likelihood(fix: Fix, trials: Sequence[Trial]) -> Likelihood:
    """Return how likely a fix holds. The last trial of the fix itself decides, then those of the same
    fix in other lines, then what the fix says of itself.
    """
    own = next((trial for trial in reversed(trials) if trial.fix == fix), None)
    if own is not None:
        chance: Chance = "holds" if own.is_good else "fails" if own.verdict == "refused" else "less likely"
        return Likelihood(chance, f"tried, {own.verdict}: {own.reason}")
    alike = [trial for trial in trials if trial.fix.title == fix.title]
    good = [trial for trial in alike if trial.is_good]
    refused = [trial for trial in alike if trial.verdict == "refused"]
    if refused and len(refused) >= len(good):
        return Likelihood("unlikely", f"the same fix of line {refused[-1].fix.line} was refused: {refused[-1].reason}")
    return _by_itself(fix, good)


def _by_itself(fix: Fix, good: Sequence[Trial]) -> Likelihood:
    if fix.compiles_less:
        return Likelihood("less likely", "less is compiled with it, which pays only where that has several breaks")
    if fix.unseen:
        return Likelihood("less likely", f"it may change something that no call shows ({fix.unseen})")
    if good:
        return Likelihood("likely", f"the same fix of line {good[-1].fix.line} is good")
    return Likelihood("expected", "nothing is known against it")


def ordered(fixes: Iterable[Fix], trials: Sequence[Trial] = ()) -> list[Fix]:
    """Return the fixes, the likeliest first; those that are as likely as each other stay in the order
    that they had.
    """
    return sorted(fixes, key=lambda fix: CHANCES.index(likelihood(fix, trials).chance))
