"""A frame of a flame chart: a stretch of time, and what lies within it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class FlameFrame:
    """A stretch of time, and what lies within it."""

    name: str
    kind: str
    """What it is, which says how it is coloured."""
    depth: int
    """0 is the whole chart."""
    began_s: float
    """Seconds after the chart begins."""
    ended_s: float
    steps: range
    """Positions of what it consists of, which tell frames apart. Each chart says what it counts."""
    line: tuple[str, int] | None = None
    """The user's file and line."""
    children: tuple[FlameFrame, ...] = ()
    """In order, from its beginning on and without gaps."""

    @property
    def duration_s(self) -> float:
        return self.ended_s - self.began_s

    @property
    def self_s(self) -> float:
        """Seconds in none of its children."""
        return max(0.0, self.duration_s - sum(child.duration_s for child in self.children))

    def frames(self) -> Iterator[FlameFrame]:
        """Yield this frame and all within it, a frame before its children."""
        waiting = [
            self
        ]  # no recursion: a loop with a graph break in it nests as deep as Python lets it
        while waiting:
            frame = waiting.pop()
            yield frame
            waiting += reversed(frame.children)
