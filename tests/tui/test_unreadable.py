"""These tests open in the app a session of which a part cannot be read: the reason is shown, the
rest is shown, and the app goes on.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import zlib
from pathlib import Path

import pytest

from benchmarks.synthetic import llama_session
from fx_explorer.tui.app import ExplorerApp
from fx_explorer.tui.widgets.line_canvas import AHEAD_S
from tests.exhaustive import one_of
from tests.sessions import Hand
from tests.tui.conftest import OpenApp

DAMAGES = {
    "a row of another type": "UPDATE kernel SET position='x'",
    "kernels without end": "UPDATE kernel SET first_line=99999999999",
    "a word of a closed set": "UPDATE artifact SET stage='nowhere'",
    "nodes that are not there": "UPDATE graph SET node_count=123456789",
    "no JSON": "UPDATE stack SET frames='['",
    "text that cannot be unpacked": "UPDATE text SET body=x'00'",
    "a bomb": f"UPDATE text SET body=x'{zlib.compress(bytes(90_000_000)).hex()}'",
    "names that are none": "UPDATE compilation SET name=x'00ff'",
    "an id of nothing": "UPDATE kernel SET artifact=77, output_code=78",
    "an ending that is none": "UPDATE meta SET value='[1]' WHERE key='outcome'",
    "paths that are none": "UPDATE source_file SET path=NULL",
}


@pytest.mark.parametrize("damage", one_of(2, DAMAGES))
async def test_what_can_be_read_is_shown(
    damage: str, open_app: OpenApp, hand: Hand, tmp_path: Path
) -> None:
    path = Path(shutil.copy(hand.path, tmp_path / "s.fxs"))
    with sqlite3.connect(path) as db:
        db.execute(DAMAGES[damage])
    db.close()
    async with open_app(path, size=(140, 40)) as driver:
        for key in (
            "1",
            "2",
            "down",
            "enter",
            "3",
            "4",
            "5",
            "6",
            "7",
            "8",
            "9",
            "2",
            "i",
            "escape",
            "B",
            "p k",
            "p y",
        ):
            await driver.press(*key.split())
            assert driver.app.is_running, f"the app has ended at {key}"
        assert "fx-explorer" in driver.screen
        told = [note.message for note in driver.app._notifications if "damaged" in note.message]
        assert len(told) == len(set(told)), "each is told once"


async def test_a_row_below_the_screen_is_told_and_does_not_end_the_app(
    open_app: OpenApp, tmp_path: Path
) -> None:
    path = llama_session(tmp_path / "s.fxs", 2).path
    with sqlite3.connect(path) as db:
        (first,) = db.execute("SELECT first_node FROM graph WHERE stage='joint'").fetchone()
        db.execute("UPDATE node SET op=x'00' WHERE id=?", (first + 40,))
    db.close()
    async with open_app(path, size=(140, 24)) as driver:
        for key in ("2", "p", "j", *("pagedown",) * 3, "pageup", "3"):
            await driver.press(key)
            await asyncio.sleep(2 * AHEAD_S)
            assert driver.app.is_running, f"the app has ended at {key}"
        assert any("damaged" in note.message for note in driver.app._notifications)


async def test_what_a_handler_raises_is_the_sessions_only_when_it_is_damaged(
    hand: Hand, tmp_path: Path
) -> None:
    path = tmp_path / "s.fxs"
    app = ExplorerApp(session=Path(shutil.copy(hand.path, path)))
    async with app.run_test(size=(140, 40), notifications=True) as pilot:
        await pilot.pause()
        with sqlite3.connect(path) as db:
            db.execute("UPDATE compilation SET line='x'")
        db.close()
        assert app.report_unreadable(KeyError("something of ours"))
        await pilot.pause()
        assert any(
            "damaged: compilation: line is 'x'" in note.message for note in app._notifications
        )
