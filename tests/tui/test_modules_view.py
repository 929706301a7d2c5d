"""These tests check the tree of modules on screen: what folds, what Enter filters, and how
everything comes back.
"""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.module_paths import CompiledAlone
from fx_explorer.instruments.modules.tree import (
    NOTHING,
    ModuleRow,
    explained,
    with_roots_of_breaks,
)
from tests.conftest import Captured
from tests.tui.conftest import OpenApp


async def test_enter_narrows_every_view_to_a_module_and_escape_widens(
    captured: Captured, open_app: OpenApp
) -> None:
    async with open_app(captured("transformer")) as driver:
        await driver.press("0")
        assert "▾ Transformer" in driver.screen
        assert "▸ 0, 1 ×2" in driver.screen
        await driver.press("6")
        every = driver.explorer.table.rows.line_count
        await driver.press("0", "down", "enter")
        assert "only tokens, Esc: all" in driver.header
        await driver.press("6")
        narrowed = driver.explorer.table
        kernels = driver.explorer.reader.rows(model.Kernel)
        assert 0 < narrowed.rows.line_count < every == len(kernels)
        assert f"{narrowed.rows.line_count} of {every} rows" in driver.screen
        await driver.press("escape")
        assert "Esc: all" not in driver.header
        assert driver.explorer.table.rows.line_count == every


async def test_arrows_fold_and_unfold(captured: Captured, open_app: OpenApp) -> None:
    async with open_app(captured("transformer")) as driver:
        await driver.press("0")
        before = driver.explorer.table.rows.line_count
        await driver.press("left")
        assert driver.explorer.table.rows.line_count == 2
        await driver.press("right")
        assert driver.explorer.table.rows.line_count == before


async def test_the_bar_of_the_sorted_column_is_seen_at_80_columns(
    captured: Captured, open_app: OpenApp
) -> None:
    async with open_app(captured("transformer"), size=(80, 24)) as driver:
        await driver.press("0")
        assert "of saved" in driver.screen  # what tells most, where no times are known
        for column in ("calls", "compile"):
            assert f"of {column}" not in driver.screen
            await driver.press("v", "o", *column, "enter")
            assert f"of {column}" in driver.screen


def test_a_module_that_a_break_made_a_root_names_the_break_and_the_root() -> None:
    gate = ModuleRow(("Net", "gate"), 1, "gate", "", NOTHING, NOTHING)
    root = ModuleRow(("Gate",), 0, "Gate", "", NOTHING, NOTHING)
    other = ModuleRow(("Net", "head"), 1, "head", "Head", NOTHING, NOTHING)
    alone = CompiledAlone(gate.path, root.path, "a.py:25")
    of_net, of_root, same = with_roots_of_breaks([gate, root, other], [alone])
    assert of_net.title == "gate (see Gate)"
    assert of_root.title == "Gate (Net.gate)"
    assert "compiled separately after the break at a.py:25" in explained(of_net)[-1]
    assert "compiled separately after the break at a.py:25" in explained(of_root)[-1]
    assert same == other
