"""These tests show a graph as code and as a table in its pane, and write it as a script."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from fx_explorer.analysis.documents import node_at
from tests.sessions import Hand
from tests.tui.conftest import OpenApp


async def test_a_key_turns_a_graph_into_code_and_table_with_the_cursor_on_the_same_node(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "tab")
        pane = driver.panes[1]
        reader = driver.explorer.reader
        assert reader
        assert pane.place
        node = node_at(reader, pane.place)
        for title in ("as Python", "as a table"):
            await driver.press("p", "c")
            assert pane.document
            assert pane.document.title == f"Forward · post-grad · {title}"
            assert pane.place
            assert node_at(reader, pane.place) == node
            source, _, kernel = driver.panes
            assert all(set(one.body.marks) for one in (source, kernel)), (
                "the others are lit by a line of it"
            )
        await driver.press("p", "c")
        assert pane.document
        assert pane.document.title == "Forward · post-grad"


async def test_a_line_of_the_source_lights_the_lines_of_the_code(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "tab", "p", "c", "shift+tab", "g", *"jjjjjj")
        source, code, _ = driver.panes
        assert source.place.line + 1 == 7
        assert {code.body.line_text(line).split()[0] for line in code.body.marks} == {
            "addmm:",
            "gelu:",
        }


async def test_a_pane_without_a_graph_says_so(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "p", "c")
        assert "First go to a pane that shows a graph" in driver.screen


async def test_the_script_is_written_under_the_name_that_is_given(
    hand: Hand, open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_app(hand.path) as driver:
        await driver.press("2", "tab", "p", "w")
        await driver.press("enter")
        await driver.until(lambda: "Run it with" in driver.screen)
    (file,) = tmp_path.glob("*.py")
    assert "GraphModule" in runpy.run_path(str(file))
