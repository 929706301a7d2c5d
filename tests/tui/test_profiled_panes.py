"""These tests check times of a profile in the panes: a column of graphs that rows are sorted by, a
gutter of generated code and of graphs as texts.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.documents import document_of, node_at, text_of
from fx_explorer.instruments.profile.figures import (
    IS_PART,
    GraphTimes,
    ProfiledPlaces,
    graph_times,
    profile_figures,
    profiled_places,
)
from fx_explorer.session.queries.nodes import first_operation
from fx_explorer.tui.panes import kernel_marks as shown_marks
from fx_explorer.tui.panes import pane_text as panes
from fx_explorer.tui.panes.pane import Pane
from fx_explorer.tui.widgets.code_view import CodeView
from fx_explorer.tui.widgets.row_list import RowList
from tests.conftest import Captured
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.profiles import profiled_session
from tests.tui.conftest import Driver, OpenApp


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return profiled_session("gpt2", tmp_path_factory.mktemp("profiled"))


def titles(pane: Pane) -> list[str]:
    assert isinstance(pane.body, RowList)
    return ["".join(text for text, _ in pane.body.header_tokens())]


def node_under(driver: Driver, pane: Pane) -> model.Node:
    assert pane.place
    node = node_at(driver.explorer.reader, pane.place)
    assert node
    return node


def places_of(driver: Driver) -> ProfiledPlaces:
    found = profiled_places(driver.explorer.reader)
    assert found
    return found


def times_of(driver: Driver, pane: Pane) -> GraphTimes:
    assert pane.document
    graph = driver.explorer.reader.get(model.Graph, pane.document.id)
    return graph_times(driver.explorer.reader, graph, places_of(driver))


async def graph_pane(driver: Driver) -> Pane:
    """Go to the first operation of the forward graph, whose column is there."""
    await driver.press("2", "tab")
    pane: Pane = driver.panes[1]
    await driver.until(lambda: "profiled" in titles(pane)[0])
    assert pane.document
    pane.move_to(first_operation(driver.explorer.reader, pane.document.id))
    return pane


async def test_a_graph_has_a_column_whose_sum_is_in_its_title(
    gpt2: Path, open_app: OpenApp
) -> None:
    async with open_app(gpt2, size=(240, 50)) as driver:
        pane = await graph_pane(driver)
        figures = profile_figures(driver.explorer.reader)
        assert figures
        assert pane.document
        graph = driver.explorer.reader.get(model.Graph, pane.document.id)
        of_graph = [one for one in figures.nodes if one.node.graph == graph.id]
        assert f"profiled {times_of(driver, pane).whole.description}" in driver.screen
        assert sum(one.seconds for one in of_graph) == pytest.approx(
            times_of(driver, pane).whole.seconds
        )
        most_expensive = of_graph[0]
        pane.move_to(most_expensive.node.position)
        await driver.settle()
        assert isinstance(pane.body, RowList)
        sign = "÷ " if most_expensive.among > 1 else ""
        assert f"  {sign}{most_expensive.seconds * 1e6:.3g} µs  " in pane.body.line_text(
            pane.body.cursor
        )


async def test_the_sort_key_puts_the_most_expensive_first_and_takes_it_back_on_the_same_node(
    gpt2: Path, open_app: OpenApp
) -> None:
    async with open_app(gpt2) as driver:
        pane = await graph_pane(driver)
        times = times_of(driver, pane)
        rows = pane.body.line_count
        await driver.press("less_than_sign")
        assert "profiled ▼" in titles(pane)[0]
        assert times.seconds[node_under(driver, pane).position] == max(times.seconds)
        shown = []
        for _ in range(40):
            shown.append(times.seconds[node_under(driver, pane).position])
            await driver.pilot.press("down")
        assert shown == sorted(times.seconds, reverse=True)[:40]
        await driver.settle()
        node = node_under(driver, pane)
        await driver.press("less_than_sign")
        assert "▼" not in titles(pane)[0]
        assert node_under(driver, pane) == node
        assert pane.body.line_count == rows, "the inputs are folded again"


async def test_all_facts_of_a_node_have_its_time_and_what_its_sign_means(
    gpt2: Path, open_app: OpenApp
) -> None:
    async with open_app(gpt2, size=(160, 50)) as driver:
        pane = await graph_pane(driver)
        times = times_of(driver, pane)
        shared = next(
            at
            for at in range(len(times.seconds))
            if times.signs[at] == IS_PART and times.seconds[at]
        )
        for at in (shared, list(times.seconds).index(0.0)):
            pane.move_to(at)
            await driver.settle()
            time = times.at(node_under(driver, pane).position)
            await driver.press("i")
            lines = driver.screen.splitlines()
            first, *found = [
                at for at, line in enumerate(lines) if "▸name " in line or " profile " in line
            ]
            assert bool(found) == bool(time)
            if time:
                assert f"{time.description} in the profile" in lines[found[0]]
                await driver.press(*["down"] * (found[0] - first))
                assert (
                    "an equal part of a kernel that also computes other operations" in driver.screen
                )
            await driver.press("escape")


@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40)]))
async def test_a_long_fact_is_wrapped_and_whole(
    gpt2: Path, open_app: OpenApp, size: tuple[int, int]
) -> None:
    whole = "a view, a getitem or similar: it computes nothing, so no kernel is made for it"
    async with open_app(gpt2, size=size) as driver:
        pane = await graph_pane(driver)
        reader = driver.explorer.reader
        assert pane.document
        nodes = reader.nodes(reader.get(model.Graph, pane.document.id))
        pane.move_to(next(node.position for node in nodes if node.is_view and node.module))
        await driver.settle()
        await driver.press("i")
        assert whole in " ".join(driver.screen.replace("│", " ").split())


@in_exhaustive_runs
async def test_links_of_a_sorted_graph_lead_to_and_from_the_right_nodes(
    gpt2: Path, open_app: OpenApp
) -> None:
    async with open_app(gpt2) as driver:
        pane = await graph_pane(driver)
        await driver.press("less_than_sign", "down", "down")
        reader, code = driver.explorer.reader, driver.panes[2]
        node = node_under(driver, pane)
        calls = {
            row.line - 1
            for row in reader.rows(model.LineNode, node=node.id)
            if row.artifact == code.document.id and row.line
        }
        assert calls
        assert calls <= code.lit
        await driver.press("tab")
        assert driver.explorer.linked.active is code
        code.move_to(min(calls) + 1)
        await driver.press("up")
        assert node.position in pane.lit
        assert isinstance(pane.body, RowList)
        lit = [pane.body.line_text(row) for row in pane.body.marks]
        assert any(f"  {node.name}  " in f"  {text}  " for text in lit)
        assert len(lit) == len(pane.lit)


@in_exhaustive_runs
async def test_a_click_on_the_heading_sorts_and_other_headings_do_not(
    gpt2: Path, open_app: OpenApp
) -> None:
    async with open_app(gpt2) as driver:
        pane = await graph_pane(driver)
        at = titles(pane)[0].index("profiled") + pane.body.region.x + 3
        await driver.pilot.click(offset=(pane.body.region.x + 8, pane.body.region.y))
        await driver.settle()
        assert "▼" not in titles(pane)[0]
        await driver.pilot.click(offset=(at, pane.body.region.y))
        await driver.settle()
        assert "profiled ▼" in titles(pane)[0]


@in_exhaustive_runs
async def test_a_large_graph_is_read_and_sorted_beside_the_screen(
    gpt2: Path, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown_marks, "NODES_AT_ONCE", 10)
    monkeypatch.setattr(panes, "SORTED_AT_ONCE", 10)
    async with open_app(gpt2) as driver:
        pane = await graph_pane(driver)
        node = node_under(driver, pane)
        await driver.press("less_than_sign")
        await driver.until(lambda: "profiled ▼" in titles(pane)[0])
        seconds = times_of(driver, pane).seconds
        assert seconds[node_under(driver, pane).position] == max(seconds)
        pane.move_to(node.position)
        await driver.press("less_than_sign")
        assert node_under(driver, pane) == node


@in_exhaustive_runs
async def test_hidden_marks_hide_the_times_and_the_order_stays(
    gpt2: Path, open_app: OpenApp
) -> None:
    async with open_app(gpt2) as driver:
        pane = await graph_pane(driver)
        await driver.press("less_than_sign", "p", "h")
        assert "profiled" not in titles(pane)[0]
        await driver.press("p", "h")
        assert "profiled ▼" in titles(pane)[0]


@in_exhaustive_runs
async def test_another_graph_stands_in_its_own_order(gpt2: Path, open_app: OpenApp) -> None:
    async with open_app(gpt2) as driver:
        pane = await graph_pane(driver)
        await driver.press("less_than_sign")
        (backward,) = driver.explorer.reader.rows(
            model.Graph, compilation=pane.document.compilation, direction="backward"
        )  # type: ignore[union-attr]
        driver.explorer.linked_selection.show_document(
            pane, document_of(driver.explorer.reader, "graph", backward.id)
        )
        await driver.settle()
        assert "profiled" in titles(pane)[0]
        assert "▼" not in titles(pane)[0]


def gutter(pane: Pane, line: int) -> str:
    assert isinstance(pane.body, CodeView)
    return "".join(text for text, _ in pane.body.gutter_tokens(line)).split(maxsplit=1)[-1].strip()


async def test_output_code_has_the_time_of_each_call_and_the_sum_where_a_kernel_is_defined(
    gpt2: Path, open_app: OpenApp
) -> None:
    async with open_app(gpt2) as driver:
        await graph_pane(driver)
        code = driver.panes[2]
        document = driver.explorer.reader.rows(
            model.Artifact, kind="output_code", direction="backward"
        )[-1]
        driver.explorer.linked_selection.show_document(
            code, document_of(driver.explorer.reader, "artifact", document.id)
        )
        await driver.settle()
        places, lines = (
            places_of(driver),
            text_of(driver.explorer.reader, code.document).split("\n"),
        )
        calls, definitions = places.calls[document.id], places.definitions[document.id]
        assert len(calls) > 40
        for line, time in calls.items():
            assert gutter(code, line) == time.description
            assert (
                ".run(" in lines[line] or "extern_kernels." in lines[line] or "aten." in lines[line]
            )
        for line, time in definitions.items():
            assert gutter(code, line) == f"Σ {time.description}"
            assert "async_compile" in "".join(lines[max(0, line - 2) : line + 2])
        assert f"profiled {places.output_codes[document.id].description}" in code._title.text


async def test_a_kernel_has_its_time_at_its_function_and_in_its_title(
    gpt2: Path, open_app: OpenApp
) -> None:
    async with open_app(gpt2) as driver:
        await graph_pane(driver)
        reader, pane = driver.explorer.reader, driver.panes[2]
        places = places_of(driver)
        kernel = next(
            one for one in reader.rows(model.Kernel) if one.artifact and one.id in places.kernels
        )
        driver.explorer.linked_selection.show_document(
            pane, document_of(reader, "artifact", kernel.artifact)
        )
        await driver.settle()
        told = places.kernels[kernel.id].description
        assert f"profiled {told}" in pane._title.text
        assert isinstance(pane.body, CodeView)
        rows = range(pane.body.line_count)
        with_time = [
            row for row in rows if told in "".join(text for text, _ in pane.body.gutter_tokens(row))
        ]
        assert [pane.body.line_text(row).partition("(")[0] for row in with_time] == [
            f"def {kernel.name}"
        ]


async def test_a_graph_as_code_has_the_times_before_its_lines(
    gpt2: Path, open_app: OpenApp
) -> None:
    async with open_app(gpt2) as driver:
        pane = await graph_pane(driver)
        node = node_under(driver, pane)
        for _ in ("as Python", "as a table"):
            await driver.press("p", "c")
            assert isinstance(pane.body, CodeView)
            assert node_under(driver, pane) == node
            time = times_of(driver, pane).of_node(node.id)
            assert time
            assert gutter(pane, pane.body.cursor) == time.description
        await driver.press("less_than_sign")
        assert "Tables can be sorted" in driver.screen


async def test_without_a_profile_nothing_is_shown_and_the_key_says_why(
    captured: Captured, open_app: OpenApp
) -> None:
    async with open_app(captured("mlp")) as driver:
        await driver.press("2", "tab")
        assert "profiled" not in driver.screen
        await driver.press("less_than_sign")
        assert "Tables can be sorted" in driver.screen
        assert "▼" not in titles(driver.panes[1])[0]
