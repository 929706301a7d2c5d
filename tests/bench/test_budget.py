"""What a bench does with its budget: getting ready is paid whatever it is, rounds have what is left."""

from __future__ import annotations

import time

import pytest

from fx_explorer.bench.driving import MIN_ROUNDS, _BudgetedTime


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_budget_that_getting_ready_has_spent_leaves_the_rounds_that_an_interval_takes(
    clock: Clock,
) -> None:
    spent = _BudgetedTime(60.0, sizes=2)
    with spent.preparing():
        clock.now_s += 90
    assert spent.left_s == 0
    with spent.measuring():
        assert not spent.is_enough(MIN_ROUNDS - 1)
        assert spent.is_enough(MIN_ROUNDS)
        clock.now_s += 5.9
        assert not spent.is_enough(1)
        clock.now_s += 0.2  # a fifth of the budget, shared by two sizes
        assert spent.is_enough(1)
    assert (spent.preparing_s, round(spent.measuring_s, 1)) == (90, 6.1)


def test_rounds_leave_the_sizes_behind_them_time_to_get_ready_and_as_many_rounds(
    clock: Clock,
) -> None:
    spent = _BudgetedTime(60.0, sizes=3)
    with spent.preparing():
        clock.now_s += 6
    with spent.measuring():  # 54 s are left, 12 of them for what is paid once: 14 for each size
        clock.now_s += 13.9
        assert not spent.is_enough(MIN_ROUNDS)
        clock.now_s += 0.2
        assert spent.is_enough(MIN_ROUNDS)
    with spent.preparing():
        clock.now_s += 6
    with spent.measuring():
        clock.now_s += 13
        assert not spent.is_enough(MIN_ROUNDS)


def test_without_a_budget_rounds_end_when_they_are_steady(clock: Clock) -> None:
    spent = _BudgetedTime(None, sizes=1)
    with spent.preparing():
        clock.now_s += 1000
    with spent.measuring():
        clock.now_s += 1000
        assert not spent.is_enough(29)
    assert spent.left_s is None
    assert spent.allows(1000)


def test_another_compile_is_made_only_where_there_is_time_for_it(clock: Clock) -> None:
    spent = _BudgetedTime(60.0, sizes=1)
    with spent.preparing():
        clock.now_s += 40
    assert spent.allows(31)  # 20 s are left, and 12 s of grace
    assert not spent.allows(33)
