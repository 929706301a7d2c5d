"""These tests check the wording of run times."""

from __future__ import annotations

from fx_explorer.analysis.measured_times import RunTime
from fx_explorer.model import CallTime

CALL = CallTime(1, 0.0346, 0.001, 0.02, 55, "cpu")


def test_a_time_says_of_what_it_is_a_part_and_how_it_was_found() -> None:
    assert (
        RunTime(4.43e-3, 2.6e-4, CALL).description
        == "4.43 ms ± 130 µs of a call of 34.6 ms (median of 55 calls on cpu)"
    )


def test_times_that_differ_widely_are_told() -> None:
    assert RunTime(4e-3, 3e-3, CALL).description.endswith(
        "times vary widely: measure again when the machine is idle"
    )
