"""These tests check that what a finding proposes can be tried from the app. The trials are injected;
what they showed is read from the session.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fx_explorer.findings.finding import Remedy
from fx_explorer.findings.remedy_trials import key_of
from fx_explorer.model import CaptureRequest, Outcome, RemedyTrial
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.ownership import remember_session
from fx_explorer.trials import Told, TrialWorker
from fx_explorer.tui.controllers.measurements import Measurements
from tests.findings.test_placement import recorded, step
from tests.tui.conftest import OpenApp
from tests.tui.test_numerics_view import session_of


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A session of a function that breaks at two lines around a module."""
    path = tmp_path / "s.fxs"
    recorded(path, step)
    with SessionWriter(path) as writer:
        writer.set_meta("request", dataclasses.asdict(CaptureRequest("step.py", "")))
        writer.set_meta("outcome", Outcome("finished").to_json())
    remember_session(path)
    return path


async def tried(
    request: CaptureRequest,
    remedies: Sequence[Remedy],
    keep: Callable[[RemedyTrial], object],
    tell: Told,
    worker: TrialWorker,
) -> int:
    """Say of each remedy that it leaves one graph and no break."""
    for remedy in remedies:
        tell(f"trying {remedy.text}")
        keep(
            RemedyTrial(
                0, key_of(remedy.changes), "finished", "", graphs=1, graph_breaks=0, recompiles=0,
                refused=0, failed=0, operations=9, compile_s=1.0, took_s=1.0,
            )
        )  # fmt: skip
    return len(remedies)


async def test_remedies_are_tried_and_their_results_stand_with_the_finding(
    session: Path, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Measurements, "try_all", staticmethod(tried))
    async with open_app(session, size=(160, 50)) as driver:
        await driver.until(lambda: "breaks the graph at 2" in driver.screen)
        await driver.press("x", "r")
        await driver.until(lambda: "0 graph breaks instead of 2" in driver.screen)
    with SessionReader(session) as reader:
        (trial,) = reader.rows(RemedyTrial)
    assert trial.changes == key_of({"compile_modules": ["G.net"]})


async def test_a_finding_says_the_key_that_tries(session: Path, open_app: OpenApp) -> None:
    async with open_app(session, size=(160, 50)) as driver:
        await driver.until(lambda: "x r in the app" in driver.screen)
        first = next(line for line in driver.screen.splitlines() if "torch.compile wraps" in line)
        assert "x r try" in first


async def test_where_nothing_can_be_tried_it_is_said(open_app: OpenApp, tmp_path: Path) -> None:
    async with open_app(session_of(tmp_path)) as driver:
        await driver.press("x", "r")
        await driver.until(lambda: "No finding has a remedy" in driver.screen)
