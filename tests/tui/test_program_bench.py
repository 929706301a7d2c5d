"""These tests check the view of whether compiling pays, measured from the keyboard. The measurement
is injected; its rows are read from the session.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from fx_explorer.errors import WorkerError
from fx_explorer.instruments.bench.bench_run import BenchProgress
from fx_explorer.instruments.bench.plan import BenchPlan
from fx_explorer.model import BenchCell, BenchRound, CaptureRequest, Outcome
from fx_explorer.session import SessionWriter
from fx_explorer.session.ownership import remember_session
from fx_explorer.tui.controllers.measurements import Measurements
from tests.bench.test_verdict import INDUCTOR, UNCOMPILED, about, at
from tests.exhaustive import with_others
from tests.tui.conftest import OpenApp
from tests.tui.test_stepping import messages


def session_of(
    tmp_path: Path,
    *cells: tuple[BenchCell, list[float]],
    kind: str = "bench",
    as_script: bool = False,
) -> Path:
    path = tmp_path / "s.fxs"
    with SessionWriter(path) as writer:
        writer.set_meta(
            "request", dataclasses.asdict(CaptureRequest("net.py", "", as_script=as_script))
        )
        writer.set_meta("target", {"name": "net.py", "kind": kind})
        writer.set_meta("outcome", Outcome("finished").to_json())
        add(writer, *cells)
    remember_session(path)
    return path


def add(writer: SessionWriter, *cells: tuple[BenchCell, list[float]]) -> None:
    for cell, times in cells:
        number = writer.add(cell)
        writer.add_all(
            BenchRound(0, number, i, took_s, 10) for i, took_s in enumerate(times, start=1)
        )


@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40), (200, 50)]))
async def test_a_saved_bench_opens_with_its_verdict_and_draws_its_picture(
    open_app: OpenApp, tmp_path: Path, size: tuple[int, int]
) -> None:
    cells = [
        (at(cell, batch), about(0.001 / (i * batch + 1)))
        for batch in (1, 8)
        for i, cell in enumerate((UNCOMPILED, INDUCTOR))
    ]
    async with open_app(session_of(tmp_path, *cells), size=size) as driver:
        await driver.until(lambda: "inductor pays at every measured size" in driver.screen)
        assert "measured" in driver.header
        await driver.press("v", "p")
        await driver.until(lambda: "1.99 (1.88 to 2.12)" in driver.screen)
        assert "batch 8" in driver.screen
        await driver.press("tab", "end")
        await driver.until(lambda: "times as fast as in eager mode" in driver.screen)


async def test_a_view_without_a_bench_says_how_to_make_one(
    open_app: OpenApp, tmp_path: Path
) -> None:
    async with open_app(session_of(tmp_path, kind="module"), size=(80, 24)) as driver:
        await driver.press("v", "p")
        await driver.until(lambda: "Press x p to measure whether compiling pays" in driver.screen)


async def test_what_is_typed_is_measured_and_the_table_fills_in(
    open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[BenchPlan] = []
    more, over = asyncio.Event(), asyncio.Event()

    async def run(plan: BenchPlan, writer: SessionWriter, python: str, tell: Any) -> None:
        asked.append(plan)
        tell(BenchProgress("batch 2 (1 of 2)", "the second: compiling it"))
        add(writer, (UNCOMPILED, about(0.004)))
        await more.wait()
        add(writer, (INDUCTOR, about(0.002)))
        await over.wait()

    monkeypatch.setattr(Measurements, "run_bench", staticmethod(run))
    async with open_app(session_of(tmp_path, kind="module"), size=(120, 40)) as driver:
        await driver.press("x", "p", "ctrl+u")
        await driver.paste("--backends inductor --batch 2,4")
        await driver.press("enter")
        await driver.until(
            lambda: "uncompiled" in driver.screen and "inductor" not in driver.screen
        )
        doing = "measuring: batch 2 (1 of 2): the second: compiling it"
        await driver.until(lambda: doing in driver.header)
        await driver.until(lambda: re.search(r"esc stops it · \d+ s", driver.header))
        more.set()
        await driver.until(lambda: "Compiling pays: with inductor" in driver.screen)
        over.set()
        await driver.until(lambda: "measuring" not in driver.header)
    assert asked[0].backends == ("inductor",)
    assert [size.value for size in asked[0].sizes[0]] == [2, 4]


async def test_escape_stops_it_and_keeps_what_was_measured(
    open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled = asyncio.Event()

    async def run(plan: BenchPlan, writer: SessionWriter, python: str, tell: Any) -> None:
        add(writer, (UNCOMPILED, about(0.004)), (INDUCTOR, about(0.002)))
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cancelled.set()

    monkeypatch.setattr(Measurements, "run_bench", staticmethod(run))
    async with open_app(session_of(tmp_path, kind="module"), size=(120, 40)) as driver:
        await driver.press("x", "p", "enter")
        await driver.until(lambda: "Compiling pays: with inductor" in driver.screen)
        await driver.press("x", "p")
        assert "already running" in messages(driver)
        await driver.press("escape")
        assert not cancelled.is_set()
        await driver.press("y")
        await driver.until(lambda: cancelled.is_set())
        await driver.until(lambda: "Stopped: the figures so far are kept." in messages(driver))
        assert "Compiling pays: with inductor" in driver.screen


@pytest.mark.parametrize(
    ("typed", "told"),
    with_others([("--batch none", "is not a number from 1 on")], [("--no-such", "unrecognized")]),
)
async def test_what_is_no_option_is_told(
    open_app: OpenApp, tmp_path: Path, typed: str, told: str
) -> None:
    async with open_app(session_of(tmp_path, kind="module"), size=(80, 24)) as driver:
        await driver.press("x", "p", "ctrl+u")
        await driver.paste(typed)
        await driver.press("enter")
        await driver.until(lambda: told in messages(driver))
        await driver.until(lambda: typed in driver.screen)
        await driver.press("backspace")
        await driver.until(lambda: typed[:-1] in driver.screen and typed not in driver.screen)


async def test_a_script_cannot_be_measured(open_app: OpenApp, tmp_path: Path) -> None:
    async with open_app(
        session_of(tmp_path, kind="script", as_script=True), size=(80, 24)
    ) as driver:
        await driver.press("x", "p")
        await driver.until(lambda: "A script cannot be called repeatedly" in messages(driver))


async def test_why_it_failed_is_told(
    open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(plan: BenchPlan, writer: SessionWriter, python: str, tell: Any) -> None:
        raise WorkerError("no_python cannot be started")

    monkeypatch.setattr(Measurements, "run_bench", staticmethod(run))
    async with open_app(session_of(tmp_path, kind="module"), size=(80, 24)) as driver:
        await driver.press("x", "p", "enter")
        await driver.until(lambda: "no_python cannot be started" in messages(driver))
