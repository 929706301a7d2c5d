"""This module says how much of a large set of equal cases a run of the tests takes: a sample in
which each kind stays, or, where the variable ``FX_EXPLORER_EXHAUSTIVE`` is 1 (``make exhaustive``),
the whole set.

The module that has the cases says what its sample leaves out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

import pytest

IS_EXHAUSTIVE = os.environ.get("FX_EXPLORER_EXHAUSTIVE") == "1"

in_exhaustive_runs = pytest.mark.skipif(not IS_EXHAUSTIVE, reason="make exhaustive runs it")
"""Mark of a test that takes a second or more, and whose parts, or whose kind of fault, are claims of
other tests that every run has.
"""

Case = TypeVar("Case")


def with_others(sample: Iterable[Case], others: Iterable[Case]) -> list[Case]:
    """Return the sample; with the other cases behind it where the run is exhaustive."""
    return [*sample, *others] if IS_EXHAUSTIVE else list(sample)


def one_of(every: int, cases: Iterable[Case]) -> list[Case]:
    """Return one of so many cases, which are all of one kind; all where the run is exhaustive."""
    return list(cases)[:: 1 if IS_EXHAUSTIVE else every]


def rounds(usual: int, exhaustive: int) -> int:
    """Return how many cases are made by chance."""
    return exhaustive if IS_EXHAUSTIVE else usual
