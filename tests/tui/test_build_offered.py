"""These tests check a program that raises only while it is inspected: the app names the key that
builds it, and the build answers.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from fx_explorer.command_line.starting_app import app_for
from fx_explorer.commands import explore
from fx_explorer.model import Outcome
from fx_explorer.tui.config import Config
from tests.sessions import write_training_step
from tests.tui.conftest import WIDE, Driver, OpenApp
from tests.tui.test_live_capture import FakeCapture

PROGRAM = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.relu = torch.nn.Linear(8, 8), torch.nn.ReLU(inplace=True)

    def forward(self, x):
        h = self.relu(self.linear(x))
        torch._dynamo.graph_break()
        h.mul_(2)
        return h.sum()


model = Net()
example_inputs = torch.ones(4, 8)
"""


async def test_the_key_at_the_pause_builds_what_raised_and_says_that_the_compiled_program_does_not(
    tmp_path: Path, warm_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody leaves this app as a user does, so that the folder of its capture stays.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "net.py").write_text(PROGRAM)
    parser = argparse.ArgumentParser()
    explore.add_arguments(parser)
    given = [str(tmp_path / "net.py"), "--python", warm_python, "-o", str(tmp_path / "net.fxs")]
    app = app_for(parser.parse_args([*given, "--force"]), None, Config())
    async with app.run_test(size=WIDE) as pilot:
        driver = Driver(app, pilot)
        await driver.until(lambda: "c r run built" in driver.screen, 60)
        await driver.until(lambda: "paused after Dynamo" in driver.header, 60)
        await driver.until(lambda: "may not raise: c r builds and runs it." in driver.screen)
        assert "because nothing is built while inspecting." in driver.facts
        await driver.press("c", "r")
        await driver.until(lambda: "✓ captured" in driver.header, 120)
        await driver.until(lambda: "the compiled program does not raise" in driver.facts)
        await driver.until(lambda: "you changed the option build, without" in driver.facts)
        assert "c r" not in driver.screen
        assert driver.explorer.reader.meta("build") is True
        assert Outcome.from_json(driver.explorer.reader.meta("outcome")).kind == "finished"
    app.explorer.reader.close()


async def test_nothing_is_offered_for_a_saved_session_or_a_program_that_raised_elsewhere(
    open_app: OpenApp, tmp_path: Path
) -> None:
    raised = Outcome("raised", "ValueError: no while running net.py", 1)
    capture = FakeCapture(tmp_path / "s.fxs", write_training_step, raised)
    async with open_app(
        make_capture=lambda: capture, make_built=lambda raised: capture, target="net.py"
    ) as driver:
        await driver.until(lambda: driver.explorer.reader)
        capture.end()
        await driver.until(lambda: "program raised ValueError" in driver.header)
        assert "c r" not in driver.screen
    async with open_app(tmp_path / "s.fxs") as driver:
        await driver.press("c", "r")
        assert "a capture that builds nothing" in " ".join(
            note.message for note in driver.app._notifications
        )
