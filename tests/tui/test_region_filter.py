"""These tests check graphs filtered to one region: which nodes are shown, which stay linked, and
how everything comes back.

The nodes expected of a region are those whose user line stands in its ``with annotate`` block of
the sample.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_node
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.tui.content.shown_lines import ShownLines
from tests.conftest import SAMPLES, Captured
from tests.exhaustive import in_exhaustive_runs
from tests.sessions import write_training_step
from tests.tui.conftest import Driver, OpenApp
from tests.tui.test_stepping import messages


@pytest.fixture
def session(captured: Captured) -> Path:
    return captured("regions")


def lines_of_block(region: str) -> range:
    """Lines (from 1) of the sample that stand in the region's block."""
    source = (SAMPLES / "regions.py").read_text().splitlines()
    first = next(i for i, text in enumerate(source) if f'"{region}"' in text and "annotate" in text)
    indent = len(source[first]) - len(source[first].lstrip())
    last = next(
        i
        for i in range(first + 1, len(source))
        if len(source[i]) - len(source[i].lstrip()) <= indent
    )
    return range(first + 2, last + 1)


def nodes_of(
    path: Path, stage: model.Stage, region: str, direction: model.Direction = ""
) -> list[model.Node]:
    """Return the nodes in the region, by Python's own line numbers."""
    with SessionReader(path) as reader:
        (graph,) = reader.rows(model.Graph, stage=stage, direction=direction)
        return [n for n in reader.nodes(graph) if n.line in lines_of_block(region)]


def first_call(path: Path, region: str) -> model.Node:
    return next(node for node in nodes_of(path, "dynamo", region) if node.op.startswith("call_"))


def names(driver: Driver, pane: int) -> list[str]:
    """The names of the nodes that a pane has rows for: an input's cell begins with the user's name."""
    shown = driver.panes[pane]
    lines = [shown._shown.line_of(row) for row in range(shown.body.line_count)]
    graph = driver.explorer.reader.get(model.Graph, shown.document.id)
    nodes = driver.explorer.reader.nodes(graph)
    return [nodes[line].name for line in lines]


async def show_dynamo_graph(driver: Driver) -> None:
    """In the middle pane, with the focus and with its inputs unfolded."""
    await driver.press("2", "tab", "p", "d", *"dynamo graph", "enter")
    driver.panes[1].unfold()


async def test_one_key_shows_the_nodes_of_the_region_under_the_cursor_and_again_all(
    session: Path, open_app: OpenApp
) -> None:
    expected = [node.name for node in nodes_of(session, "dynamo", "attention")]
    async with open_app(session) as driver:
        await show_dynamo_graph(driver)
        pane = driver.panes[1]
        everything = pane.body.line_count
        first = nodes_of(session, "dynamo", "attention")[0]
        await driver.press("g", *["j"] * first.position, "p", "r")
        assert names(driver, 1) == expected
        assert re.search(
            rf"only attention  (▌\d+  )?1/{len(expected)} of {everything}", pane.position.plain
        )
        assert pane.position.plain in driver.screen
        assert pane.place.line == first.position
        await driver.press("p", "r")
        pane.unfold()
        assert pane.body.line_count == everything
        assert pane.place.line == first.position
        assert "only attention" not in driver.screen


async def test_a_narrowed_graph_is_linked_found_in_and_copied_as_before(
    session: Path, open_app: OpenApp
) -> None:
    async with open_app(session) as driver:
        await show_dynamo_graph(driver)
        inside = nodes_of(session, "dynamo", "mlp")
        await driver.press("g", *["j"] * inside[0].position, "p", "r", "j")
        source, graph, _ = driver.panes
        assert graph.place.line == inside[1].position
        assert source.body.marks == {inside[1].line - 1}
        with SessionReader(session) as reader:
            assert driver.explorer.linked_selection.selection == place_of_node(reader, inside[1])
        assert inside[1].name in graph.body.text_to_copy()
        await driver.press("slash", *inside[-1].name, "enter")
        assert graph.place.line == inside[-1].position
        await driver.press("slash", *"layer_norm", "enter")
        assert list(graph.body.matches) == []


@in_exhaustive_runs
async def test_every_graph_is_narrowed_also_the_one_a_pane_turns_to(
    session: Path, open_app: OpenApp
) -> None:
    async with open_app(session) as driver:
        await show_dynamo_graph(driver)
        first = nodes_of(session, "dynamo", "mlp")[0]
        await driver.press("g", *["j"] * first.position, "p", "r", "p", "b")
        for pane, direction in ((0, "forward"), (1, "backward")):
            with SessionReader(session) as reader:
                (graph,) = reader.rows(model.Graph, stage="post_grad", direction=direction)
                expected = [n.name for n in reader.nodes(graph) if "mlp" in str(n.annotations)]
            assert names(driver, pane) == expected
            assert expected


