"""These tests check that common tasks take at most ten keys, with the keys that the screen names on
the way: a typed text counts as one key.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.facts import Fact
from fx_explorer.instruments.diff.screen import CompareScreen
from fx_explorer.instruments.fixes.screen import FixScreen
from fx_explorer.model import CaptureRequest, Changes, Command, Notice, Setting
from fx_explorer.session import SessionReader, SessionWriter
from tests.exhaustive import with_others
from tests.sessions import write_training_step
from tests.tui.conftest import Driver, OpenApp
from tests.tui.test_fixes import SOURCE, ends_as, write_session
from tests.tui.test_live_capture import FakeCapture, step
from tests.tui.test_stepping import AT_HAND

BUDGET = "functorch.activation_memory_budget"
SIZES = with_others([(80, 24)], [(120, 40), (200, 50)])


class Hands:
    """Hands counts the keys that are pressed."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.keys = 0

    async def press(self, *keys: str) -> None:
        self.keys += len(keys)
        await self._driver.press(*keys)

    async def type(self, text: str) -> None:
        self.keys += 1
        await self._driver.paste(text)


@pytest.mark.parametrize("size", SIZES)
async def test_the_costliest_break_is_fixed_in_the_file_from_the_first_screen(
    open_app: OpenApp, tmp_path: Path, size: tuple[int, int]
) -> None:
    session = write_session(tmp_path)
    async with open_app(session, try_fix=ends_as("good", "1 break → 0"), size=size) as driver:
        hands = Hands(driver)
        await driver.until(lambda: "✗ m.py:5 breaks the graph" in driver.screen)
        assert "x x fix" in driver.screen
        await hands.press("x", "x")
        await driver.until(lambda: isinstance(driver.app.screen, FixScreen))
        await hands.press("r")
        await driver.until(lambda: "✓ good" in driver.screen)
        await hands.press("s", "y")
        assert (tmp_path / "m.py").read_text() != SOURCE
        assert hands.keys <= 10


async def go_to_fact(driver: Driver, is_wanted: Callable[[Fact], bool]) -> None:
    """Move down the overview to the first fact that is wanted."""
    facts = driver.explorer.facts
    await driver.press_until("j", lambda: facts.fact is not None and is_wanted(facts.fact))


async def test_the_break_that_the_overview_is_on_is_the_one_that_is_fixed(
    open_app: OpenApp, tmp_path: Path
) -> None:
    session = write_session(tmp_path)
    with SessionWriter(session) as writer:
        file = str(tmp_path / "m.py")
        writer.add(model.GraphBreak(0, 1, "GB0025", "asked for", "", (), file, 6, "return x * 2"))
    async with open_app(session, size=(120, 40)) as driver:
        await driver.until(lambda: "m.py:6 breaks the graph" in driver.facts)
        await go_to_fact(driver, lambda fact: fact.text.startswith("m.py:6 breaks"))
        place = driver.explorer.cursor.place_of_shown_break
        assert place is not None
        assert place.line + 1 == 6
        await driver.press("x", "x")
        await driver.until(
            lambda: isinstance(driver.app.screen, FixScreen) or driver.app._notifications
        )
        said = driver.screen + "".join(note.message for note in driver.app._notifications)
        assert "Fixes · m.py:5" not in said


async def test_only_a_fact_on_breaks_offers_a_fix(open_app: OpenApp, tmp_path: Path) -> None:
    async with open_app(write_session(tmp_path), size=(120, 40)) as driver:
        await driver.until(lambda: "x x fix" in driver.screen)
        keys = driver.screen.splitlines()[-2]
        assert "x x fix" in keys
        await go_to_fact(driver, lambda fact: fact.topic == "run")
        assert "x x fix" not in driver.screen.splitlines()[-2]


def write_options(path: Path) -> None:
    """Write the rows that a worker writes before the first pause: the options of the capture, and
    the catalogue of options.
    """
    with SessionWriter(path) as writer:
        writer.set_meta("request", asdict(CaptureRequest("mlp.py", "")))
        for name, text in (
            ("memory_budget_pareto_dir", "null"),
            ("activation_memory_budget", "1.0"),
        ):
            kind = "float" if text == "1.0" else "str | None"
            writer.add(Setting(0, "functorch", name, kind, text, text, "said by torch"))


def compiled_again(path: Path) -> None:
    with SessionWriter(path) as writer:
        first = SessionReader(path).rows(model.Compilation)[0]
        changes = Changes({BUDGET: 1.0}).to_json()
        row = replace(
            first,
            id=0,
            name="0/0~1",
            variant_of="0/0",
            variant_from="joint",
            in_use=False,
            changes=changes,
        )
        variant = writer.add(row)
        nodes = [model.Node(0, 0, 0, "mm", "call_function", "aten.mm.default", "")]
        writer.add_graph(model.Graph(0, variant, "post_grad", "forward", call_count=1), nodes, [])


async def type_budget(driver: Driver, hands: Hands) -> None:
    """Find the memory budget among the options, and type another value of it."""
    await hands.press("c", "o")
    await driver.until(lambda: "Options: what they do" in driver.screen)
    await hands.type("memory budget")
    await driver.until(lambda: f"▸{BUDGET}" in driver.screen)
    await hands.press("enter")
    await hands.type("0.3")


