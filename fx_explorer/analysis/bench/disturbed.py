"""The rounds of a bench in which the processors were slower than in others for work on several threads: what was
measured in them says more of the machine than of the program.
"""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer.model import BenchRound

DISTURBED = 1.15
"""How many times as long as in the fastest round the threads take for their work, from which on a round is disturbed."""

CROWDED = 1.25
"""How many times as long as one thread alone all threads take for a piece of work each, even at the best time, from which on
they do not have a core each.
"""


class Paces:
    """How fast the processors were in the rounds of a bench."""

    def __init__(self, rounds: Sequence[BenchRound]) -> None:
        self._alone_s = min((row.alone_s for row in rounds if row.alone_s > 0), default=0.0)
        self._together_s = min((row.together_s for row in rounds if row.together_s > 0), default=0.0)

    @property
    def crowding(self) -> float | None:
        """Return how many times as long all threads took at the best time as one alone; None where it was not
        measured.
        """
        return self._together_s / self._alone_s if self._alone_s else None

    def is_disturbed(self, row: BenchRound) -> bool:
        return row.together_s > DISTURBED * self._together_s