@in_exhaustive_runs
async def test_going_to_a_hidden_node_shows_everything_again(
    session: Path, open_app: OpenApp
) -> None:
    async with open_app(session) as driver:
        await show_dynamo_graph(driver)
        await driver.press("g", *["j"] * first_call(session, "mlp").position, "p", "r")
        await driver.press("f", *"tanh", "enter")
        assert "Showing every node again: this one is not in mlp" in messages(driver)
        assert driver.explorer.linked_selection.region is None


async def test_links_into_what_is_hidden_are_counted(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as driver:
        await driver.press("v", "r", "j", "p", "r")
        source, graph, _ = driver.panes
        norm = next(
            i
            for i, text in enumerate((SAMPLES / "regions.py").read_text().splitlines())
            if "self.norm(x)" in text
        )
        await driver.press("p", "s", "g", *["j"] * norm)
        assert source.place.line == norm
        assert graph.body.marks == frozenset()
        assert re.match(r"only mlp  ▌0 of \d+  ", graph.position.plain)


@in_exhaustive_runs
async def test_the_regions_view_narrows_to_its_row_and_leads_to_the_first_node(
    session: Path, open_app: OpenApp
) -> None:
    async with open_app(session) as driver:
        await driver.press("v", "r", "j", "p", "r")
        assert driver.explorer.linked_selection.region == ("compile_with_inductor", "mlp")
        await driver.press("p", "r", "v", "r", "enter")
        place = driver.explorer.place
        assert (place.document.stage, place.line) == ("dynamo", first_call(session, "mlp").position)


@in_exhaustive_runs
async def test_with_no_region_under_the_cursor_one_is_chosen(
    session: Path, open_app: OpenApp
) -> None:
    async with open_app(session) as driver:
        await driver.press("2", "g", "p", "r")
        assert "Show only the nodes of" in driver.screen
        await driver.press(*"mlp", "enter")
        assert driver.explorer.linked_selection.region == ("compile_with_inductor", "mlp")


async def test_without_regions_it_is_said_how_to_have_some(
    captured: Captured, open_app: OpenApp
) -> None:
    async with open_app(captured("mlp")) as driver:
        await driver.press("2", "p", "r")
        assert "No node is in a region. Mark some nodes (c m)" in messages(driver)


@in_exhaustive_runs
async def test_a_pane_turns_to_the_graph_that_has_the_region(
    captured: Captured, open_app: OpenApp
) -> None:
    """Compiled on its own, each region has a post-grad graph of its own."""
    path = captured("regions", backend="regional_inductor")
    async with open_app(path) as driver:
        await driver.press("p", "b")
        for region in ("attention", "mlp"):
            await driver.press("v", "r", "g", *["j"] * (region == "mlp"), "p", "r")
            for pane in driver.panes:
                assert pane.document.stage == "post_grad"
                assert pane.body.line_count > 0
            await driver.press("p", "r")


async def test_a_region_of_another_variant_is_gone_to(tmp_path: Path, open_app: OpenApp) -> None:
    """Marked by hand when all was compiled, it is in the graphs of that variant alone."""
    path = tmp_path / "s.fxs"
    write_training_step(path)
    region: dict[str, object] = {"compile_with_inductor": {"inductor_region": "mlp"}}
    with SessionReader(path) as reader, SessionWriter(path) as writer:
        (first,) = reader.rows(model.Compilation)
        (before,) = reader.rows(model.Graph, stage="dynamo")
        variant = writer.add(
            replace(
                first, id=0, name="0/0~1", variant_of="0/0", variant_from="dynamo", in_use=False
            )
        )
        nodes = [
            replace(n, annotations=region if n.name == "gelu" else None)
            for n in reader.nodes(before)
        ]
        after = writer.add_graph(replace(before, id=0, compilation=variant), nodes, [])
        writer.add(model.Intervention(0, variant, "dynamo", "", "mark", "mlp", before.id, after.id))
    async with open_app(path) as driver:
        assert "✓ Dynamo 1 graph" in driver.screen
        await driver.press("v", "r", "p", "r")
        assert driver.explorer.place.document.owner == "0/0~1"
        assert "only mlp" in driver.screen
        assert names(driver, 1) == ["gelu"]


def test_hidden_lines_have_no_row_and_the_cursor_goes_to_the_next_shown_one() -> None:
    shown = ShownLines([2, 5, 9])
    assert shown.rows_of(frozenset({1, 5, 9})) == {1, 2}
    assert [shown.row_of(line) for line in (0, 2, 3, 9, 12)] == [0, 0, 1, 2, 2]
    assert shown.line_of(1) == 5
    assert ShownLines([]).row_of(4) == 0
