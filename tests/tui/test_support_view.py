"""These tests check the view of a backend's support: the backend is in a target file of 30 lines,
whose parts are counted by hand in tests/analysis/test_backend_support.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT, Captured
from tests.exhaustive import with_others
from tests.sessions import write_training_step
from tests.tui.conftest import OpenApp
from tests.tui.test_region_filter import names

FILE = ROOT / "tests" / "data" / "small_backend.py"


@pytest.fixture
def session(captured: Captured) -> Path:
    return captured(FILE, backend=f"{FILE}:small", train=False)


@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40), (200, 50)]))
async def test_the_view_has_the_verdict_the_parts_and_what_crosses_their_borders(
    session: Path, open_app: OpenApp, size: tuple[int, int]
) -> None:
    async with open_app(session, size=size) as driver:
        await driver.press("v", "u")
        await driver.until(lambda: "small supports 5 of 7 operators" in driver.screen)
        assert (
            driver.screen.index("segment 1")
            < driver.screen.index("PyTorch")
            < driver.screen.index("segment 2")
        )
        await driver.press("j")
        await driver.until(lambda: "takes 1 value, 384 B" in driver.screen)
        assert "relu = aten.relu(addmm)" in driver.screen


async def test_the_graph_marks_what_falls_back_and_narrows_to_a_segment(
    session: Path, open_app: OpenApp
) -> None:
    async with open_app(session, size=(200, 50)) as driver:
        await driver.press("v", "u")
        await driver.until(lambda: "small supports" in driver.screen)
        await driver.press("j", "j", "enter")  # segment 2
        pane = driver.panes.index(driver.explorer.linked.active)
        rows = driver.panes[pane].body
        marked = [text for text in map(rows.line_text, range(rows.line_count)) if "↩" in text]
        assert [text.split("  ")[1] for text in marked] == ["↩ i0", "↩ _softmax"]
        await driver.press("p", "r")
        await driver.until(lambda: "only segment 2" in driver.screen)
        assert names(driver, pane) == ["t_1", "addmm_1"]


async def test_a_session_of_inductor_says_why_there_is_nothing(
    tmp_path: Path, open_app: OpenApp
) -> None:
    async with open_app(write_training_step(tmp_path / "s.fxs").path) as driver:
        await driver.press("v", "u")
        await driver.until(lambda: "Inductor supports every operator" in driver.screen)
