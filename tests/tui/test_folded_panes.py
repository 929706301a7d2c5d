"""These tests check a graph that is folded by module in its pane: rows open in place, the cursor
keeps its node, other panes follow, and what is searched for is never hidden.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.synthetic import llama_session
from fx_explorer import model
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.tui.content import folded_rows
from fx_explorer.tui.panes.pane import Pane
from tests.folding.layers import graph_nodes, write_graph
from tests.sessions import Hand
from tests.tui.conftest import Driver, OpenApp

LAYERS = 6


@pytest.fixture(scope="module")
def layered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("folded") / "layers.fxs"
    with SessionWriter(path) as writer:
        write_graph(writer, graph_nodes(LAYERS))
    return path


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("folded") / "llama.fxs"
    llama_session(path, 3)
    return path


def messages(driver: Driver) -> str:
    return " ".join(notification.message for notification in driver.app._notifications)


async def graph_pane(driver: Driver) -> Pane:
    await driver.press("2", "tab")
    pane = driver.explorer.linked.active
    assert pane.document.kind == "graph"
    assert isinstance(pane, Pane)
    return pane


def titles(pane: Pane) -> list[str]:
    """Return the rows, each with its arrow and the first column after it."""
    body = pane.body
    texts = [body.line_text(row) for row in range(body.line_count)]
    return ["  ".join(text.strip().split("  ")[:2]).strip() for text in texts]


def nodes_below(pane: Pane) -> list[int]:
    """Return the nodes of all rows: those of an open one are below the rows in it."""
    assert pane.modules
    below: list[int] = []
    for row in range(pane.body.line_count):
        if not pane.modules.is_open(row):
            below += pane.modules.lines_below(row)
    return below


async def test_a_key_folds_the_graph_by_module_and_the_cursor_keeps_its_node(
    layered: Path, open_app: OpenApp
) -> None:
    async with open_app(layered) as driver:
        pane = await graph_pane(driver)
        await driver.press("enter", "G", "k", "k")
        assert pane.place
        line = pane.place.line
        await driver.press("minus")
        assert titles(pane) == [
            "▾ model  26 nodes",
            "▸ embed  2 nodes",
            "▸ layers.0 … 5 ×6  6 × 4 nodes",
            "▸ head  1 node",
            "output  output",
        ]
        assert pane.body.cursor == 2
        assert "6 layers, model.layers.0 … 5, have 24 of the 28 nodes and are alike." in messages(
            driver
        )
        assert sorted(nodes_below(pane)) == list(range(28))
        await driver.press("p", "f")
        assert pane.modules is None
        assert pane.place
        assert abs(pane.place.line - line) <= 24


async def test_rows_open_and_close_in_place_at_any_depth(layered: Path, open_app: OpenApp) -> None:
    async with open_app(layered) as driver:
        pane = await graph_pane(driver)
        await driver.press("minus", "g", "j", "j", "enter")
        assert [title.split("  ")[0] for title in titles(pane)[2:9]] == [
            "▾ layers.0 … 5 ×6", "▸ 0", "▸ 1", "▸ 2", "▸ 3", "▸ 4", "▸ 5",
        ]  # fmt: skip
        await driver.press("j", "j", "l")
        assert [title.split("  ")[0] for title in titles(pane)[4:9]] == [
            "▾ 1", "▸ proj", "▸ act", "l1_add", "▸ 2",
        ]  # fmt: skip
        assert sorted(nodes_below(pane)) == list(range(28))
        await driver.press("j", "j", "h")
        assert pane.body.cursor == 4
        await driver.press("h", "h")
        assert pane.body.cursor == 2
        await driver.press("h")
        assert len(titles(pane)) == 5
        assert sorted(nodes_below(pane)) == list(range(28))


async def test_what_is_found_anywhere_is_opened(layered: Path, open_app: OpenApp) -> None:
    async with open_app(layered) as driver:
        pane = await graph_pane(driver)
        await driver.press("minus", "f", *"l4_mul", "enter")
        assert pane.modules
        assert titles(pane)[pane.body.cursor].startswith("l4_mul")
        assert [title for title in titles(pane) if title.startswith("▾")] == [
            "▾ model  26 nodes",
            "▾ layers.0 … 5 ×6  6 × 4 nodes",
            "▾ 4  4 nodes",
            "▾ act  1 node",
        ]


async def test_a_find_shows_every_node_until_it_ends(layered: Path, open_app: OpenApp) -> None:
    async with open_app(layered) as driver:
        pane = await graph_pane(driver)
        await driver.press("minus", "slash", *"l3_mm")
        assert pane.modules is None
        assert titles(pane)[pane.body.cursor].startswith("l3_mm")
        await driver.press("escape")
        assert pane.modules
        assert titles(pane)[pane.body.cursor].startswith("l3_mm")


async def test_other_panes_follow_a_row_that_stands_for_many_nodes(
    llama: Path, open_app: OpenApp
) -> None:
    async with open_app(llama, size=(200, 50)) as driver:
        await driver.press("p", "b")
        forward, backward = driver.panes
        await driver.press("minus")
        await driver.until(lambda: forward.modules)
        await driver.press("enter")
        assert "3 layers layers.0 … 2" in driver.screen
        await driver.press("j", "l", "j")
        assert "layers.0.attention_norm" in driver.screen
        below = set(forward.modules.lines_below(forward.body.cursor))
        with SessionReader(llama) as reader:
            graph = reader.get(model.Graph, backward.document.id)
            nodes = [reader.nodes(graph)[line] for line in backward.lit]
        modules = {node.module for node in nodes if node.op == "call_function"}
        assert modules == {"layers.0.attention_norm"}
        assert not below & set(forward.lit)
        await driver.press("tab", "minus")
        await driver.until(lambda: backward.modules)
        assert forward.modules, "each pane folds its own graph"
        assert forward.body.marks


async def test_the_way_back_does_not_open_what_was_left_closed(
    llama: Path, open_app: OpenApp
) -> None:
    async with open_app(llama, size=(200, 50)) as driver:
        await driver.press("p", "b", "minus")
        forward = driver.panes[0]
        await driver.until(lambda: forward.modules)
        rows = titles(forward)
        await driver.press("6", "b")
        assert driver.explorer.view == "source"
        assert titles(forward) == rows


async def test_a_large_graph_is_folded_in_the_background(
    llama: Path, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folded_rows, "NODES_AT_ONCE", 10)
    async with open_app(llama, size=(200, 50)) as driver:
        await driver.press("p", "b")
        forward = driver.panes[0]
        await driver.press("minus")
        await driver.until(lambda: forward.modules)
        assert "3 layers, layers.0 … 2, have all" in messages(driver)
        await driver.press("minus", "minus")
        assert forward.modules, "it is folded only once"


async def test_a_graph_without_modules_stays_as_it_is_and_says_why(
    tmp_path: Path, open_app: OpenApp
) -> None:
    nodes = [replace(each, module="", module_type="") for each in graph_nodes(2)]
    path = tmp_path / "plain.fxs"
    with SessionWriter(path) as writer:
        write_graph(writer, nodes)
    async with open_app(path) as driver:
        pane = await graph_pane(driver)
        await driver.press("minus")
        assert pane.modules is None
        assert "torch recorded no module for the nodes of this graph" in messages(driver)
        assert not pane.is_folding


async def test_the_key_says_where_it_works(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "minus")
        assert "First go to a pane that shows a graph" in driver.screen
