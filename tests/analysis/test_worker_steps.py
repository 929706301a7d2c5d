"""These tests check the words for what a worker is doing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from fx_explorer.analysis.worker_steps import describe_step
from fx_explorer.model import Notice, Outcome
from fx_explorer.trials import to_its_end

FUSING = Notice("phase", stage="schedule", state="begin", compilation="1/0")


@pytest.mark.parametrize(
    ("notice", "words"),
    [
        (Notice("worker", text="importing torch"), "importing torch"),
        (FUSING, "Inductor is fusing [1/0]"),
        (Notice("phase", stage="schedule", state="end"), ""),
        (
            Notice("line", text="/a/m.py", line=7, operations=2),
            "Dynamo is reading m.py:7: 2 operations so far",
        ),
        (Notice("note", text="a graph break"), ""),
        (Notice("count", text="building kernel", done=2, planned=19), "building kernel 3 of 19"),
        (Notice("count", text="building kernel", done=2), "building kernel 3"),
    ],
)
def test_a_step_is_told_in_words(notice: Notice, words: str) -> None:
    assert describe_step(notice) == words


class FakeCapture:
    async def notices(self) -> AsyncIterator[Notice]:
        yield Notice("worker", text="importing torch")
        yield FUSING
        yield Notice("artifact", stage="schedule")

    async def wait(self) -> Outcome:
        return Outcome("finished")


def test_a_trial_tells_the_steps_of_its_worker() -> None:
    told: list[str] = []
    asyncio.run(to_its_end(cast(Any, FakeCapture()), told.append))
    assert told == ["importing torch", "Inductor is fusing [1/0]"]


class PlannedCapture(FakeCapture):
    async def notices(self) -> AsyncIterator[Notice]:
        yield Notice("worker", text="importing torch")
        yield Notice("worker", text="running the original", step=1, steps=2)
        yield Notice("count", text="call", done=1, planned=7)
        yield Notice("worker", text="running the built code", step=2, steps=2)
        yield Notice("count", text="building kernel", done=0, planned=3)


def test_a_trial_tells_which_of_its_planned_steps_runs_and_how_much_of_it_is_done() -> None:
    told: list[str] = []
    asyncio.run(to_its_end(cast(Any, PlannedCapture()), told.append))
    assert told == [
        "importing torch",
        "step 1 of 2 · running the original",
        "step 1 of 2 · call 2 of 7 · running the original",
        "step 2 of 2 · running the built code",
        "step 2 of 2 · building kernel 1 of 3",
    ]
