"""These tests check that findings in a file that has changed since are marked as old, wherever they
are shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.session import SessionWriter
from tests.exhaustive import with_others
from tests.tui.conftest import Driver, OpenApp
from tests.tui.test_fixes import SOURCE, WITHOUT_PRINT, write_session
from tests.tui.test_live_capture import FakeCapture, step
from tests.tui.test_stepping import messages

OLD = "old: m.py has changed since"


async def look(driver: Driver) -> None:
    """Look at the files now; the app does it once a second."""
    await driver.app.controllers.source_files.look()
    await driver.settle()


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return write_session(tmp_path)


@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40), (200, 50)]))
async def test_a_changed_file_is_told_in_the_header_on_the_overview_and_at_its_rows(
    open_app: OpenApp, session: Path, size: tuple[int, int]
) -> None:
    with SessionWriter(session) as writer:
        writer.add(
            model.GraphBreak(
                0, 1, "GB0059", "torch's reason", "", (), "/other/library.py", 3, "print(y)"
            )
        )
    async with open_app(session, size=size) as driver:
        await look(driver)
        await driver.press("4")
        assert "old" not in driver.screen
        session.with_name("m.py").write_text(WITHOUT_PRINT)
        await driver.until(lambda: OLD in driver.header)  # by itself: nobody asked it to look
        assert f"▲ {OLD}." in driver.screen
        rows = [line for line in driver.screen.splitlines() if "✗ break" in line]
        assert [("· old" in row) for row in rows] == [("m.py:5" in row) for row in rows]
        assert sum("· old" in row for row in rows) == 1
        await driver.press("1")
        assert "This view is out of date: m.py has changed since" in driver.screen.replace(
            "\n", " "
        )
        assert driver.explorer.facts.facts[0].topic == "old"
        assert "Capture the program again" in driver.screen


async def test_the_title_of_a_pane_says_that_its_source_is_old_and_of_a_later_pane_too(
    open_app: OpenApp, session: Path
) -> None:
    async with open_app(session) as driver:
        await driver.press("2")
        titles = [pane.query_one(".pane-title").text for pane in driver.panes]
        assert not any("old" in title for title in titles)
        session.with_name("m.py").write_text(WITHOUT_PRINT)
        await look(driver)
        (source, *others) = driver.panes
        assert "m.py · old" in source.query_one(".pane-title").text
        assert not any("· old" in pane.query_one(".pane-title").text for pane in others)
        added = await driver.explorer.linked.add()
        driver.explorer.linked_selection.show_document(added, source.document)
        await driver.settle()
        assert "m.py · old" in added.query_one(".pane-title").text
        session.with_name("m.py").write_text(SOURCE)
        await look(driver)
        assert "old" not in source.query_one(".pane-title").text


async def test_an_unchanged_file_and_one_that_was_only_touched_are_not_old(
    open_app: OpenApp, session: Path
) -> None:
    async with open_app(session) as driver:
        await look(driver)
        os.utime(session.with_name("m.py"), (1, 1))
        await look(driver)
        assert driver.app.controllers.source_files.paths == [session.with_name("m.py")]
        assert "old" not in driver.header
        assert {fact.topic for fact in driver.explorer.facts.facts}.isdisjoint({"old"})
        session.with_name("m.py").write_text(SOURCE + "\n# more\n")
        await look(driver)
        assert OLD in driver.header
        session.with_name("m.py").write_text(SOURCE)
        await look(driver)
        assert "old" not in driver.header
        await driver.press("4")
        assert "old" not in driver.screen


async def test_enter_shows_what_has_changed_in_the_file(open_app: OpenApp, session: Path) -> None:
    session.with_name("m.py").write_text(WITHOUT_PRINT)
    async with open_app(session) as driver:
        await look(driver)
        await driver.press("g", "enter")
        await driver.until(lambda: "m.py: 1 line removed" in driver.screen)
        assert "-      print(x)" in driver.screen
        await driver.press("escape")
        assert driver.explorer.view == "overview"


async def test_files_that_a_session_of_somebody_else_names_are_not_looked_at(
    open_app: OpenApp, session: Path
) -> None:
    session.with_name("m.py").write_text(WITHOUT_PRINT)
    async with open_app(session, trusts_sessions=False) as driver:
        await look(driver)
        assert driver.app.controllers.source_files.paths == []
        assert "old" not in driver.header


async def test_a_file_that_is_not_here_makes_nothing_old(open_app: OpenApp, session: Path) -> None:
    session.with_name("m.py").unlink()
    async with open_app(session) as driver:
        await look(driver)
        assert "old" not in driver.header


@pytest.fixture
def captures_of(tmp_path: Path) -> Callable[..., list[FakeCapture]]:
    """Return captures that find a break in ``m.py``, as it is on disk when they end."""

    def made(count: int) -> list[FakeCapture]:
        file = tmp_path / "m.py"
        file.write_text(SOURCE)

        def write(path: Path) -> None:
            step(path)
            with SessionWriter(path) as writer:
                writer.add(model.SourceFile(0, str(file), writer.text(file.read_text()), 6))

        return [FakeCapture(tmp_path / f"{i}.fxs", write) for i in range(count)]

    return made


async def test_the_next_capture_is_not_old_any_more_and_the_key_for_it_is_told(
    open_app: OpenApp, captures_of: Callable[..., list[FakeCapture]], tmp_path: Path
) -> None:
    captures = captures_of(2)
    made = iter(captures)
    async with open_app(make_capture=lambda: next(made), target=str(tmp_path / "m.py")) as driver:
        await driver.until(lambda: driver.explorer.reader)
        captures[0].end()
        await driver.until(lambda: "✓ captured" in driver.header)
        await look(driver)
        (tmp_path / "m.py").write_text(WITHOUT_PRINT)
        await look(driver)
        assert f"✓ captured in 1.00 s · {OLD}" in driver.header
        assert "r captures again, and shows the effect." in driver.screen
        await driver.press("r")
        await driver.until(lambda: captures[1].session_path.exists())
        await look(driver)
        assert "The program is being captured again now." in driver.screen
        captures[1].end()
        await driver.until(lambda: driver.explorer.reader.path == captures[1].session_path)
        await look(driver)
        assert "old" not in driver.header
        assert {fact.topic for fact in driver.explorer.facts.facts}.isdisjoint({"old"})
        assert messages(driver) == ""
