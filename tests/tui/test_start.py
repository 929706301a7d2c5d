"""While a capture starts, the target's text is on screen, with what is done, for how long, and how
long that usually takes on this machine.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from fx_explorer.client import forked_workers
from fx_explorer.client.forked_workers import ForkServer
from fx_explorer.command_line import starting_app
from fx_explorer.commands import explore
from fx_explorer.model import Notice
from fx_explorer.tui.start_times import (
    PHASES,
    STARTS_KEPT,
    StartClock,
    UsualTimes,
    keep_times,
    phase_of,
    read_usual_times,
)
from tests.exhaustive import with_others
from tests.tui.conftest import OpenApp
from tests.tui.test_live_capture import FakeCapture, step


def test_what_a_phase_usually_takes_is_said_from_earlier_starts(tmp_path: Path) -> None:
    file = tmp_path / "starts.json"
    assert read_usual_times(file).describe(1) == ""
    for seconds in (9.6, 15.2, 12.0):
        keep_times({"torch": seconds}, file)
    usual = read_usual_times(file)
    assert usual.describe(1) == "usually 10 to 15 s here"
    assert usual.middle_s(1) == 12.0


def test_only_the_last_starts_are_remembered(tmp_path: Path) -> None:
    file = tmp_path / "starts.json"
    for seconds in range(20):
        keep_times({"torch": float(seconds)}, file)
    assert read_usual_times(file).seconds["torch"] == tuple(range(20 - STARTS_KEPT, 20))


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"torch": 3}', '{"torch": ["x", true, -1, 1e99]}']
)
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "starts.json"
    file.write_text(text)
    assert read_usual_times(file).describe(1) == ""


def test_phases_come_in_their_order_and_are_left_once() -> None:
    clock = StartClock()
    clock.usual = UsualTimes(dict.fromkeys(PHASES, (2.0,)))
    clock.look("importing torch", 1.0)
    clock.look("running net.py", 4.0)
    clock.look("Dynamo is reading [0/0]", 5.0)
    clock.look("calling get_model()", 6.0)
    assert clock.phase == phase_of("Dynamo is reading [0/0]") == 3
    assert clock.took == {"Python": 1.0, "torch": 3.0, "your program": 1.0}
    assert clock.sentence(7.0) == "calling get_model() · 2 s · usually 2 s here"
    assert clock.share(6.0) == 7 / 8


@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40), (200, 50)]))
async def test_the_line_that_dynamo_is_reading_is_named_and_shown(
    open_app: OpenApp, tmp_path: Path, size: tuple[int, int]
) -> None:
    target = tmp_path / "net.py"
    target.write_text("".join(f"line_{number} = 0\n" for number in range(1, 200)))
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(
        make_capture=lambda: capture, target=str(target), watched=[target], size=size
    ) as driver:
        capture.say(Notice("phase", stage="dynamo", state="begin", compilation="0/0"))
        capture.say(Notice("line", text=str(target), line=150, operations=12))
        await driver.until(lambda: "Dynamo is reading net.py:150: 12 operations" in driver.screen)
        await driver.until(lambda: "line_150 = 0" in driver.screen)
        capture.say(Notice("line", text="/elsewhere/library.py", line=3, operations=13))
        await driver.until(lambda: "library.py:3: 13 operations so far" in driver.screen)
        assert "line_150 = 0" in driver.screen
        capture.end()


@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40), (200, 50)]))
async def test_the_targets_text_is_there_before_anything_is_captured(
    open_app: OpenApp,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    keep_times({"torch": 7.0})
    target = tmp_path / "mlp.py"
    target.write_text("import torch\n\ndef f(x):\n    return x + 1\n")
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(
        make_capture=lambda: capture, target=str(target), watched=[target], size=size
    ) as driver:
        assert "4     return x + 1" in driver.screen
        capture.say(Notice("worker", "importing torch"))
        await driver.until(lambda: "· usually 7 s here" in driver.screen)
        assert "✓ Python  ▷ torch  · your program  · Dynamo" in driver.screen
        step(capture.session_path)
        capture.say(Notice("gate", state="begin", gate="dynamo"))
        await driver.until(lambda: "paused after Dynamo" in driver.header)
        await driver.until(lambda: "usually" not in driver.screen)
        capture.end()
    assert len(read_usual_times().seconds["torch"]) == 2


def explore_arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    explore.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("text", "extra", "prepares"),
    [
        ("import torch\nmodel = torch.nn.ReLU()\nexample_inputs = (torch.ones(2),)\n", [], True),
        ("import torch\nmodel = torch.nn.ReLU()\n", ["--inputs", "torch.ones(2)"], True),
        ("import torch\nmodel = torch.nn.ReLU()\n", [], False),  # a script imports torch itself
        (
            "import torch\nmodel = torch.nn.ReLU()\nexample_inputs = (torch.ones(2),)\n",
            ["--gpu", "h100"],
            False,  # a virtual GPU must be there before torch
        ),
    ],
)
def test_torch_is_imported_while_textual_is_where_the_program_does_not_import_it_itself(
    text: str,
    extra: list[str],
    prepares: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = tmp_path / "program.py"
    target.write_text(text)
    prepared: list[str] = []
    server = ForkServer()
    monkeypatch.setattr(server, "prepare", prepared.append)
    monkeypatch.setattr(forked_workers, "fork_server", lambda: server)
    arguments = explore_arguments(str(target), *extra)
    assert starting_app._begin_importing(arguments) == text.splitlines()
    assert prepared == [arguments.python] * prepares


def test_what_cannot_be_read_shows_no_text_and_imports_nothing(tmp_path: Path) -> None:
    for name in ("package.module:model", str(tmp_path / "missing.py"), str(tmp_path)):
        arguments = explore_arguments(name)
        assert starting_app._begin_importing(arguments) == []
