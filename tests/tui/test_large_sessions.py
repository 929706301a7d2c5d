"""These tests check that large data is read outside the thread that draws: the outline, the
overview, lists of choices, searches and copies.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.synthetic_kernels import kernels_session
from fx_explorer.overview.outline import RANGE, outline
from fx_explorer.overview.overview import page_facts
from fx_explorer.session import SessionReader
from fx_explorer.tui.content import copied_text, long_work
from fx_explorer.tui.controllers.exports import Exports
from fx_explorer.tui.dialogs import choose
from fx_explorer.tui.dialogs.choose import Chooser
from tests.exhaustive import in_exhaustive_runs
from tests.sessions import Hand
from tests.tui.conftest import OpenApp
from tests.tui.held import Held

KERNELS = 2_500


@pytest.fixture(scope="module")
def many_kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kernels_session(tmp_path_factory.mktemp("large") / "kernels.fxs", KERNELS)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """Every session counts as large."""
    holding = Held()
    monkeypatch.setattr(long_work, "AT_ONCE_US", 0)
    yield holding
    holding.go_on.set()


# the outline


def test_the_outline_of_many_kernels_has_ranges_that_hold_all_of_them(many_kernels: Path) -> None:
    with SessionReader(many_kernels) as reader:
        entries = outline(reader)
    ranges = [entry for entry in entries if entry.unread]
    assert [entry.title for entry in ranges[:2]] == ["1 to 100", "101 to 200"]
    assert ranges[-1].title == "2,401 to 2,500"
    assert len({kernel for entry in ranges for kernel in entry.unread}) == KERNELS
    assert len(entries) < KERNELS / RANGE + 20


async def test_a_range_of_the_outline_is_read_when_it_is_opened_and_its_kernels_lead_to_their_code(
    many_kernels: Path, open_app: OpenApp
) -> None:
    async with open_app(many_kernels) as driver:
        shown = driver.explorer.outline
        await driver.until(lambda: shown.line_count)
        shown.focus()
        await driver.settle()
        await driver.press_until("down", lambda: "Kernels" in shown.text)
        lines = shown.line_count  # the ranges have room: they are there already
        await driver.press("down", "down", "right")
        assert shown.line_count == lines + RANGE
        await driver.press("down")
        assert shown.text.startswith("cpp_fused_mm_100 ")
        await driver.press("left")
        assert shown.line_count == lines
        await driver.press("right", "down", "enter")
        assert driver.explorer.linked.active.document.title == "cpp_fused_mm_100"


# what is made beside the screen


async def test_the_overview_of_a_large_session_is_read_beside_the_screen(
    hand: Hand, open_app: OpenApp, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(*arguments: object) -> object:
        held.wait()
        return page_facts(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("fx_explorer.tui.panes.overview_pane.page_facts", slowly)
    async with open_app(hand.path) as driver:
        assert "Reading 30 nodes …" in driver.screen
        await driver.press("2")
        assert "gelu" in driver.screen
        await driver.press("1")
        held.go_on.set()
        await driver.until(lambda: "Everything became one graph" in driver.facts)
    assert held.threads
    assert threading.get_ident() not in held.threads
    assert len(held.threads) == 1, "nothing was written since: the facts are still true"


@in_exhaustive_runs
async def test_keys_typed_while_a_search_runs_choose_in_what_it_finds(
    hand: Hand, open_app: OpenApp, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = choose.found_choices

    def slowly(reader: SessionReader, typed: str) -> object:
        held.wait()
        return found(reader, typed)

    monkeypatch.setattr(
        choose, "found_choices", lambda reader, typed: slowly(reader, typed) if typed else []
    )
    async with open_app(hand.path) as driver:
        await driver.press("f", *"fc2")
        await driver.until(lambda: held.threads)
        await driver.press("enter")
        assert isinstance(driver.app.screen, Chooser)
        assert "Looking …" in driver.screen
        held.go_on.set()
        await driver.until(
            lambda: driver.explorer.place is not None and driver.app.screen is driver.explorer
        )
        assert driver.explorer.linked.active.document.title == "Dynamo graph"
    assert threading.get_ident() not in held.threads


async def test_documents_are_read_while_the_dialog_is_open_and_escape_abandons_it(
    hand: Hand, open_app: OpenApp, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = choose.pane_choices

    def slowly(reader: SessionReader) -> object:
        held.wait()
        return read(reader)

    monkeypatch.setattr(choose, "pane_choices", slowly)
    async with open_app(hand.path) as driver:
        await driver.press("2", "p", "d")
        assert "Looking …" in driver.screen
        await driver.press("escape")
        assert driver.app.screen is driver.explorer
        await driver.press("p", "d")
        held.go_on.set()
        await driver.until(lambda: "Forward · post-grad" in driver.screen)
        await driver.press(*"kernel", "enter")
        await driver.until(lambda: driver.app.screen is driver.explorer)
        assert "kernel" in driver.explorer.linked.active.document.title
    assert threading.get_ident() not in held.threads


@pytest.mark.parametrize("typed", ["", "even", "42", "nothing"])
async def test_a_long_list_is_searched_in_steps_with_the_same_answer(
    typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [
        choose.Choice(f"name {at}", "even" if at % 2 == 0 else "odd", at)
        for at in range(choose.CHOICES_AT_ONCE + 1)
    ]
    every += [choose.Choice("even name", "", -1)]
    found = choose.matching(every)(typed)
    steps = found if isinstance(found, list) else await found  # type: ignore[misc]
    monkeypatch.setattr(choose, "CHOICES_AT_ONCE", len(every))
    at_once = choose.matching(every)(typed)
    assert steps == at_once
    if typed == "even":
        assert steps[0].value == -1, "a word of the name counts more than one of the detail"


@in_exhaustive_runs
async def test_a_long_answer_is_written_beside_the_screen(
    many_kernels: Path, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []
    threads: list[int] = []
    written = copied_text.table_markdown

    def markdown(*arguments: object) -> str:
        threads.append(threading.get_ident())
        return written(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(copied_text, "table_markdown", markdown)
    monkeypatch.setattr(Exports, "copy_text", lambda _, text: texts.append(text))
    async with open_app(many_kernels) as driver:
        await driver.press("6")
        await driver.until(lambda: driver.explorer.table.rows.line_count == KERNELS)
        await driver.press("Y", "a")
        await driver.until(lambda: texts)
    assert threading.get_ident() not in threads
    lines = texts[0].splitlines()
    assert sum("| cpp_fused_" in line for line in lines) == KERNELS