@pytest.mark.parametrize("size", SIZES)
async def test_an_option_is_changed_at_a_pause_and_compared_with_how_it_was(
    open_app: OpenApp, tmp_path: Path, size: tuple[int, int]
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py", size=size) as driver:
        await driver.until(lambda: driver.explorer.reader)
        write_options(capture.session_path)
        capture.say(Notice("gate", state="begin", gate="joint", compilation="0/0"))
        await driver.until(lambda: "paused after the joint graph" in driver.header)
        assert "c o options" in driver.screen
        await driver.press("2")
        await driver.until(lambda: "⏎ links" in driver.screen)
        assert "c o options" in driver.screen
        hands = Hands(driver)
        await type_budget(driver, hands)
        await hands.press("enter", "enter")
        assert capture.sent == [Command("set", changes=Changes({BUDGET: 0.3}))]
        capture.say(Notice("done", text="set"))
        await driver.until(lambda: "paused after the joint graph" in driver.header)
        await hands.press("r")
        assert capture.sent[-1] == Command("go")
        assert hands.keys <= 10

        capture.say(Notice("done", text="continuing"))
        capture.say(Notice("gate", state="end", gate="joint", compilation="0/0"))
        capture.stay()
        capture.say(AT_HAND)
        await driver.until(lambda: "✓ captured" in driver.header)
        assert "c a another variant" in driver.screen
        await driver.press("2")
        await driver.until(
            lambda: "⏎ links" in driver.screen and "c a another variant" in driver.screen
        )
        compares = Hands(driver)
        await compares.press("c", "a")
        assert "without activation_memory" in driver.screen
        await compares.press("enter")
        assert capture.sent[-1] == Command(
            "again", gate="joint", compilation="0/0", changes=Changes({BUDGET: 1.0})
        )
        assert compares.keys <= 10
        compiled_again(capture.session_path)
        capture.say(Notice("done", text="variant 1"))
        await driver.until(lambda: isinstance(driver.app.screen, CompareScreen))
        await driver.until(lambda: "original: 0.3" in driver.screen)
        assert "variant 1: 1.0" in driver.screen
        capture.end()


async def test_an_option_changed_at_the_end_compiles_a_variant_and_opens_its_comparison(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        await driver.until(lambda: driver.explorer.reader)
        write_options(capture.session_path)
        capture.stay()
        capture.say(AT_HAND)
        await driver.until(lambda: "✓ captured" in driver.header)
        hands = Hands(driver)
        await type_budget(driver, hands)
        await hands.press("enter")
        assert "⏎ continue with" not in driver.screen
        assert "▸⏎ compile again with 1 change" in driver.screen
        await hands.press("enter")
        (sent,) = capture.sent
        assert (sent.kind, sent.compilation, sent.changes) == (
            "again",
            "0/0",
            Changes({BUDGET: 0.3}),
        )
        compiled_again(capture.session_path)
        capture.say(Notice("done", text="variant 1"))
        await driver.until(lambda: isinstance(driver.app.screen, CompareScreen))
        capture.end()


async def test_what_was_not_set_by_hand_is_not_offered_to_be_left_out(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        await driver.until(lambda: driver.explorer.reader)
        capture.stay()
        capture.say(AT_HAND)
        await driver.until(lambda: "✓ captured" in driver.header)
        await driver.press("c", "a")
        assert "[0/0] from the joint graph" in driver.screen
        assert "│  without" not in driver.screen  # a row of the dialog
        capture.end()


@pytest.mark.parametrize("size", SIZES)
async def test_the_source_names_the_keys_to_a_line_and_to_what_is_below_its_kernel(
    open_app: OpenApp, tmp_path: Path, size: tuple[int, int]
) -> None:
    write_training_step(tmp_path / "s.fxs")
    with sqlite3.connect(tmp_path / "s.fxs") as session:
        session.execute("UPDATE kernel SET language='triton' WHERE language='cpp'")
    async with open_app(tmp_path / "s.fxs", size=size) as driver:
        await driver.press("2")
        await driver.until(
            lambda: "/ find  p k below the kernel  tab next pane  f find anything" in driver.screen
        )
        await driver.press("down")  # a library call alone
        await driver.until(lambda: "p k below the kernel" not in driver.screen)
        assert "kernel #3 extern_kernels.addmm" in driver.screen


@pytest.mark.parametrize("size", SIZES)
async def test_keys_for_triton_kernels_are_not_named_where_there_is_none(
    open_app: OpenApp, tmp_path: Path, size: tuple[int, int]
) -> None:
    write_training_step(tmp_path / "s.fxs")
    async with open_app(tmp_path / "s.fxs", size=size) as driver:
        await driver.press("2")
        await driver.until(lambda: "/ find  tab next pane  f find anything" in driver.screen)
        await driver.press("6")
        for key in ("down", "down"):
            assert not {"below", "configurations", "passes"} & set(driver.screen.split())
            await driver.press(key)


@pytest.mark.parametrize("size", SIZES)
async def test_a_line_of_the_source_is_gone_to_by_its_place(
    open_app: OpenApp, tmp_path: Path, size: tuple[int, int]
) -> None:
    write_training_step(tmp_path / "s.fxs")
    async with open_app(tmp_path / "s.fxs", size=size) as driver:
        hands = Hands(driver)
        await hands.press("f")
        await hands.type("mlp.py:3")
        await driver.until(lambda: "line · mlp.py:3" in driver.screen)
        await hands.press("enter")
        await driver.until(lambda: driver.explorer.view == "source")
        place = driver.explorer.cursor.place
        assert place is not None
        assert (place.document.title, place.line) == ("mlp.py", 2)
        assert hands.keys <= 3


async def test_a_saved_tensor_says_which_lines_need_it_in_the_backward(
    open_app: OpenApp, tmp_path: Path
) -> None:
    write_training_step(tmp_path / "s.fxs")
    async with open_app(tmp_path / "s.fxs", size=(120, 40)) as driver:
        await driver.press("7")
        await driver.until(
            lambda: "in the backward" in driver.screen and "needed by  " in driver.screen
        )
        said = next(line for line in driver.screen.splitlines() if "needed by  " in line)
        assert "mlp.py:" in said or "no line of yours (" in said
