"""These tests check the SQL statements that a key causes: each query runs once, and none that ran
at the key before.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fx_explorer.tui.screens.views import InspectorLine
from tests.analysis.kernel_ir.built_sessions import write_kernel
from tests.analysis.kernel_ir.samples import sample
from tests.exhaustive import with_others
from tests.sessions import Hand
from tests.tui.conftest import Driver, OpenApp

LOOKS_FOR_NEWS = "PRAGMA data_version"
LEVELS = with_others(["ptx"], ["sass"])
MOST_STATEMENTS = 15


@pytest.fixture
def built(tmp_path: Path) -> Path:
    return write_kernel(tmp_path / "built.fxs", sample("h100_softmax")).path


async def _asked(driver: Driver, key: str) -> Counter[str]:
    """Return the statements that SQLite is given until the key is answered."""
    statements: list[str] = []
    connection = driver.explorer.reader._db
    connection.set_trace_callback(statements.append)
    await driver.press(key)
    await driver.settle()
    connection.set_trace_callback(None)
    return Counter(statement for statement in statements if statement != LOOKS_FOR_NEWS)


@pytest.mark.parametrize("level", LEVELS)
async def test_a_key_below_a_kernel_asks_each_question_once(
    built: Path, open_app: OpenApp, level: str
) -> None:
    async with open_app(built, size=(240, 50)) as driver:
        await driver.press("6", "p", "k")
        pane = next(pane for pane in driver.panes if pane.slot == level)
        await driver.until(lambda: pane.document)
        driver.explorer.linked.activate(pane)
        await driver.press("down")
        inspector = driver.explorer.query_one(InspectorLine)
        for key in ("down", "down", "up"):
            before = inspector.text
            asked = await _asked(driver, key)
            assert inspector.text != before
            assert asked.total() <= MOST_STATEMENTS, asked
            assert set(asked.values()) == {1}, asked


async def test_a_cursor_move_asks_nothing_that_is_the_same_for_every_line(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path, size=(200, 50)) as driver:
        await driver.press("2", "down", "up", "down")
        asked = await _asked(driver, "up")
        assert set(asked.values()) == {1}, asked
        for table in ("graph_break", "recompile", "graph", "kernel"):
            assert not [s for s in asked if s.startswith(f"SELECT * FROM {table} ")], asked
        assert not [s for s in asked if "FROM meta" in s], asked
