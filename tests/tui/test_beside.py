"""These tests check that slow analyses of a session run in their own thread: keys are answered
meanwhile, and leaving cancels the work.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.synthetic_kernels import kernels_session
from fx_explorer import model
from fx_explorer.drawing.view_table import ViewTable
from fx_explorer.errors import SessionError
from fx_explorer.instruments.kernels.view import kernels_table
from fx_explorer.overview.view_tables import TABLES
from fx_explorer.session import SessionReader
from fx_explorer.tui.background_tasks import make_in_thread
from fx_explorer.tui.content import long_work
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.sessions import Hand, write_training_step
from tests.tui.conftest import OpenApp
from tests.tui.held import LONG_S, Held

KERNELS = 2_500


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """Tables of kernels and texts of graphs count as large, and are not made before the test lets
    them.
    """
    holding = Held()
    written = long_work.write_graph

    def table(reader: SessionReader) -> ViewTable:
        holding.wait()
        return kernels_table(reader)

    def text(reader: SessionReader, document: long_work.Document) -> long_work.GraphText:
        holding.wait()
        return written(reader, document)

    monkeypatch.setattr(long_work, "AT_ONCE_US", 0)
    monkeypatch.setattr(long_work, "NODES_AT_ONCE", 0)
    monkeypatch.setitem(TABLES, "kernels", table)
    monkeypatch.setattr(long_work, "write_graph", text)
    yield holding
    holding.go_on.set()


@pytest.mark.parametrize("kernels", with_others([20], [KERNELS]))
async def test_a_large_table_is_made_in_another_thread_and_a_small_one_in_the_one_that_draws(
    kernels: int, open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def table(reader: SessionReader) -> ViewTable:
        threads.append(threading.get_ident())
        return kernels_table(reader)

    monkeypatch.setitem(TABLES, "kernels", table)
    async with open_app(kernels_session(tmp_path / "s.fxs", kernels)) as driver:
        await driver.press("6")
        await driver.until(lambda: driver.explorer.table.rows.line_count == kernels)
        await driver.press("down", "end")
        assert f"cpp_fused_view_{kernels - 1}" in driver.screen
        assert driver.explorer.place is not None, "a row is looked up in the thread that draws"
        await driver.press("1", "6")
        assert f"{kernels:,} generated kernels" in driver.screen
    is_large = kernels == KERNELS
    assert (threading.get_ident() in threads) != is_large
    assert not is_large or len(threads) == 1, "nothing was written since: the table is still true"


async def test_keys_are_answered_while_a_table_is_read(
    hand: Hand, open_app: OpenApp, held: Held
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("6")
        assert "Reading 3 kernels … Escape stops it." in driver.screen
        await driver.press("down", "7")
        assert driver.explorer.view == "memory"
        await driver.press("6")
        assert "Reading 3 kernels" in driver.screen
        held.go_on.set()
        await driver.until(lambda: "mlp.py:7" in driver.screen)
    assert threading.get_ident() not in held.threads


@in_exhaustive_runs
async def test_escape_abandons_the_table_and_its_key_reads_it_again(
    hand: Hand, open_app: OpenApp, held: Held
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("6", "escape")
        assert "The rows were not all read. Choose the view again to read it." in driver.screen
        held.go_on.set()
        await driver.settle()
        assert "mlp.py:7" not in driver.screen
        driver.explorer.refresh_session()
        assert "The rows were not all read." in driver.screen, "only the user begins it again"
        await driver.press("6")
        await driver.until(lambda: "mlp.py:7" in driver.screen)


async def test_a_table_that_cannot_be_read_is_told_and_the_app_goes_on(
    hand: Hand, open_app: OpenApp, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(reader: SessionReader) -> ViewTable:
        raise SessionError("the file is damaged: kernel: position is 'x'")

    monkeypatch.setitem(TABLES, "kernels", unreadable)
    async with open_app(hand.path) as driver:
        await driver.press("6")
        await driver.until(lambda: "This could not be read." in driver.screen)
        assert [note.title for note in driver.app._notifications] == ["the session cannot be read"]
        await driver.press("2")
        assert driver.explorer.view == "source"


@in_exhaustive_runs
async def test_another_session_that_comes_meanwhile_is_the_one_that_is_shown(
    hand: Hand, open_app: OpenApp, held: Held, tmp_path: Path
) -> None:
    other = write_training_step(tmp_path / "other.fxs").path
    async with open_app(hand.path) as driver:
        await driver.press("6")
        driver.explorer.open(SessionReader(other))
        held.go_on.set()
        await driver.until(lambda: "mlp.py:7" in driver.screen)
        assert driver.explorer.table._table_reader.path == other
        assert len(held.threads) == 2


async def test_a_graph_is_written_while_its_rows_stay_and_the_cursor_goes_where_it_is_by_then(
    hand: Hand, open_app: OpenApp, held: Held
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "tab", "p", "c")
        pane = driver.panes[1]
        assert f"Writing {pane.document.line_count} nodes as" in driver.screen
        await driver.press("j")
        row = pane.place.line
        name = driver.explorer.reader.nodes(
            driver.explorer.reader.get(model.Graph, pane.document.id)
        )[row].name
        assert pane.document.kind == "graph"
        held.go_on.set()
        await driver.until(lambda: pane.document.kind == "code")
        assert pane.body.line_text(pane.place.line).split(":")[0].strip() == name
        await driver.until(lambda: "Writing" not in driver.screen)
    assert threading.get_ident() not in held.threads


@pytest.mark.parametrize("keys", with_others([("escape",)], [("1", "2")]))
async def test_escape_and_another_view_abandon_the_writing_of_a_graph(
    keys: tuple[str, ...], hand: Hand, open_app: OpenApp, held: Held
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "tab", "p", "c")
        assert "Writing" in driver.screen
        await driver.press(*keys)
        assert "Writing" not in driver.screen
        held.go_on.set()
        await driver.settle()
        assert all(pane.document.kind != "code" for pane in driver.panes)


async def test_a_large_graph_stays_a_text_in_the_next_session(
    hand: Hand, open_app: OpenApp, held: Held, tmp_path: Path
) -> None:
    other = write_training_step(tmp_path / "other.fxs").path
    held.go_on.set()
    async with open_app(hand.path) as driver:
        await driver.press("2", "tab", "p", "c")
        pane = driver.panes[1]
        await driver.until(lambda: pane.document.kind == "code")
        line = pane.body.line_text(pane.place.line)
        driver.explorer.open(SessionReader(other))
        assert pane.document.kind == "graph"
        await driver.until(lambda: pane.document.kind == "code")
        assert pane.body.line_text(pane.place.line) == line


async def test_a_thread_that_nobody_waits_for_ends_at_its_next_question(hand: Hand) -> None:
    has_begun, has_ended = threading.Event(), threading.Event()

    def ask_forever(reader: SessionReader) -> None:
        try:
            while True:
                reader.count(model.Kernel)
                has_begun.set()
        finally:
            has_ended.set()

    waiting = asyncio.create_task(make_in_thread(hand.path, ask_forever))
    assert await asyncio.to_thread(has_begun.wait, LONG_S)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await asyncio.to_thread(has_ended.wait, LONG_S)
