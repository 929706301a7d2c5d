"""These tests check that an action at a pause that needs a later stage asks once whether to go on,
and is done then.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.model import Command, Notice
from fx_explorer.session import SessionWriter
from fx_explorer.tui.availability import LACKS
from fx_explorer.tui.commands import COMMANDS, AppCommand
from tests.exhaustive import one_of, with_others
from tests.tui.conftest import Driver, OpenApp
from tests.tui.test_live_capture import FakeCapture, step
from tests.tui.test_stepping import messages

AT_DYNAMO = Notice("gate", state="begin", gate="dynamo")
ASKED = "Compile to the end"
ONLY_SAYS_SO = re.compile(
    r"not compiled|no kernel|nothing (has been|was|is) (compiled|generated|saved)|has not ended|"
    r"continue to the end|not been (made|compiled)|yet\b",
    re.IGNORECASE,
)

LEAVES = (
    "app.quit",
    "capture.cancel",
    "capture.run",
    "capture.watch",
    "capture.without_weights",
    "capture.built",
    "place.edit",
    "ledger.run",
    "numerics.run",
    "remedies.try",
)
"""What ends the capture or the app, or begins another one; a ledger runs the program by itself."""
SO_FAR = {
    "view.overview": "what is known of a program is told at each pause",
    "view.source": "the source and Dynamo's graph are there; the pane beside them says what comes",
    "preset.source": "the same",
    "view.bench": "a bench is no stage: it runs the program by itself",
    "view.ledger": "the same",
    "view.numerics": "the same",
    "view.stages": "what Dynamo did is a stage; its answer says that no kernel was made so far",
    "view.flame": "what compiling took so far is told at each pause",
    "history.back": "it leads back to the ledger",
    "pane.add": "it is empty until something is chosen for it",
}
"""Commands with something to show at the first pause, beside which a word stands on what is ahead.
"""


class AtDynamo(FakeCapture):
    """A capture that pauses after Dynamo, with Dynamo's graph in its session."""

    async def start(self) -> None:
        await super().start()
        with SessionWriter(self.session_path) as writer:
            writer.set_meta(
                "request",
                json.loads(model.CaptureRequest("mlp.py", "s.fxs", pause="dynamo").to_json()),
            )
            compiled = model.Compilation(
                0, "0/0", 0, 0, "MLP.forward", "/p/mlp.py", 6, status="running", backend="inductor"
            )
            compilation = writer.add(compiled)
            nodes = [
                model.Node(0, 0, 0, "x", "placeholder", "x", ""),
                model.Node(0, 0, 0, "gelu", "call_function", "torch.gelu", "x"),
            ]
            for kind in ("bytecode_original", "bytecode_modified"):
                text = writer.text("7 LOAD_FAST x\n")
                writer.add(
                    model.Artifact(0, compilation, kind, "dynamo", "", "", "bytecode", text, 1)
                )  # type: ignore[arg-type]
            writer.add(
                model.Setting(
                    0, "inductor", "debug", "bool", "false", "false", "", ("true", "false")
                )
            )
            writer.add_graph(
                model.Graph(0, compilation, "dynamo", "", call_count=1), nodes, [(0, 1)]
            )


def _new(driver: Driver, before: set[str]) -> list[str]:
    return [line for line in driver.screen.splitlines() if line not in before]


async def paused(driver: Driver, capture: FakeCapture) -> None:
    capture.say(AT_DYNAMO)
    await driver.until(lambda: "paused after Dynamo" in driver.header)


def tried_commands() -> list[AppCommand]:
    """Return every command that needs a stage, and one of three others; in an exhaustive run all."""
    commands = [
        command
        for command in COMMANDS
        if command.scope in ("app", "explorer") and command.id not in LEAVES
    ]
    needs = [command for command in commands if command.id in (*LACKS, "step.measure")]
    return [*needs, *one_of(3, [command for command in commands if command not in needs])]


async def test_no_command_only_says_that_its_stage_is_still_ahead(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = AtDynamo(tmp_path / "s.fxs", step)
    asked, only_said = set(), {}
    async with open_app(make_capture=lambda: capture, target="mlp.py", size=(120, 40)) as driver:
        await paused(driver, capture)
        for command in tried_commands():
            sent, told = len(capture.sent), len(messages(driver))
            if driver.explorer.view != "source":
                await driver.press("2")
            before = set(driver.screen.splitlines())
            await driver.app.action_run_command(command.id)
            await driver.settle()
            if ASKED in driver.screen:
                asked.add(command.id)
                await driver.press("n")
            elif said := [
                line
                for line in (messages(driver)[told:], *_new(driver, before))
                if ONLY_SAYS_SO.search(line)
            ]:
                only_said[command.id] = said[0].strip()
            await driver.press_until("escape", lambda: driver.app.screen is driver.explorer)
            if len(capture.sent) > sent:  # it was done: the compiler is let wait again
                capture.say(Notice("done", text="done"))
                await driver.until(lambda: "paused after Dynamo" in driver.header)
        capture.end()
    assert {name: words for name, words in only_said.items() if name not in SO_FAR} == {}
    assert asked >= {*LACKS} - {"view.guards"} | {"step.measure"}


@pytest.mark.parametrize("key", with_others(["6"], ["v 6", "7"]))
async def test_a_view_whose_stage_is_ahead_is_shown_and_asks_once(
    open_app: OpenApp, tmp_path: Path, key: str
) -> None:
    capture = AtDynamo(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        await paused(driver, capture)
        await driver.press(*key.split())
        view = driver.explorer.view
        assert view in ("kernels", "memory")
        assert f"{ASKED}, then “{view}”?" in driver.screen
        await driver.press("n", "1", *key.split())
        assert ASKED not in driver.screen
        assert driver.explorer.view == view
        assert capture.sent == []
        capture.end()


async def test_after_yes_the_compiler_goes_on_and_the_view_is_there_when_it_is_through(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = AtDynamo(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        await paused(driver, capture)
        await driver.press("6", "y", "1")
        assert capture.sent == [Command("go")]
        assert "continuing, then “kernels”" in driver.header
        capture.say(Notice("phase", state="begin", stage="schedule", compilation="0/0"))
        await driver.until(lambda: "Inductor is fusing [0/0], then “kernels”" in driver.header)
        capture.say(Notice("done", text="continuing"))
        capture.say(Notice("gate", state="end", gate="dynamo"))
        capture.session_path.unlink()
        capture.stay()
        capture.say(Notice("gate", state="begin"))
        await driver.until(lambda: driver.explorer.view == "kernels")
        capture.end()
