"""These tests drive the compiler from the keyboard. The capture is injected: the tests check its
commands, and how its notices are shown.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from fx_explorer import cli, model
from fx_explorer.command_line.starting_app import pause_wanted
from fx_explorer.commands import explore
from fx_explorer.model import Changes, Command, Mark, Notice, PassFile
from fx_explorer.session import SessionWriter
from fx_explorer.tui.config import Config
from fx_explorer.tui.content.live import LiveCapture, Waiting
from tests.sessions import write_training_step
from tests.tui.conftest import OpenApp
from tests.tui.test_live_capture import FakeCapture, step

AT_DYNAMO = Notice("gate", state="begin", gate="dynamo", compilation="0/0")
LEFT_DYNAMO = Notice("gate", state="end", gate="dynamo", compilation="0/0")
AT_HAND = Notice("gate", state="begin")


def messages(driver) -> str:  # type: ignore[no-untyped-def]
    return "\n".join(note.message for note in driver.app._notifications)


async def test_a_pause_is_in_the_header_the_bar_and_the_footer_and_going_on_shows_at_once(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py", size=(80, 24)) as driver:
        capture.say(
            Notice("gate", state="begin", gate="partition", compilation="0/0", direction="backward")
        )
        await driver.until(lambda: "‖ paused after the partition [0/0] backward" in driver.header)
        assert "‖ AOTAutograd" in driver.screen
        assert ". step  r run  c o options" in driver.screen
        assert "⏎ go there  c t run to" in driver.screen
        await driver.pilot.press("full_stop")
        await driver.pilot.pause()
        assert "▷ on to the next pause" in driver.header
        assert capture.sent == [Command("step")]
        capture.say(Notice("done", text="on to the next pause"))
        capture.say(
            Notice("gate", state="end", gate="partition", compilation="0/0", direction="backward")
        )
        await driver.until(lambda: ". step" not in driver.screen)
        capture.say(AT_DYNAMO)
        await driver.until(lambda: "paused after Dynamo [0/0]" in driver.header)
        capture.say(Notice("refused", text="the option has no such value"))
        await driver.until(lambda: "the option has no such value" in messages(driver))
        await driver.press("r")
        assert capture.sent[-1] == Command("go")
        capture.end()


async def test_gates_and_files_are_chosen_in_dialogs(open_app: OpenApp, tmp_path: Path) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    pass_file = tmp_path / "fold.py"
    pass_file.write_text("def pass_(gm): ...\n")
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        capture.say(AT_DYNAMO)
        await driver.until(lambda: "paused after Dynamo" in driver.header)
        await driver.press("c", "p", *"none.py", "enter")
        assert "There is no file" in messages(driver)
        await driver.press("c", "p")
        await driver.paste(str(pass_file))
        await driver.press("enter")
        assert capture.sent == [
            Command("pass", changes=Changes(passes=(PassFile("dynamo", str(pass_file)),)))
        ]
        capture.say(Notice("done", text="pass_ of fold.py"))
        await driver.until(lambda: "paused after Dynamo" in driver.header)
        await driver.press("c", "t", *"post_grad", "enter")
        assert capture.sent[-1] == Command("run_to", gate="post_grad")
        capture.end()


async def test_escape_at_a_gate_asks_before_it_ends_the_capture(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        capture.say(AT_DYNAMO)
        await driver.until(lambda: "paused after Dynamo" in driver.header)
        await driver.press("escape")
        assert not capture.was_cancelled
        await driver.press("escape")
        assert capture.was_cancelled


async def test_when_all_is_done_another_variant_can_be_compiled_and_saving_and_capturing_again_work(
    open_app: OpenApp, tmp_path: Path
) -> None:
    captures = [FakeCapture(tmp_path / f"{i}.fxs", step) for i in range(2)]
    made = iter(captures)
    async with open_app(make_capture=lambda: next(made), target="mlp.py") as driver:
        await driver.until(lambda: driver.explorer.reader)
        captures[0].stay()
        captures[0].say(AT_HAND)
        await driver.until(lambda: "✓ captured" in driver.header)
        await driver.press("full_stop")
        assert captures[0].sent == []
        assert "Everything is compiled" in messages(driver)
        await driver.press("c", "a", *"the joint", "enter", *"the same", "enter")
        assert captures[0].sent == [Command("again", gate="joint", compilation="0/0")]
        assert "▷ compiling [0/0] from the joint graph" in driver.header
        captures[0].say(Notice("done", text="variant 1"))
        await driver.until(lambda: "✓ captured" in driver.header)
        await driver.press("s")
        assert "Save the session as" in driver.screen
        await driver.press("escape", "r")
        await driver.until(lambda: captures[1].session_path.exists())
        assert captures[0].was_cancelled
        captures[1].end()


async def test_a_recapture_that_pauses_is_shown_in_place_of_the_old_session(
    open_app: OpenApp, tmp_path: Path
) -> None:
    captures = [FakeCapture(tmp_path / f"{i}.fxs", step) for i in range(2)]
    made = iter(captures)
    async with open_app(make_capture=lambda: next(made), target="mlp.py") as driver:
        await driver.until(lambda: driver.explorer.reader)
        captures[0].end()
        await driver.until(lambda: "✓ captured" in driver.header)
        await driver.press("r")
        captures[1].say(AT_DYNAMO)
        await driver.until(lambda: driver.explorer.reader.path == captures[1].session_path)
        captures[1].end()


async def test_a_saved_session_says_why_nothing_can_be_driven(
    open_app: OpenApp, tmp_path: Path
) -> None:
    write_training_step(tmp_path / "s.fxs")
    async with open_app(tmp_path / "s.fxs") as driver:
        await driver.press("full_stop", "c", "a", "c", "m", "c", "x")
        assert messages(driver).count("there is no compiler to step through") == 4


async def test_a_source_line_is_marked_by_name(open_app: OpenApp, tmp_path: Path) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        await driver.until(lambda: driver.explorer.reader)
        step(capture.session_path)
        capture.say(AT_DYNAMO)
        await driver.until(
            lambda: "paused after Dynamo" in driver.header and "One graph was made" in driver.facts
        )
        await driver.press(
            "2", "g", *"jjjjjj", "c", "m", "enter", *["backspace"] * 10, *"mlp", "enter"
        )
        mark = Mark("mlp", file="/p/mlp.py", first_line=7, last_line=7)
        assert capture.sent == [Command("mark", changes=Changes(marks=(mark,)))]
        capture.end()


async def test_a_mark_when_all_is_compiled_asks_how_to_compile_again(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        await driver.until(lambda: driver.explorer.reader)
        capture.stay()
        capture.say(AT_HAND)
        await driver.until(lambda: "✓ captured" in driver.header)
        await driver.press(
            "2", "g", *"jjjjjj", "c", "m", "enter", *["backspace"] * 10, *"mlp", "enter"
        )
        assert "Compile [0/0] again with mlp" in driver.screen
        await driver.press(*"regional", "enter")
        mark = Mark("mlp", file="/p/mlp.py", first_line=7, last_line=7)
        changes = Changes({"compile.backend": "regional_inductor"}, (mark,))
        assert capture.sent == [Command("again", gate="dynamo", compilation="0/0", changes=changes)]
        capture.end()


async def test_at_a_gate_only_the_compilation_that_waits_there_can_be_taken_up(
    open_app: OpenApp, tmp_path: Path
) -> None:
    def two(path: Path) -> None:
        write_training_step(path)
        with SessionWriter(path) as writer:
            other = writer.add(
                model.Compilation(0, "1/0", 1, 0, "g", "/p/mlp.py", 1, status="running")
            )
            node = model.Node(0, 0, 0, "relu", "call_function", "relu", "x")
            writer.add_graph(model.Graph(0, other, "dynamo", "", call_count=1), [node], [])

    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        await driver.until(lambda: driver.explorer.reader)
        two(capture.session_path)
        capture.say(Notice("gate", state="begin", gate="dynamo", compilation="1/0"))
        await driver.until(lambda: "paused after Dynamo [1/0]" in driver.header)
        await driver.press("c", "a")
        assert "only [1/0] while it is paused here" in driver.screen
        assert "[1/0] from Dynamo" in driver.screen
        assert "[0/0] from" not in driver.screen
        await driver.press("enter", *"regional", "enter")
        settings = {"compile.backend": "regional_inductor"}
        assert capture.sent == [
            Command("again", gate="dynamo", compilation="1/0", changes=Changes(settings))
        ]
        capture.end()


def test_a_gate_inside_another_variant_leads_back_to_that_variant(tmp_path: Path) -> None:
    live = LiveCapture(FakeCapture(tmp_path / "s.fxs", step))
    live.take(AT_HAND)
    assert live.waiting == Waiting()
    assert live.is_at_rest
    live.send(Command("again"), "compiling")
    assert live.waiting is None
    live.take(AT_DYNAMO)
    assert live.waiting == Waiting("dynamo", "0/0")
    live.send(Command("go"), "continuing")
    live.take(Notice("done"))
    live.take(LEFT_DYNAMO)
    assert live.waiting is None
    assert live.has_ended
    live.take(Notice("done"))
    assert live.is_at_rest


@pytest.mark.parametrize(
    ("options", "pause"), [([], "dynamo"), (["--run"], ""), (["--step"], "step")]
)
def test_the_command_line_says_where_the_compiler_waits(options: list[str], pause: str) -> None:
    parser = argparse.ArgumentParser()
    explore.add_arguments(parser)
    assert pause_wanted(parser.parse_args(["mlp.py", *options])) == pause


@pytest.mark.parametrize(
    ("target", "told"), [("s.fxs", "saved session"), ("mlp.py", "needs a terminal")]
)
def test_stepping_where_nothing_can_wait_is_refused_with_words(
    target: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([target, "--step"]) == 2
    assert told in capsys.readouterr().err


async def test_the_first_screen_says_what_waits_and_which_key_goes_on(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    config = Config(keys={"capture.run": ("C",)})
    async with open_app(make_capture=lambda: capture, target="mlp.py", config=config) as driver:
        await driver.until(lambda: driver.explorer.reader)
        write_training_step(capture.session_path, finished=False)
        capture.say(Notice("gate", state="begin", gate="dynamo"))
        await driver.until(
            lambda: "‖ paused after Dynamo · . next stage · C compile to the end" in driver.header
        )
        assert driver.explorer.facts.facts[-1].text.startswith("Paused after Dynamo: 1 graph is")
        assert "Still at work" not in driver.screen
        capture.say(Notice("gate", state="end", gate="dynamo"))
        await driver.until(lambda: "Still at work" in driver.screen)
        capture.say(
            Notice("gate", state="begin", gate="partition", compilation="0/0", direction="backward")
        )
        await driver.until(lambda: "Paused after the partition of [0/0], backward." in driver.facts)
        capture.end()


async def test_variants_are_measured_when_the_program_has_ended(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        capture.say(AT_DYNAMO)
        await driver.until(lambda: "paused after Dynamo" in driver.header)
        await driver.press("x", "t")
        assert "Compile to the end, then build and run it" in driver.screen
        await driver.press("n")
        write_training_step(tmp_path / "s.fxs")
        capture.say(LEFT_DYNAMO)
        capture.say(AT_HAND)
        await driver.until(lambda: "✓ captured" in driver.header)
        await driver.press("x", "t", "enter")
        assert capture.sent == [Command("measure", compilation="0/0")]
        capture.end()


def test_when_a_pass_that_loops_is_stopped_the_compiler_waits_at_its_gate_again(
    tmp_path: Path,
) -> None:
    live = LiveCapture(FakeCapture(tmp_path / "s.fxs", step))
    live.take(AT_DYNAMO)
    live.send(Command("pass"), "applying loop.py")
    live.send(Command("abort"), "aborting")
    assert live.waiting is None
    live.take(Notice("refused", text="Stopped, as you asked."))
    assert live.waiting == Waiting("dynamo", "0/0")
