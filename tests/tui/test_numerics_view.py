"""These tests check the view of whether compiled code is right. The comparison is injected; what it
learned is read from the session.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fx_explorer.errors import UsageError
from fx_explorer.instruments.numerics.figures import add_numerics
from fx_explorer.model import CaptureRequest, Numerics, Outcome
from fx_explorer.session import SessionWriter
from fx_explorer.session.ownership import remember_session
from fx_explorer.trials import Told
from fx_explorer.tui.controllers.measurements import Measurements
from tests.numerics.test_answers import FOUND
from tests.sessions import write_training_step
from tests.tui.conftest import OpenApp


def session_of(tmp_path: Path, numerics: Numerics | None = None) -> Path:
    path = tmp_path / "s.fxs"
    write_training_step(path)
    with SessionWriter(path) as writer:
        writer.set_meta("request", dataclasses.asdict(CaptureRequest("mlp.py", "")))
        writer.set_meta("outcome", Outcome("finished").to_json())
    if numerics is not None:
        add_numerics(path, numerics)
    remember_session(path)
    return path


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_the_view_begins_with_the_answer_and_marks_the_first_node_that_differs(
    open_app: OpenApp, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with open_app(session_of(tmp_path, FOUND), size=size) as driver:
        await driver.press("v", "n")
        await driver.until(lambda: "inductor differs from eager mode" in driver.screen)
        await driver.press(*["down"] * 9)
        await driver.until(lambda: "differs, first" in driver.screen)


async def test_without_a_comparison_the_view_says_how_to_make_one(
    open_app: OpenApp, tmp_path: Path
) -> None:
    async with open_app(session_of(tmp_path)) as driver:
        await driver.press("v", "n")
        await driver.until(lambda: "Press x n" in driver.screen)


async def test_a_comparison_is_added_to_the_session_and_shown(
    open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def compare(request: CaptureRequest, tell: Told) -> Numerics:
        return FOUND

    monkeypatch.setattr(Measurements, "compare", staticmethod(compare))
    async with open_app(session_of(tmp_path)) as driver:
        await driver.press("x", "n")
        await driver.until(lambda: "inductor differs from eager mode" in driver.screen)


async def test_a_program_that_cannot_be_compared_is_told(
    open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def compare(request: CaptureRequest, tell: Told) -> Numerics:
        raise UsageError("It does not run in eager mode: no")

    monkeypatch.setattr(Measurements, "compare", staticmethod(compare))
    async with open_app(session_of(tmp_path)) as driver:
        await driver.press("x", "n")
        await driver.until(lambda: "It does not run in eager mode" in driver.screen)
