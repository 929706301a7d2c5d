"""This module describes the cost of a line of the source, as data. ``costs.py`` computes it from a
session; the first screen need not load that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Measure = Literal[
    "profiled time", "measured time", "estimated time", "time, partly measured", "bytes moved", ""
]
"""The quantity of which shares are computed; empty where only the kernels are known."""


@dataclass(frozen=True, slots=True)
class LineHeat:
    """The kernels that compute one line, and their share of the time of all kernels."""

    parts: tuple[tuple[int, float], ...]
    """(kernel's id, share of all time that it spends on this line), the most expensive first. There
    is at least one.
    """
    share: float = field(init=False)
    """The share of the line, from 0 to 1; 0 where there are no times. It is added up once, since a
    line can have 100,000 kernels.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", sum(share for _, share in self.parts))

    @property
    def most_expensive(self) -> int:
        return self.parts[0][0]

    @property
    def largest_share(self) -> float:
        return self.parts[0][1]

    @property
    def kernels(self) -> tuple[int, ...]:
        return tuple(kernel for kernel, _ in self.parts)


@dataclass(frozen=True, slots=True)
class SourceHeat:
    """The share of the kernels' cost that falls on each source line."""

    measure: Measure = ""
    files: Mapping[int, Mapping[int, LineHeat]] = field(default_factory=dict)
    """Id of a SourceFile → line (from 0) → its kernels."""


NO_HEAT = SourceHeat()
