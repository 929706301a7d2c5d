"""What a trial sees of a call: pairs of programs that differ in one thing that a call can change (cases_of_change.py)."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from tests.mending import cases_of_change as cases
from tests.mending.cases_of_change import Pair
from tests.mending.observed import differences

DIFFERING = [*cases.STATE, *cases.RESULTS, *cases.OTHER_INPUTS, *cases.WRITTEN_AND_RAISED]


@pytest.mark.parametrize("pair", DIFFERING, ids=lambda pair: pair.name)
def test_a_difference_of_one_kind_is_found(tmp_path: Path, pair: Pair) -> None:
    found = differences(tmp_path, pair.before, pair.after, pair.inputs)
    assert found.differences, "nothing was found"
    assert any(pair.said in told for told in found.differences), found.differences


@pytest.mark.parametrize("pair", cases.EQUAL, ids=lambda pair: pair.name)
def test_what_is_equal_is_not_refused(tmp_path: Path, pair: Pair) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = differences(tmp_path, pair.before, pair.after, pair.inputs)
    assert (found.differences, found.lost, found.new) == ([], [], [])
    again = differences(tmp_path, pair.before, pair.before, pair.inputs)
    assert again.differences == []
