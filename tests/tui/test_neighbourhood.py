"""These tests check the picture of the nodes around a node: boxes that do not overlap, frames that
hold the nodes they name, keys that walk.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from rich.cells import cell_len

from fx_explorer.cut_text import cut_in_middle
from fx_explorer.session import SessionReader
from fx_explorer.tui.panes.neighbourhood import drawn
from fx_explorer.tui.panes.neighbourhood_layout import Box, laid_out, neighbourhood
from tests.analysis.neighbourhood.graphs import random_graph, write_graph
from tests.exhaustive import in_exhaustive_runs, rounds, with_others
from tests.sessions import Hand
from tests.tui.conftest import OpenApp


def overlap(one: Box, other: Box) -> bool:
    is_beside = one.x + one.width <= other.x or other.x + other.width <= one.x
    return not is_beside and one.y < other.y + other.height and other.y < one.y + one.height


def inside(box: Box, frame: Box) -> bool:
    return frame.holds(box.x, box.y) and frame.holds(box.x + box.width - 1, box.y + box.height - 1)


@pytest.mark.parametrize("seed", range(rounds(10, exhaustive=30)))
def test_boxes_do_not_overlap_and_a_frame_holds_what_its_kernel_fuses_and_nothing_else(
    tmp_path: Path, seed: int
) -> None:
    written = random_graph(tmp_path / "random.fxs", seed)
    with SessionReader(written.path) as reader:
        for position in (0, written.graph.node_count // 2, written.graph.node_count - 1):
            found = neighbourhood(reader, written.id_of(position))
            picture = laid_out(found, 100)
            assert {key[1] for key in picture.boxes if key[0] == "node"} == set(found.nodes)
            assert not [pair for pair in combinations(picture.boxes.values(), 2) if overlap(*pair)]
            assert not [pair for pair in combinations(picture.frames.values(), 2) if overlap(*pair)]
            for kernel, frame in picture.frames.items():
                within = {key[1] for key, box in picture.boxes.items() if overlap(box, frame)}
                assert within == {node for node, row in found.kernels.items() if row.id == kernel}
                assert all(inside(picture.boxes["node", node], frame) for node in within)


@pytest.mark.parametrize("seed", range(10))
def test_producers_stand_left_of_what_uses_them_and_every_edge_is_a_way_of_lines(
    tmp_path: Path, seed: int
) -> None:
    written = random_graph(tmp_path / "random.fxs", seed)
    with SessionReader(written.path) as reader:
        found = neighbourhood(reader, written.id_of(written.graph.node_count // 2))
    picture = laid_out(found, 100)
    following: dict[object, list[object]] = {}
    for one, other, turn in picture.lines:
        following.setdefault(one, []).append(other)
        assert picture.place(one).x + picture.place(one).width <= turn < picture.place(other).x
    for producer, consumer in found.edges:
        reached = [("node", producer)]
        for key in reached:
            reached += [
                other for other in following.get(key, ()) if key == reached[0] or key[0] == "way"
            ]  # type: ignore[misc]
        assert ("node", consumer) in reached


def test_every_box_and_every_title_is_drawn(tmp_path: Path) -> None:
    written = write_graph(
        tmp_path / "a.fxs", 5, [(0, 2), (1, 2), (2, 3), (2, 4)], {"triton_add_0": [2, 3]}
    )
    with SessionReader(written.path) as reader:
        found = neighbourhood(reader, written.id_of(2))
    picture = laid_out(found, 120)
    canvas = drawn(found, picture, ("node", written.id_of(2)))
    rows = ["".join(text for text, _ in canvas.row(y)) for y in range(picture.height)]
    text = "\n".join(rows)
    assert all(
        name in text for name in ("n0", "n1", "n2", "n3", "n4", "triton_add_0 · 2 operations")
    )
    assert text.count("▸") == 3, "at the two users, and one where two lines come together"
    assert text.count("┏") == 1


def test_wide_characters_and_long_names_keep_the_boxes_straight(tmp_path: Path) -> None:
    assert cut_in_middle("abcdefghij", 7) == "abc…hij"
    assert cut_in_middle("層正規化の結果", 6).count("…") == 1
    written = write_graph(tmp_path / "a.fxs", 2, [(0, 1)])
    with SessionReader(written.path) as reader:
        found = neighbourhood(reader, written.id_of(0))
    for name in ("層正規化" * 20, "e\u0301" * 9, "n" * 300, "نص"):
        found.names.update({written.id_of(0): name})  # type: ignore[attr-defined]
        picture = laid_out(found, 60)
        canvas = drawn(found, picture, ("node", written.id_of(0)))
        borders = {
            cell_len("".join(text for text, _ in canvas.row(y))) for y in range(picture.height)
        }
        assert len(borders) == 1, name


async def test_a_key_draws_the_node_under_the_cursor_and_the_others_follow_the_picture(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path, size=(200, 50)) as driver:
        await driver.press("2", "tab", "p", "n")
        picture, source, kernel = driver.panes
        name = picture.picture.neighbourhood.centre.name
        assert name in driver.screen
        assert "┏" in driver.screen
        before = set(kernel.lit)
        await driver.press("l")
        assert driver.explorer.linked_selection.selection == picture.place
        assert picture.picture.neighbourhood.centre.name == name, "only the cursor went on"
        assert picture.place.line != picture.picture.centre
        assert source.lit or kernel.lit != before


async def test_enter_walks_to_the_box_and_back_returns(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path, size=(200, 50)) as driver:
        await driver.press("2", "tab", "p", "n")
        pane = driver.panes[0]
        first = pane.picture.centre
        await driver.press("l")
        there = pane.place.line
        await driver.press("enter")
        assert pane.picture.centre == there != first
        await driver.press("b")
        assert pane.picture.centre == first


async def test_a_line_of_the_source_brings_its_node_into_the_picture(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path, size=(200, 50)) as driver:
        await driver.press("2", "tab", "p", "n")
        pane, source = driver.panes[:2]
        driver.explorer.linked.activate(source)
        source.body.user_moves_to(7)  # line 8: addmm_1
        await driver.settle()
        assert (
            driver.explorer.reader.nodes(pane.picture._graph)[pane.picture.position].name
            == "addmm_1"
        )


async def test_a_node_with_a_thousand_users_says_how_many_more_there_are_and_shows_some_on_enter(
    tmp_path: Path, open_app: OpenApp
) -> None:
    written = write_graph(tmp_path / "many.fxs", 1001, [(0, at) for at in range(1, 1001)])
    async with open_app(written.path, size=(120, 40)) as driver:
        await driver.press("2")
        pane = next(pane for pane in driver.panes if pane.slot == "graph")
        driver.explorer.linked.activate(pane)
        await driver.press("g", "p", "n")
        view = driver.panes[0].picture
        assert view.neighbourhood.centre.name == "n0"
        await driver.press("l", "G")
        assert "and 990 more" in driver.screen
        await driver.press("enter")
        assert view.neighbourhood.more == {1: 980}
        assert "and 980 more" in driver.screen


@pytest.mark.parametrize("size", with_others([(20, 5)], [(80, 24)]))
async def test_the_box_under_the_cursor_is_seen_in_small_terminals(
    hand: Hand, open_app: OpenApp, size: tuple[int, int]
) -> None:
    async with open_app(hand.path, size=size) as driver:
        await driver.press("2", "tab", "p", "n")
        view = driver.panes[0].picture
        await driver.press("l")
        box = view._box
        left, top = view.scroll_offset
        assert left <= box.x < left + max(1, view.body_width)
        assert not view.body_height or top <= box.middle < top + view.body_height


@in_exhaustive_runs
async def test_a_click_goes_to_a_box(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path, size=(200, 50)) as driver:
        await driver.press("2", "tab", "p", "n")
        view = driver.panes[0].picture
        key, box = next((key, box) for key, box in view._picture.boxes.items() if key != view._at)
        x, y = box.x + 1 - view.scroll_offset.x + view._margin, box.y + 1 - view.scroll_offset.y
        await driver.pilot.click(view, offset=(x, y))
        await driver.settle()
        assert view._at == key


@in_exhaustive_runs
async def test_help_and_footer_speak_of_the_picture(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path, size=(160, 50)) as driver:
        await driver.press("2", "tab", "p", "n")
        assert "⏎ walk there" in driver.screen
        await driver.press("question_mark")
        assert "two steps each way" in driver.screen
