"""These tests check how a bench spends its budget: preparation is always done, rounds get the rest."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer.instruments.bench.bench_run import (
    MIN_ROUNDS,
    _BudgetedTime,
    _SizeOfBench,
    _StartedCell,
)
from fx_explorer.instruments.bench.measure.agreement import (
    EAGERS_NUMBERS,
    OTHER_BEGINNING,
    RANDOM,
    WITHOUT_TF32,
    Reference,
    next_comparison,
)
from fx_explorer.instruments.bench.measure.calls import Results
from fx_explorer.instruments.bench.view import bench_table
from fx_explorer.model.bench import BenchNews
from fx_explorer.session import SessionReader, SessionWriter
from tests.bench.test_verdict import INDUCTOR


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


@pytest.mark.parametrize("budget_s", [1.0, 600.0])
async def test_a_comparison_that_the_budget_does_not_pay_for_is_named_on_screen(
    tmp_path: Path, budget_s: float
) -> None:
    """Eager's numbers take a compile more, of the 40 s that the first took."""
    asked: list[str] = []

    class Process:
        async def answer(self, command: str = "") -> BenchNews:
            asked.append(command)
            return BenchNews("compared", cell={"agreement": "equal", "agreement_words": ""})

    words = f"not compared: output 0, since {RANDOM}"
    cell = replace(
        INDUCTOR, agreement="not_compared", agreement_words=words, first_call_s=40.0, id=1
    )
    with SessionWriter(tmp_path / "b.fxs") as writer:
        writer.set_meta("bench", {"machine": {}, "budget_s": budget_s, "state": "finished"})
        cell = replace(cell, id=writer.add(cell))
        of_size = _SizeOfBench(
            None,
            writer,
            "",
            lambda *_: None,
            _BudgetedTime(budget_s, 1),
            tmp_path,
            None,  # type: ignore[arg-type]
        )
        await of_size._compare_again([_StartedCell(cell, Process(), EAGERS_NUMBERS)])  # type: ignore[arg-type]
    with SessionReader(tmp_path / "b.fxs") as reader:
        shown = bench_table(reader).rows[0].detail()
    is_left_out = budget_s < 40
    assert asked == ([] if is_left_out else ["compare"])
    assert (
        f"{EAGERS_NUMBERS} was left out because the budget was used up" in shown.text
    ) == is_left_out


@pytest.mark.parametrize(
    ("agreement", "words", "error", "without_tf32", "more"),
    [
        ("not_compared", f"not compared: output 0, since {RANDOM}", 0.0, [], EAGERS_NUMBERS),
        ("not_compared", OTHER_BEGINNING, 0.0, [{}], ""),
        ("differs", "", 0.0, [{}], WITHOUT_TF32),
        ("within_error", "", 0.3, [{}], WITHOUT_TF32),
        ("within_error", "", 0.1, [{}], ""),
        ("within_error", "", 0.3, [], ""),
        ("equal", "", 0.0, [{}], ""),
    ],
)
def test_what_another_comparison_can_say_is_known_beforehand(
    agreement: str, words: str, error: float, without_tf32: list[Results], more: str
) -> None:
    """A result that is more exact than eager's leaves nothing to explain."""
    agreed = {
        "agreement": agreement,
        "agreement_words": words,
        "error": error,
        "reference_error": 0.2,
    }
    assert next_comparison(Reference([], without_tf32=without_tf32), agreed) == more
