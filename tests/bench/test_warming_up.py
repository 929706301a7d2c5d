"""These tests check how long a program is called before it is measured. The called function
compiles as often as the test says.
"""

from __future__ import annotations

import pytest
from torch._dynamo.utils import counters

from fx_explorer.instruments.bench.measure import call_timing
from fx_explorer.instruments.bench.measure.call_timing import warmed_up


class Program:
    """Each call takes the next of these seconds, and compiles where they are long."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *took_s: float) -> None:
        self._took_s = [*took_s]
        self.calls = 0
        monkeypatch.setattr(call_timing, "timed", self._timed)

    def _timed(self, call: object, is_gpu: bool) -> tuple[None, float]:
        took_s = self._took_s[min(self.calls, len(self._took_s) - 1)]
        self.calls += 1
        counters["frames"]["total"] += int(took_s >= 15)
        return None, took_s


@pytest.mark.parametrize(
    ("first_s", "later_s", "calls", "is_unstable"),
    [
        (
            30.0,
            (30.0, 1.0, 1.0),
            3,
            False,
        ),  # compiled twice, for longer than a warm-up may take: it goes on until it runs
        (30.0, (1.0, 1.0), 3, False),
        (30.0, (30.0,) * 9, 5, True),  # compiled at every call
        (0.1, (3.0, 5.0, 8.0, 12.0), 5, False),  # slower and slower, until the time is up
    ],
)
def test_a_warm_up_ends_when_nothing_is_compiled_any_more(
    monkeypatch: pytest.MonkeyPatch,
    first_s: float,
    later_s: tuple[float, ...],
    calls: int,
    is_unstable: bool,
) -> None:
    found = warmed_up(first_s, Program(monkeypatch, *later_s), is_gpu=False)  # type: ignore[arg-type]
    assert (found.calls, found.is_unstable) == (calls, is_unstable)
    assert found.took_s == first_s + sum(later_s[: calls - 1])
