"""The rounds of a bench in which the processors took longer than in others to share an operation:
what was measured in them says more of the machine than of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from fx_explorer.model import BenchRound

DISTURBED = 1.2
"""How many times as long as they can the threads take to share an operation, from which on a round
is disturbed.
"""


class Paces:
    """How fast the threads shared an operation in the rounds of a bench, and in earlier ones on the
    same machine.
    """

    def __init__(self, rounds: Sequence[BenchRound], known_s: float = 0.0) -> None:
        """``known_s``: the least that they took in earlier benches; 0 when that is not known."""
        seconds = [known_s, *(row.sharing_s for row in rounds)]
        self._least_s = min((second for second in seconds if second > 0), default=0.0)

    def is_disturbed(self, row: BenchRound) -> bool:
        return row.sharing_s > DISTURBED * self._least_s

    def undisturbed_part(self, rows: Sequence[BenchRound]) -> float:
        """Return which part of their time rounds would have taken at least, had the threads not
        taken longer to share operations: no call consists of more than that.
        """
        taken = [row.sharing_s for row in rows if row.sharing_s > 0]
        return min(1.0, self._least_s / median(taken)) if taken else 1.0
