"""These tests check that trials end when their time is used up."""

from __future__ import annotations

import asyncio
import time

import pytest

from fx_explorer.findings import remedy_trials
from fx_explorer.findings.finding import Remedy
from fx_explorer.model import CaptureRequest, RemedyTrial


def test_a_trial_that_takes_longer_than_the_budget_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cancelled = []

    async def try_remedy(*_: object) -> RemedyTrial:
        try:
            await asyncio.Event().wait()  # a program that never ends
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        raise AssertionError

    monkeypatch.setattr(remedy_trials, "try_remedy", try_remedy)
    kept: list[RemedyTrial] = []
    remedies = [Remedy("first", changes={"settings": {"a": 1}}), Remedy("second")]
    request = CaptureRequest("train.py", "", as_script=True)
    began = time.monotonic()
    tried = asyncio.run(remedy_trials.try_all(request, remedies, kept.append, budget_s=0.05))
    assert (tried, kept, cancelled) == (0, [], [True])
    assert time.monotonic() - began < 30
