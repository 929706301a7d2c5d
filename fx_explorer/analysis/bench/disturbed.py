"""The rounds of a bench in which the processors took longer than in others to share an operation: what was measured in
them says more of the machine than of the program.
"""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer.model import BenchRound

DISTURBED = 1.2
"""How many times as long as in the fastest round the threads take to share an operation, from which on a round is disturbed."""


class Paces:
    """How fast the threads shared an operation in the rounds of a bench."""

    def __init__(self, rounds: Sequence[BenchRound]) -> None:
        self._least_s = min((row.sharing_s for row in rounds if row.sharing_s > 0), default=0.0)

    def is_disturbed(self, row: BenchRound) -> bool:
        return row.sharing_s > DISTURBED * self._least_s
