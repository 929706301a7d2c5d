"""These tests check the view of where the time of a call goes. The measurement is injected; its
rows are read from the session.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fx_explorer.errors import UsageError
from fx_explorer.instruments.ledger.trial import Ledger
from fx_explorer.model import CaptureRequest, LedgerOperator, LedgerStep, Outcome
from fx_explorer.session import SessionWriter
from fx_explorer.session.ownership import remember_session
from fx_explorer.tui.controllers.measurements import Measurements
from fx_explorer.tui.panes.around_table import TableChart
from fx_explorer.tui.panes.table_pane import TablePane
from tests.exhaustive import with_others
from tests.ledger.test_ledger_rows import CALL, US
from tests.sessions import write_training_step
from tests.tui.conftest import Driver, OpenApp

STEPS = (
    LedgerStep(0, 1, 0, "entry", "", "0/0", "", 0, "", 0, 60 * US, US),
    LedgerStep(0, 1, 1, "library", "extern_kernels.addmm", "0/0", "forward", 9, "", 0, 38 * US, US),
)

LEDGER = Ledger(
    CALL, STEPS, (LedgerOperator(0, 1, 0, "aten::linear", "forward", "/p/mlp.py", 7, 5 * US),), ()
)


def session_of(tmp_path: Path, ledger: Ledger | None = None, *, as_script: bool = False) -> Path:
    path = tmp_path / "s.fxs"
    write_training_step(path)
    with SessionWriter(path) as writer:
        writer.set_meta(
            "request", dataclasses.asdict(CaptureRequest("mlp.py", "", as_script=as_script))
        )
        writer.set_meta("outcome", Outcome("finished").to_json())
        if ledger:
            writer.add(ledger.call)
            writer.add_all(ledger.steps)
            writer.add_all(ledger.operators)
    remember_session(path)
    return path


@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40), (200, 50)]))
async def test_the_view_begins_with_the_answer_and_goes_down_to_every_step(
    open_app: OpenApp, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with open_app(session_of(tmp_path, LEDGER), size=size) as driver:
        await driver.press("v", "l")
        await driver.until(lambda: "A call of Net takes 100 µs" in driver.screen)
        assert "entering torch.compile" in driver.screen
        await driver.press("end")
        await driver.until(lambda: "extern_kernels.addmm" in driver.screen)


async def test_a_view_without_a_ledger_says_how_to_make_one(
    open_app: OpenApp, tmp_path: Path
) -> None:
    async with open_app(session_of(tmp_path), size=(80, 24)) as driver:
        await driver.press("v", "l")
        await driver.until(lambda: "Press x c: the program is built" in driver.screen)


async def test_a_key_measures_and_the_ledger_comes_into_the_session(
    open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[CaptureRequest] = []

    async def account(request: CaptureRequest, tell: object) -> Ledger:
        asked.append(request)
        return LEDGER

    monkeypatch.setattr(Measurements, "account", staticmethod(account))
    async with open_app(session_of(tmp_path), size=(120, 40)) as driver:
        await driver.press("x", "c")
        await driver.until(lambda: "A call of Net takes 100 µs" in driver.screen)
        assert [request.target for request in asked] == ["mlp.py"]


async def test_why_nothing_was_measured_is_told(
    open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def account(request: CaptureRequest, tell: object) -> Ledger:
        raise UsageError("the program raised: no such file")

    monkeypatch.setattr(Measurements, "account", staticmethod(account))
    async with open_app(session_of(tmp_path), size=(120, 40)) as driver:
        await driver.press("x", "c")
        await driver.until(lambda: "the program raised: no such file" in driver.screen)


async def test_a_script_is_not_called_again(open_app: OpenApp, tmp_path: Path) -> None:
    async with open_app(session_of(tmp_path, as_script=True), size=(120, 40)) as driver:
        await driver.press("x", "c")
        await driver.until(lambda: "A script cannot be called repeatedly" in driver.screen)


SIZES = with_others([(80, 24)], [(120, 40), (200, 50)])

CHART = Ledger(
    CALL,
    (
        LedgerStep(0, 1, 0, "entry", "", "", "", 0, "", 0, 20 * US, US),
        LedgerStep(0, 1, 1, "guards", "", "0/0", "", 0, "", 0, 20 * US, US),
        *(
            LedgerStep(0, 1, 2 + i, "checks", "", "0/0", "forward", 3, "", 0, 0.5 * US, US)
            for i in range(12)
        ),
        LedgerStep(
            0, 1, 14, "library", "extern_kernels.addmm", "0/0", "forward", 9, "", 0, 34 * US, US
        ),
        LedgerStep(0, 1, 15, "buffers", "", "", "", 0, "", 0, 10 * US, US),
    ),
    (),
    (),
)


def chart(driver: Driver) -> list[str]:
    """The rows of the chart as the user sees them, the row that points at the marked blocks last."""
    widget = driver.app.screen.query_one(TableChart)
    region = widget.content_region
    return [
        row[region.x : region.right] for row in driver.screen.splitlines()[region.y : region.bottom]
    ]


def rows_of_steps(driver: Driver) -> int:
    return driver.app.screen.query_one(TablePane).rows.line_count


@pytest.mark.parametrize("size", SIZES)
async def test_the_chart_follows_the_cursor_through_every_row(
    open_app: OpenApp, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with open_app(session_of(tmp_path, CHART), size=size) as driver:
        await driver.press("v", "l")
        await driver.until(lambda: "▏forward" in driver.screen)
        await driver.press("end")
        assert "buffers and views, 10 µs" in chart(driver)[-1]
        await driver.press("up")
        assert "▲" in chart(driver)[-1]
        assert "extern_kernels.addmm, 34 µs" in chart(driver)[-1]
        assert any("▏extern_k" in row for row in chart(driver)), "the level of the step is shown"
        for _ in range(rows_of_steps(driver)):
            await driver.press("up")
            pane = driver.app.screen.query_one(TablePane)
            assert max(map(len, chart(driver))) <= pane.content_size.width
            assert "▲" in chart(driver)[-1] or pane.rows.line_text(pane.rows.cursor).startswith(
                "sum  not accounted for"
            )


@pytest.mark.parametrize("size", SIZES)
async def test_narrow_steps_are_one_block_and_the_one_that_is_meant_is_named(
    open_app: OpenApp, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with open_app(session_of(tmp_path, CHART), size=size) as driver:
        await driver.press("v", "l", "end", "up", "up")
        await driver.until(lambda: "0.5 µs, one of 12 steps" in chart(driver)[-1])
        assert any("▏12" in row for row in chart(driver))


@pytest.mark.parametrize("size", SIZES)
async def test_nothing_of_the_view_is_left_without_room(
    open_app: OpenApp, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with open_app(session_of(tmp_path, CHART), size=size) as driver:
        await driver.press("v", "l")
        await driver.until(lambda: "▏forward" in driver.screen)
        pane = driver.app.screen.query_one(TablePane)
        assert [
            widget for widget in pane.children if widget.display and not widget.content_size.height
        ] == []
        assert pane.rows.body_height >= 3
        assert len(chart(driver)) == min(6, max(4, size[1] // 6))


async def test_a_click_on_a_block_goes_to_its_row(open_app: OpenApp, tmp_path: Path) -> None:
    async with open_app(session_of(tmp_path, CHART), size=(120, 40)) as driver:
        await driver.press("v", "l")
        await driver.until(lambda: "▏extern_k" in driver.screen)
        pane = driver.app.screen.query_one(TablePane)
        blocks = {
            "▏extern_k": "extern_kernels.addmm",
            "▏graph": "graph [0/0] forward",
            "▏a call": "a call",
        }
        for words, expected in blocks.items():
            y = next(number for number, row in enumerate(chart(driver)) if words in row)
            x = chart(driver)[y].index(words) + 2
            widget = driver.app.screen.query_one(TableChart)
            await driver.pilot.click(
                TableChart, offset=(x + widget.content_region.x - widget.region.x, y)
            )
            await driver.settle()
            assert expected in pane.rows.line_text(pane.rows.cursor), words
            assert "▲" in chart(driver)[-1]


@pytest.mark.parametrize("theme", ["fx-light", "ansi-dark"])
async def test_the_chart_is_drawn_in_other_themes(
    open_app: OpenApp, tmp_path: Path, theme: str
) -> None:
    async with open_app(session_of(tmp_path, CHART), size=(120, 40)) as driver:
        driver.app.theme = theme
        await driver.press("v", "l")
        await driver.until(lambda: "▏forward" in driver.screen)


async def test_a_view_without_a_ledger_has_no_chart(open_app: OpenApp, tmp_path: Path) -> None:
    async with open_app(session_of(tmp_path), size=(80, 24)) as driver:
        await driver.press("v", "l")
        await driver.until(lambda: "Press x c: the program is built" in driver.screen)
        assert not driver.app.screen.query_one(TableChart).display
