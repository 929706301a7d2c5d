"""This module has what a line of the source costs, as data: ``costs.py`` reads it from a session,
and the first screen need not load that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Measure = Literal[
    "profiled time", "measured time", "estimated time", "time, partly measured", "bytes moved", ""
]
"""What the shares are shares of; empty where nothing is known but which kernels there are."""


@dataclass(frozen=True, slots=True)
class LineHeat:
    """The kernels that compute one line, and the share of all time that they take for it."""

    parts: tuple[tuple[int, float], ...]
    """Each kernel's id with the share of everything that it takes for this line, the most expensive
    first. There is one at least.
    """
    share: float = field(init=False)
    """The share of the line, from 0 to 1; 0 where nothing is measured by. Added up once: a line can
    have 100,000 kernels.
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

    def of_file(self, file: int) -> Mapping[int, LineHeat]:
        return self.files.get(file, {})


NO_HEAT = SourceHeat()
