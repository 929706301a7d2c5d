"""These tests send bursts of random keys, faster than the screen can follow, over all screens and
sizes: the app and its main screen stay up.

Keys are sent to the driver as a terminal sends them, without waiting for what each one does. A
failure names its seed. What would run a program answers that it cannot.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from textual import events
from textual._compositor import Compositor
from textual.geometry import Region
from textual.keys import _character_to_key
from textual.widgets import Input

from fx_explorer.errors import WorkerError
from fx_explorer.instruments.fixes import offers
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.offers import offer
from fx_explorer.instruments.fixes.screen import FixScreen
from fx_explorer.tui.app import ExplorerApp
from fx_explorer.tui.commands import COMMANDS, by_id
from fx_explorer.tui.config import Config
from fx_explorer.tui.controllers.kernel_builds import KernelBuilds
from fx_explorer.tui.controllers.trials import Trials
from fx_explorer.tui.conversation import ask, conversation
from fx_explorer.tui.dialogs.dialog import Ask
from fx_explorer.tui.screens.explorer import Explorer
from fx_explorer.tui.terminal.frame_bytes import FrameCompositor
from tests.conftest import Captured
from tests.exhaustive import in_exhaustive_runs, rounds, with_others
from tests.sessions import Hand
from tests.tui.conftest import Driver, OpenApp
from tests.tui.terminal_cells import Cell, written_cells
from tests.tui.test_fixes import write_session

SIZES = ((80, 24), (120, 40), (200, 50))
ODD_SIZES = ((40, 10), (12, 4))
KEYS_OF_A_RUN = rounds(500, exhaustive=1_050)
LONGEST_BURST = 100
SEEDS = range(rounds(1, exhaustive=4))
"""For each session. Sessions of other kinds begin at other sizes."""

ENDS_THE_APP = set(by_id("app.quit").keys)
KEYS = sorted(
    {key for command in COMMANDS for key in command.keys} - ENDS_THE_APP
    | {"enter", "backspace", "space", "7", "w"}
)


class _NoBuilds:
    """_NoBuilds imitates the processes that compile kernels."""

    async def warm_up(self) -> Any:
        raise WorkerError("no kernel is compiled in this test")

    def ask(self, *_: object) -> Any:
        raise WorkerError("no kernel is compiled in this test")

    async def close(self) -> None:
        pass


async def _refuse(*_: object, **__: object) -> Any:
    raise WorkerError("nothing is run in this test")


async def _refuse_all(*_: object, **__: object) -> AsyncIterator[Any]:
    raise WorkerError("nothing is run in this test")
    yield


@pytest.fixture(autouse=True)
def _nothing_leaves_the_app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No editor opens, no worker starts, and files are written to a folder of the test's."""
    monkeypatch.setattr("fx_explorer.tui.controllers.navigation.open_in_editor", lambda *_: None)
    monkeypatch.setattr("fx_explorer.client.worker_process.WorkerProcess.run", _refuse)
    monkeypatch.setattr(KernelBuilds, "make_builds", staticmethod(lambda *_: _NoBuilds()))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def frames(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each changed part of the screen. Of what Textual would have sent it is to be the cells that
    changed, and no others.
    """
    sent: list[str] = []
    ours = FrameCompositor.render_partial_update

    def rendered(self: FrameCompositor, render: Callable[..., Any], changed: set[Region]) -> str:
        self._dirty_regions = set(changed)
        self._cuts = None  # Textual may have kept those of the layout before
        update = render(self)
        return str(update.render_segments(Console())) if update else ""

    def both(self: FrameCompositor) -> Any:
        changed = set(self._dirty_regions)
        update = ours(self)  # in which a widget may find that it was laid out anew
        sent.append(rendered(self, ours, changed))
        whole = written_cells(rendered(self, Compositor.render_partial_update, changed))
        assert written_cells(sent[-1]) == {
            cell: shown for cell, shown in whole.items() if _is_in(changed, cell)
        }
        return update

    monkeypatch.setattr(FrameCompositor, "render_partial_update", both)
    return sent


def _is_in(regions: set[Region], cell: Cell) -> bool:
    row, column = cell
    return any(region.contains(column, row) for region in regions)


def _press(app: ExplorerApp, key: str) -> None:
    character = " " if key == "space" else key if len(key) == 1 else None
    assert app._driver is not None
    app._driver.send_message(
        events.Key(_character_to_key(key) if len(key) == 1 else key, character)
    )


def _typed(driver: Driver) -> str:
    """Return what the field of the dialog on top has; empty without one."""
    fields = driver.app.screen.query(Input)
    return "".join(field.value for field in fields)


async def _play(open_app: OpenApp, session: Path, seed: int) -> set[str]:
    """Returns the screens that were on top at some time."""
    chance = random.Random(seed)
    seen: set[str] = set()
    pressed = 0
    options = {
        "try_fix": _refuse,
        "measure_breaks": _refuse,
        "try_dynamic": _refuse_all,
        "config": Config(),
    }
    async with open_app(session, size=SIZES[seed % len(SIZES)], **options) as driver:
        while pressed < KEYS_OF_A_RUN:
            burst = chance.choices(KEYS, k=chance.randint(1, LONGEST_BURST))
            pressed += len(burst)
            for key in burst:
                _press(driver.app, key)
            await driver.pilot._wait_for_screen()
            if chance.random() < 0.3:
                await driver.pilot.resize_terminal(*chance.choice(SIZES + ODD_SIZES))
            seen.add(type(driver.app.screen).__name__)
            assert driver.app.is_running, f"seed {seed} ended the app after {burst}"
            assert any(isinstance(screen, Explorer) for screen in driver.app.screen_stack), (
                f"seed {seed}: {burst}"
            )
        await driver.settle()
        for _ in range(20):  # whatever is open on top, or just about to be, can be left
            await driver.press("escape", "1")
            if isinstance(driver.app.screen, Explorer) and driver.explorer.view == "overview":
                break
        else:
            raise AssertionError(f"seed {seed} cannot be left:\n{driver.screen}")
    return seen


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_session_written_by_hand(
    hand: Hand, open_app: OpenApp, seed: int, frames: list[str]
) -> None:
    assert len(await _play(open_app, hand.path, seed)) > 1
    assert any(frames)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("sample", with_others(["graph_breaks"], ["regions", "recompiles"]))
async def test_a_captured_session(
    captured: Captured, open_app: OpenApp, sample: str, seed: int
) -> None:
    assert len(await _play(open_app, captured(sample), 100 + seed)) > 1


@in_exhaustive_runs
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_session_with_triton_kernels(
    captured: Captured, open_app: OpenApp, seed: int
) -> None:
    assert len(await _play(open_app, captured("mlp", gpu="h100"), 200 + seed)) > 1


async def test_a_letter_typed_right_after_the_key_of_a_dialog_goes_into_it(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        for key in ("p", "d", "d", "a"):
            _press(driver.app, key)
        await driver.settle()
        (field,) = driver.app.screen.query("Input")
        assert field.value == "da"  # type: ignore[attr-defined]
        assert len(driver.app.screen_stack) == 3


@pytest.mark.parametrize("gap_s", with_others([0.15], [0.0]))
async def test_a_key_typed_while_a_dialog_opens_late_goes_into_it(
    tmp_path: Path, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, gap_s: float
) -> None:
    """The first fix of a session imports a parser, which takes longer than the app waits for."""
    monkeypatch.setattr("fx_explorer.tui.conversation.PATIENCE_S", 0.1)
    tried = []

    async def try_fix(_: object, fix: Fix, *__: object) -> Any:
        tried.append(fix)
        raise WorkerError("nothing is run in this test")

    def offer_late(*arguments: Any) -> Any:
        time.sleep(0.5)
        return offer(*arguments)

    monkeypatch.setattr(offers, "offer", offer_late)
    async with open_app(write_session(tmp_path), try_fix=try_fix) as driver:
        for key in ("x", "x", "r"):
            _press(driver.app, key)
            await asyncio.sleep(gap_s)
        await driver.until(lambda: tried)
        assert isinstance(driver.app.screen, FixScreen)


@in_exhaustive_runs
async def test_keys_typed_behind_a_dialog_that_does_not_open_reach_the_screen_in_order(
    hand: Hand, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fx_explorer.tui.conversation.PATIENCE_S", 0.05)

    async def offer_nothing(*_: object, **__: object) -> None:
        await asyncio.sleep(0.3)

    async with open_app(hand.path) as driver:
        monkeypatch.setattr(driver.app.controllers.trials, "_offer_fixes", offer_nothing)
        for key in ("x", "x", "2", "1", "f", "a", "b"):
            _press(driver.app, key)
            await asyncio.sleep(0.02)
        await driver.until(lambda: _typed(driver) == "ab")
        assert driver.explorer.view == "overview"


async def test_a_key_typed_between_two_dialogs_goes_into_the_second(
    hand: Hand, open_app: OpenApp
) -> None:
    answers: list[str] = []

    @conversation("two", "ask twice")
    async def ask_twice(trials: Trials) -> None:
        answers.append(await ask(trials.app, Ask("First?", "one", verb="answers")))
        await asyncio.sleep(0.2)
        answers.append(await ask(trials.app, Ask("Second?", "two", verb="answers")))

    async with open_app(hand.path) as driver:
        driver.app.call_later(ask_twice, driver.app.controllers.trials)
        await driver.until(lambda: driver.app.screen.query("Input"))
        for key in ("enter", "x", "a", "enter"):
            _press(driver.app, key)
            await asyncio.sleep(0.02)
        await driver.until(lambda: len(answers) == 2)
        assert answers == ["one", "xa"]


async def test_keys_pass_where_no_second_dialog_follows(
    hand: Hand, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fx_explorer.tui.conversation.PATIENCE_S", 0.2)
    ends = asyncio.Event()

    @conversation("one", "ask, and work for long")
    async def ask_and_work(trials: Trials) -> None:
        await ask(trials.app, Ask("First?", "one", verb="answers"))
        await ends.wait()

    async with open_app(hand.path) as driver:
        driver.app.call_later(ask_and_work, driver.app.controllers.trials)
        await driver.until(lambda: driver.app.screen.query("Input"))
        for key in ("enter", "2"):
            _press(driver.app, key)
            await asyncio.sleep(0.02)
        await driver.until(lambda: driver.explorer.view == "source")
        ends.set()


@in_exhaustive_runs
async def test_a_dialog_that_is_closed_twice_leaves_the_main_screen(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("p", "d")
        for key in ("escape", "enter", "escape", "enter"):
            _press(driver.app, key)
        await driver.settle()
        assert any(isinstance(screen, Explorer) for screen in driver.app.screen_stack)


@pytest.mark.parametrize(
    "keys", ["5 2 p d q 3 p s 4", "p a p a q p a", "f q 2", "q q 5 p s", "p s ctrl+c p b v c p d"]
)
async def test_keys_behind_the_one_that_quits_change_nothing_any_more(
    hand: Hand, open_app: OpenApp, keys: str
) -> None:
    async with open_app(hand.path) as driver:
        for key in keys.split():
            _press(driver.app, key)
        await driver.pilot.pause(0.3)


async def test_a_trial_that_is_stopped_before_it_began_keeps_nobody_in_its_dialog(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("c", "o")
        for key in ("ctrl+r", "escape", "escape", "escape"):
            _press(driver.app, key)
        await driver.until(lambda: isinstance(driver.app.screen, Explorer))
