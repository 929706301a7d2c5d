"""These tests read 400 damaged logs to their ends: nothing raises, and invalid records are
counted. ``make exhaustive`` reads 10,000, and ``make fuzz-logs`` more.
"""

from __future__ import annotations

import pytest

from tests.exhaustive import rounds
from tests.readers.torch_trace.mutating import mutated, problems, small_log

AT_ONCE = 200

LOGS = rounds(400, exhaustive=10_000)


@pytest.mark.parametrize("first", range(0, LOGS, AT_ONCE))
def test_a_damaged_log_is_read_to_its_end_and_counted(first: int) -> None:
    assert problems(range(first, first + AT_ONCE)) == []


def test_the_logs_are_of_many_kinds_of_records_and_are_damaged() -> None:
    whole = small_log()
    assert len(whole) > 20
    assert len({mutated(seed) for seed in range(200)}) == 200
    assert not any(b"".join(whole) == mutated(seed) for seed in range(200))
