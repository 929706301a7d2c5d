"""This module says how much of a large set of equal cases a run of the tests takes: a sample in
which each kind stays, or, where the variable ``FX_EXPLORER_EXHAUSTIVE`` is 1 (``make exhaustive``),
the whole set.

The module that has the cases says what its sample leaves out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

IS_EXHAUSTIVE = os.environ.get("FX_EXPLORER_EXHAUSTIVE") == "1"

Case = TypeVar("Case")


def with_others(sample: Iterable[Case], others: Iterable[Case]) -> list[Case]:
    """Return the sample; with the other cases behind it where the run is exhaustive."""
    return [*sample, *others] if IS_EXHAUSTIVE else list(sample)


def rounds(usual: int, exhaustive: int) -> int:
    """Return how many cases are made by chance."""
    return exhaustive if IS_EXHAUSTIVE else usual
