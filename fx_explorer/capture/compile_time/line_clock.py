"""How long a phase spends on each line of the user's. The clock is told when the phase comes to another
line; it stands still while another phase runs within it.
"""

from __future__ import annotations

from typing import NamedTuple


class UserLine(NamedTuple):
    """A line of the user's, and the module it is traced for."""

    path: str
    line: int
    module: str
    """The innermost module: ``layers.0.fc1``; empty for none."""


class LineClock:
    """The clock of one phase. Times are in seconds, on the clock of the phases."""

    __slots__ = ("_at", "_since_s", "sums")

    def __init__(self) -> None:
        self.sums: dict[UserLine, float] = {}
        """Seconds by line, in the order in which the phase first came to them."""
        self._at: UserLine | None = None
        self._since_s: float | None = None
        """None while it stands still."""

    def is_at(self, line: UserLine | None) -> bool:
        """Return whether it counts for this line already."""
        return line == self._at and self._since_s is not None

    def turn_to(self, line: UserLine | None, time_s: float) -> None:
        """Count for another line from now on; None for none."""
        self.stand_still(time_s)
        self._at, self._since_s = line, time_s
        if line is not None:
            self.sums.setdefault(line, 0.0)

    def stand_still(self, time_s: float) -> None:
        """Count what has passed for the line."""
        if self._at is not None and self._since_s is not None:
            self.sums[self._at] += max(0.0, time_s - self._since_s)
        self._since_s = None

    def go_on(self, time_s: float) -> None:
        """Count for the same line again."""
        self._since_s = time_s
