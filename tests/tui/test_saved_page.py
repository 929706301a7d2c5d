"""These tests check that a session is saved as a page where its name says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.session import in_page
from tests.sessions import write_training_step
from tests.tui.conftest import OpenApp
from tests.tui.test_stepping import messages


async def test_a_name_with_html_saves_a_page_that_has_the_session(
    open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "step.fxs"
    write_training_step(path)
    async with open_app(path) as driver:
        await driver.press("s")
        assert "Save the session as (.fxs, or .html for a page to send)" in driver.screen
        await driver.press("ctrl+u", *"out.html", "enter")
        await driver.until(lambda: "Saved out.html" in messages(driver))
        taken = tmp_path / "taken.fxs"
        in_page.write_session(tmp_path / "out.html", taken)
        assert taken.read_bytes()[:16] == b"SQLite format 3\0"
        await driver.press("s", "ctrl+u", *"out.html", "enter")
        await driver.until(lambda: "out.html already exists" in messages(driver))
