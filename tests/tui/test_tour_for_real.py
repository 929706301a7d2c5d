"""These tests check the tour on its real sample, really captured: its sentences are true. Only the
trial of the fix, which takes half a minute, is skipped; its edit is written as the app would.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fx_explorer.commands.tour import tour_app
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.fixes.offers import accept, offer
from fx_explorer.model import Graph, GraphBreak
from fx_explorer.tui.config import Config
from fx_explorer.tui.tour_steps import begin_walk
from tests.tui.conftest import Driver


@pytest.mark.usefixtures("warm_workers")
async def test_the_sample_has_the_break_that_is_told_and_its_first_fix_takes_it_away(
    tmp_path: Path,
) -> None:
    walk = begin_walk(tmp_path / "tour", again=False)
    app = tour_app(walk, sys.executable, Config())
    async with app.run_test(size=(160, 40), notifications=True) as pilot:
        driver, tour = Driver(app, pilot), app.controllers.tour
        try:
            await driver.until(
                lambda: not app.captures.is_running and driver.explorer.reader is not None, 120
            )
            await driver.until(
                lambda: driver.explorer.reader.count(Graph, stage="dynamo") == 2, 120
            )
            await driver.press("down")
            await driver.until(lambda: tour.step.id == "breaks")
            await driver.press("4")
            await driver.until(lambda: tour.step.id == "source")
            assert "classifier.py" in driver.screen
            await driver.press("enter")
            await driver.until(lambda: tour.step.id == "fixes")
            assert "print(" in driver.screen
            await driver.press("x", "x")
            await driver.until(lambda: tour.step.id == "try", 60)
            (broken,) = distinct_breaks(driver.explorer.reader)
            accept(offer(driver.explorer.reader.path, broken).fixes[0])
            await driver.press("escape")
            while tour.step.id != "again":
                await driver.press("space", "n")
            await driver.press("r")
            await driver.until(lambda: tour.step.id == "step", 120)
            await driver.until(lambda: driver.explorer.reader.count(GraphBreak) == 0)
            assert driver.explorer.reader.count(Graph, stage="dynamo") == 1
            assert "paused after Dynamo" in driver.header or "paused after Dynamo" in driver.screen
            await driver.press("full_stop")
            await driver.until(lambda: tour.step.id == "stages", 60)
            while tour.step.id == "stages":
                gate = app.captures.waiting
                await driver.press("full_stop")
                await driver.until(
                    lambda gate=gate: (
                        app.captures.waiting not in (None, gate) or tour.step.id != "stages"
                    ),
                    60,
                )
                await pilot.pause(0.3)
            assert "AOTAutograd" in driver.screen
            await driver.press("r")
            await driver.until(lambda: tour.step.id == "linked", 120)
            assert app.captures.count_unsaved()
            await app.action_quit()
            assert app.return_code == 0, "the capture of a sample is nothing to be asked about"
        finally:
            await app.controllers.leaving.leave()
    assert begin_walk(walk.folder, again=False).begins_at > 0
