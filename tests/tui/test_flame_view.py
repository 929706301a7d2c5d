"""These tests check compile time and the roofline on the screen: opened by keys, zoomed, followed,
saved as pictures.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from fx_explorer import model
from fx_explorer.session import SessionWriter
from fx_explorer.tui.controllers.kernel_builds import KernelBuilds
from fx_explorer.tui.panes.around_table import TableChart
from fx_explorer.tui.panes.table_pane import TablePane
from tests.conftest import Captured
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.tui.conftest import Driver, OpenApp

SIZES = with_others([(80, 24)], [(120, 40), (200, 50)])

MANY = 10_000


@pytest.fixture(autouse=True)
def no_builder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevent building: no process prepares for it."""
    monkeypatch.setattr(KernelBuilds, "prepare", lambda self: None)


def chart(driver: Driver) -> list[str]:
    """The rows of the chart as the user sees them."""
    region = driver.explorer.table.query_one(TableChart).content_region
    return [
        row[region.x : region.right] for row in driver.screen.splitlines()[region.y : region.bottom]
    ]


def row(driver: Driver) -> str:
    """The text of the row under the cursor."""
    rows = driver.explorer.table.rows
    return str(rows.line_text(rows.cursor))


async def go_to(driver: Driver, words: str) -> None:
    """Put the cursor on the first row with these words."""
    table: TablePane = driver.explorer.table
    await driver.until(lambda: table.rows.line_count > 0)
    at = next(
        number for number in range(table.rows.line_count) if words in table.rows.line_text(number)
    )
    table.rows.user_moves_to(at)
    await driver.settle()


@pytest.mark.parametrize("size", SIZES)
async def test_compile_time_begins_with_the_answer_above_chart_and_tree(
    open_app: OpenApp, captured: Captured, size: tuple[int, int]
) -> None:
    async with open_app(captured("mlp"), size=size) as driver:
        await driver.press("v", "w")
        await driver.until(lambda: "in all; highest own time:" in driver.screen)
        pane = driver.explorer.table
        assert [
            widget for widget in pane.children if widget.display and not widget.content_size.height
        ] == []
        assert pane.rows.body_height >= 3
        assert "▏compiling" in chart(driver)[0]
        assert {"▲", "compiling,"} <= set(chart(driver)[-1].split())
        assert row(driver).startswith("compiling")


async def test_enter_opens_a_row_and_escape_leaves_it_again(
    open_app: OpenApp, captured: Captured
) -> None:
    async with open_app(captured("mlp"), size=(120, 40)) as driver:
        await driver.press("v", "w")
        await go_to(driver, "tracing your Python code")
        whole = driver.explorer.table.rows.line_count
        await driver.press("enter")
        assert "▏tracing your Python code" in chart(driver)[0]
        assert "▏fc1" in "".join(chart(driver))
        assert "of all. Escape leaves it." in driver.screen
        assert driver.explorer.table.rows.line_count < whole
        await go_to(driver, "fc1")
        await driver.press("enter")
        assert "▏fc1" in chart(driver)[0]
        await driver.press("escape")
        assert "▏tracing your Python code" in chart(driver)[0]
        assert row(driver).strip().startswith("fc1"), "the cursor is where it was"
        await driver.press("escape")
        assert "▏compiling" in chart(driver)[0]
        assert driver.explorer.table.rows.line_count == whole
        assert row(driver).strip().startswith("tracing your Python code")


async def test_enter_on_a_line_goes_to_the_source(open_app: OpenApp, captured: Captured) -> None:
    async with open_app(captured("mlp"), size=(160, 40)) as driver:
        await driver.press("v", "w")
        await go_to(driver, "mlp.py:15")
        await driver.press("enter")
        await driver.until(lambda: driver.explorer.view == "source")
        assert driver.explorer.linked.active.place.line == 14, "counted from 0"


@in_exhaustive_runs
async def test_a_click_on_a_block_goes_to_its_row(open_app: OpenApp, captured: Captured) -> None:
    async with open_app(captured("mlp"), size=(120, 40)) as driver:
        await driver.press("v", "w")
        await driver.until(lambda: "▏Dynamo" in driver.screen)
        y = next(number for number, line in enumerate(chart(driver)) if "▏Dynamo" in line)
        widget = driver.explorer.table.query_one(TableChart)
        await driver.pilot.click(
            TableChart, offset=(5 + widget.content_region.x - widget.region.x, y)
        )
        await driver.settle()
        assert row(driver).strip().startswith("Dynamo")


