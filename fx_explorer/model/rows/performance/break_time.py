"""How long a program spends at its graph breaks, measured with everything built."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallTime:
    """One call of the compiled target, forward only, on the example inputs. The last one counts."""

    id: int
    median_s: float
    iqr_s: float
    """Range of the middle half of all measured calls."""
    graphs_s: float
    """Median of what the calls spent in compiled graphs."""
    runs: int
    device: str
    """``cpu``, or the accelerator's name."""


@dataclass(frozen=True, slots=True)
class BreakTime:
    """What one call spends at a graph break, however often it comes by: from leaving the graph
    before it to entering the graph behind it, the code that runs in Python there included. What was
    measured in another CallTime before is not removed.
    """

    id: int
    call: int
    """The CallTime it is a part of."""
    graph_break: int
    """The first GraphBreak of its line and cause."""
    median_s: float
    iqr_s: float
