"""These tests step through recorded bytecode by keys. Expected values can be read off
``write_steps`` below.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.model import Command, Notice
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.tui.availability import NO_RECORD
from fx_explorer.tui.config import Config
from fx_explorer.tui.screens.help import Help
from fx_explorer.tui.screens.step_record_screen import StepScreen
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.sessions import write_training_step
from tests.tui.conftest import Driver, OpenApp
from tests.tui.test_live_capture import FakeCapture

LISTING = """\
    # 7  h = F.gelu(self.fc1(x))
 2  LOAD_GLOBAL  __compiled_fn_1  # the compiled graph [0/0]: line 7
 4  CALL         1
 6  STORE_FAST   h
    # 8  return self.fc2(h)
 8  LOAD_FAST    h
10  RETURN_VALUE
"""

STEPS = [
    # line of the listing, stack, variables, changed
    (2, (), {"x": "f32[4, 8] cpu"}, ()),
    (3, ("__compiled_fn_1", "f32[4, 8] cpu"), {"x": "f32[4, 8] cpu"}, ("[0]", "[1]")),
    (4, ("f32[2] cpu [1, 2]",), {"x": "f32[4, 8] cpu"}, ("[0]", "[1]")),
    (6, (), {"x": "f32[4, 8] cpu", "h": "f32[2] cpu [1, 2]"}, ("h", "[0]")),
    (7, ("\x1b[31mf32\x1b[0m",), {"x": "f32[4, 8] cpu", "h": "f32[2] cpu [1, 2]"}, ("[0]",)),
]


def write_steps(path: Path) -> None:
    with SessionWriter(path) as writer:
        run = writer.add(
            model.BytecodeRun(
                0, "(float32[4, 8])", "raised", len(STEPS) + 1, "It raised ValueError: too large."
            )
        )
        artifact = model.Artifact(
            0,
            1,
            "bytecode_modified",
            "dynamo",
            "",
            "",
            "bytecode",
            writer.text(LISTING),
            LISTING.count("\n"),
        )
        modified = writer.add(artifact)
        sources = {1: 7, 2: 7, 3: 7, 4: 7, 5: 8, 6: 8, 7: 8}
        writer.add_all(
            model.LineSource(modified, line, 1, source) for line, source in sources.items()
        )
        for line, stack, variables, changed in STEPS:
            text = writer.text(json.dumps(variables))
            calls = "__compiled_fn_1" if line == 3 else ""
            writer.add(
                model.BytecodeStep(
                    0,
                    run,
                    1,
                    0,
                    "forward",
                    modified,
                    line,
                    2 * line,
                    "instruction",
                    stack,
                    True,
                    text,
                    changed,
                    calls,
                )
            )
        writer.add(
            model.BytecodeStep(
                0,
                run,
                1,
                0,
                "forward",
                modified,
                7,
                14,
                "raised",
                (),
                False,
                error="ValueError: too large",
            )
        )


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "s.fxs"
    write_training_step(path)
    write_steps(path)
    return path


def shown(driver: Driver) -> StepScreen:
    assert isinstance(driver.app.screen, StepScreen)
    return driver.app.screen


def lit(driver: Driver, name: str) -> list[str]:
    view = shown(driver).query_one(f"#{name}")
    return [view.line_text(line).strip() for line in sorted(view.marks)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40), (200, 50)]))
async def test_each_step_lights_its_instruction_and_its_line_at_any_size(
    recorded: Path, open_app: OpenApp, size: tuple[int, int]
) -> None:
    async with open_app(recorded, size=size) as driver:
        await driver.press("c", "b")
        assert "step 1 of 6 · forward [0/0]" in driver.screen
        assert "called with (float32[4, 8])" in driver.screen
        assert lit(driver, "bytecode") == [
            "2  LOAD_GLOBAL  __compiled_fn_1  # the compiled graph [0/0]: line 7"
        ]
        assert lit(driver, "source") == ["h = F.gelu(self.fc1(x))"]
        await driver.press("down")
        assert shown(driver).at == 3
        assert lit(driver, "bytecode") == ["8  LOAD_FAST    h"]
        assert lit(driver, "source") == ["return self.fc2(h)"]
        assert "esc closes" in driver.screen


async def test_what_changed_is_marked_with_what_it_was(recorded: Path, open_app: OpenApp) -> None:
    async with open_app(recorded) as driver:
        await driver.press("c", "b", "right")
        assert "calls the compiled graph __compiled_fn_1" in driver.screen
        assert "● [0]" in driver.screen
        await driver.press("right")
        assert "f32[2] cpu [1, 2]  was __compiled_fn_1" in driver.screen
        await driver.press("right")
        assert "● h" in driver.screen
        assert "● x" not in driver.screen
        await driver.press("left", "left")
        assert shown(driver).at == 1, "back again"
        assert "● h" not in driver.screen


async def test_an_error_and_the_end_are_said_and_nothing_of_the_program_s_reaches_the_terminal(
    recorded: Path, open_app: OpenApp
) -> None:
    async with open_app(recorded) as driver:
        await driver.press("c", "b", "G")
        assert "It raised ValueError: too large." in driver.screen
        assert "not known: an exception is propagating" in driver.screen
        await driver.press("right")
        assert "This is the last step." in driver.screen
        await driver.press("left")
        assert "\x1b" not in driver.screen


async def test_it_opens_at_the_instruction_under_the_cursor_and_closes_to_where_it_stands(
    recorded: Path, open_app: OpenApp
) -> None:
    async with open_app(recorded) as driver:
        await driver.press("p", "y")
        pane = driver.panes[2]
        driver.explorer.linked.activate(pane)
        pane.body.user_moves_to(3)
        await driver.press("c", "b")
        assert shown(driver).at == 2
        await driver.press("right", "escape")
        assert driver.app.screen is driver.explorer
        assert pane.place.line == 5


@in_exhaustive_runs
async def test_a_value_there_is_no_room_for_is_shown_whole_when_it_is_paged_to(
    recorded: Path, open_app: OpenApp
) -> None:
    async with open_app(recorded, size=(80, 24)) as driver:
        await driver.press("c", "b", "right", "pagedown")
        assert "x: f32[4, 8] cpu" in driver.screen


@in_exhaustive_runs
async def test_its_keys_can_be_remapped_and_its_last_line_says_them(
    recorded: Path, open_app: OpenApp
) -> None:
    async with open_app(recorded, config=Config(keys={"steps.forward": ("ctrl+n",)})) as driver:
        await driver.press("c", "b", "ctrl+n")
        assert shown(driver).at == 1
        assert "← ctrl+n instruction" in driver.screen


async def test_a_saved_session_without_a_record_says_how_to_get_one(
    tmp_path: Path, open_app: OpenApp
) -> None:
    write_training_step(tmp_path / "s.fxs")
    async with open_app(tmp_path / "s.fxs") as driver:
        said: list[str] = []
        driver.app.notify = lambda message, **_: said.append(message)  # type: ignore[method-assign]
        await driver.press("c", "b")
        assert said == [NO_RECORD]


async def ask_worker(driver: Driver, capture: FakeCapture) -> None:
    capture.stay()
    capture.say(Notice("gate", state="begin"))
    await driver.until(lambda: driver.app.captures.waiting)
    await driver.press("c", "b")
    await driver.until(lambda: capture.sent)


async def test_a_worker_that_waits_is_asked_once_and_its_record_is_shown(
    tmp_path: Path, open_app: OpenApp
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", write_training_step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        await ask_worker(driver, capture)
        assert capture.sent == [Command("steps")]
        write_steps(capture.session_path)
        capture.say(Notice("done", text="6 steps of Dynamo's bytecode recorded."))
        await driver.until(lambda: "step 1 of 6" in driver.screen)
        await driver.press("escape", "c", "b")
        await driver.until(lambda: "step 1 of 6" in driver.screen)
        assert len(capture.sent) == 1


async def test_what_the_worker_refuses_is_told_and_nothing_opens(
    tmp_path: Path, open_app: OpenApp
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", write_training_step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        await ask_worker(driver, capture)
        capture.say(Notice("refused", text="This torch release cannot say what its bytecode does."))
        await driver.until(lambda: "This torch release cannot say" in driver.screen)
        assert driver.app.screen is driver.explorer


def test_the_steps_of_a_session_of_today_are_read_again(recorded: Path) -> None:
    with SessionReader(recorded) as reader:
        assert [step.stack for step in reader.rows(model.BytecodeStep)][:5] == [
            stack for _, stack, _, _ in STEPS
        ]


@in_exhaustive_runs
async def test_help_lists_the_keys_of_the_steps_and_goes_back_to_them(
    open_app: OpenApp, recorded: Path
) -> None:
    async with open_app(recorded) as driver:
        await driver.press("c", "b", "question_mark")
        assert isinstance(driver.app.screen, Help)
        assert "In recorded bytecode, go back by one instruction." in " ".join(
            driver.screen.split()
        )
        await driver.press("escape")
        assert isinstance(driver.app.screen, StepScreen)