@in_exhaustive_runs
async def test_what_is_open_stays_open_while_the_session_grows_and_is_new_when_it_is_left(
    open_app: OpenApp, captured: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "growing.fxs"
    path.write_bytes(captured("mlp").read_bytes())
    async with open_app(path, size=(120, 40)) as driver:
        await driver.press("v", "w")
        await go_to(driver, "tracing your Python code")
        await driver.press("enter")
        with SessionWriter(path) as writer:
            writer.add(model.Span(0, 1, "news of torch's", None, 900.0, 90.0))
        driver.explorer.refresh_session()
        await driver.settle()
        assert "▏tracing your Python code" in chart(driver)[0]
        await driver.press("escape")
        await driver.until(lambda: "news of torch's" in driver.screen)


@pytest.mark.parametrize(
    ("keys", "inside"),
    with_others([(("v", "w"), "tracing your Python code")], [(("v", "k"), "operations a byte")]),
)
async def test_a_key_writes_the_picture_of_the_view(
    open_app: OpenApp, captured: Captured, tmp_path: Path, keys: tuple[str, str], inside: str
) -> None:
    target = tmp_path / "picture.svg"
    async with open_app(captured("mlp", gpu="h100"), size=(120, 40)) as driver:
        await driver.press(*keys)
        await driver.until(lambda: driver.explorer.table.rows.line_count > 0)
        await driver.press("Y", "s", "ctrl+u")
        await driver.paste(str(target))
        await driver.press("enter")
        await driver.until(target.exists)
    drawn = target.read_text()
    assert inside in drawn
    assert ElementTree.fromstring(drawn).tag.endswith("svg")


async def test_a_view_without_a_picture_says_which_have_one(
    open_app: OpenApp, captured: Captured
) -> None:
    async with open_app(captured("mlp"), size=(120, 40)) as driver:
        await driver.press("3", "Y", "s")
        await driver.until(lambda: "This view has no picture." in driver.screen)


@pytest.mark.parametrize("size", SIZES)
async def test_the_roofline_marks_the_kernel_under_the_cursor_and_enter_goes_to_its_code(
    open_app: OpenApp, captured: Captured, size: tuple[int, int]
) -> None:
    async with open_app(captured("mlp", gpu="h100"), size=size) as driver:
        await driver.press("v", "k")
        await driver.until(lambda: "operations a byte" in driver.screen)
        pane = driver.explorer.table
        if size[1] > 30:  # a lower terminal shows the answer alone above the rows
            assert "NVIDIA H100 SXM 80 GB (data sheet)" in driver.screen
        assert pane.rows.body_height >= 2
        assert "○" in "".join(chart(driver))
        kernel = row(driver).split()[0]
        await driver.press("enter")
        await driver.until(lambda: driver.explorer.view == "source")
        assert kernel.split(".")[-1] in driver.screen


async def test_without_a_roof_the_view_says_what_to_measure(
    open_app: OpenApp, captured: Captured
) -> None:
    async with open_app(captured("mlp"), size=(80, 24)) as driver:
        await driver.press("v", "k")
        await driver.until(lambda: "No roof yet: measure a call (x c)" in driver.screen)
        assert not driver.explorer.table.query_one(TableChart).display


def many_phases(path: Path) -> None:
    """A function with ten thousand phases: a hundred, with a hundred in each."""
    with SessionWriter(path) as writer:
        compilation = writer.add(
            model.Compilation(0, "0/0", 0, 0, "Net.forward", "/p/net.py", 1, status="ok")
        )
        spans = [
            model.Span(
                0, compilation, f"phase {outer}.{inner}", None, outer + inner / 100, 0.009, 1
            )
            for outer in range(MANY // 100)
            for inner in range(1, 100)
        ]
        writer.add_all(
            [
                *(
                    model.Span(0, compilation, f"phase {outer}", None, float(outer), 1.0)
                    for outer in range(MANY // 100)
                ),
                *spans,
            ]
        )
        writer.set_meta("outcome", model.Outcome("finished").to_json())


async def test_a_move_of_the_cursor_paints_only_the_lines_of_the_chart_that_differ(
    open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_phases(tmp_path / "many.fxs")
    async with open_app(tmp_path / "many.fxs", size=(200, 50)) as driver:
        await driver.press("v", "w")
        await driver.until(lambda: driver.explorer.table.rows.line_count > MANY)
        await driver.settle()
        painted: list[int] = []
        paint = TableChart.render_line
        monkeypatch.setattr(
            TableChart, "render_line", lambda self, y: painted.append(y) or paint(self, y)
        )
        before = chart(driver)
        await driver.press("down")
        after = chart(driver)
        differs = {
            y for y, (one, other) in enumerate(zip(before, after, strict=True)) if one != other
        }
        assert differs <= set(painted) < set(range(len(after)))


@in_exhaustive_runs
async def test_ten_thousand_phases_can_be_walked_and_opened(
    open_app: OpenApp, tmp_path: Path
) -> None:
    many_phases(tmp_path / "many.fxs")
    async with open_app(tmp_path / "many.fxs", size=(200, 50)) as driver:
        await driver.press("v", "w")
        await driver.until(lambda: driver.explorer.table.rows.line_count > MANY)
        await driver.until(lambda: len(chart(driver)) > 2)
        assert chart(driver)[2].count("▏") == MANY // 100, chart(driver)
        await driver.press("end")
        await driver.until(lambda: "phase 99.99" in chart(driver)[-1])
        await go_to(driver, "phase 50 ")
        await driver.press("enter")
        assert "▏phase 50" in chart(driver)[0]
        assert driver.explorer.table.rows.line_count == 100
