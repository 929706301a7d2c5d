"""Lines whose numbers are others in each run, or are rounded."""

from __future__ import annotations

from collections import Counter

import pytest

from fx_explorer.worker.verify.lines import that_differ
from fx_explorer.worker.verify.varying import Varying, varying_numbers, varying_parts


def test_only_the_numbers_that_vary_are_left_out() -> None:
    before, again = (
        ["step 1 loss 2.5 took 0.1 s", "step 2 loss 2.4 took 0.2 s"],
        ["step 1 loss 2.5 took 0.3 s", "step 2 loss 2.4 took 0.2 s"],
    )
    varying = Varying(numbers=varying_numbers(before, again))
    assert varying.masked("step 1 loss 2.5 took 9 s") == "step 1 loss 2.5 took … s"
    assert varying.masked("step 1 loss 7 took 9 s") == "step 1 loss 7 took … s"
    assert varying.masked("another line of 3") == "another line of 3"
    assert not varying_numbers(before, before)


def test_names_of_temporary_files_and_of_runs_are_left_out() -> None:
    before = ["calls tempfile.mkdtemp(/tmp/tmp7tqnupu8)", "starting run-0a1c8bb7", "opens /tmp/tmp7tqnupu8/a.pt for writing"]
    again = ["calls tempfile.mkdtemp(/tmp/tmp7zz9_u81)", "starting run-0bbb8b11", "opens /tmp/tmp7zz9_u81/a.pt for writing"]
    varying = Varying(around=varying_parts(before, again))
    assert varying.masked("calls tempfile.mkdtemp(/tmp/tmpq1)") == "calls tempfile.mkdtemp(/tmp/…)"
    assert varying.masked("starting run-77") == "starting run-…"
    assert varying.masked("opens /tmp/other/a.pt for writing") == "opens /tmp/…/a.pt for writing"
    assert varying.masked("opens /home/other/a.pt for writing") == "opens /home/other/a.pt for writing"
    assert varying.told()[2] == "'starting run-…', which is another in each run"
    assert not varying_parts(["a b"], ["c d"]), "another line"
    assert not varying_parts(before, before[:2]), "texts of which there are more in one run are not held against each other"


@pytest.mark.parametrize(
    ("line", "other", "is_near"),
    [
        ("final 5.737573146820068", "final 5.737579345703125", True),
        ("final 5.7375", "final 5.7385", False),
        ("step 3", "step 4", False),
        ("100 rows, 1.0", "101 rows, 1.0", False),
        ("loss 1e-3", "loss 2e-3", False),
        ("at -1.5", "at 1.5", False),
    ],
)
def test_a_printed_number_may_be_rounded(line: str, other: str, is_near: bool) -> None:
    exact = that_differ(Counter([line]), Counter([other]), may_be_rounded=False)
    assert exact == ([line], [other])
    assert (that_differ(Counter([line]), Counter([other]), may_be_rounded=True) == ([], [])) == is_near
