"""The spread of measured times."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import quantiles


def interquartile_range(values: Sequence[float]) -> float:
    """Return the range of the middle half of ``values``, in their unit; 0 for fewer than two."""
    if len(values) < 2:
        return 0.0
    quarters = quantiles(values, n=4, method="inclusive")
    return quarters[2] - quarters[0]
