"""The first page: findings with what can be done on top, then figures, then what is fine in one
line; the user's own file beside them where there is room.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len

from fx_explorer.analysis.facts import Fact
from fx_explorer.findings.every_kind import search
from fx_explorer.overview.figures_row import FigureInRow, figures_row
from fx_explorer.session import SessionReader
from fx_explorer.tui.panes.overview_pane import PageLayout, figure_lines
from tests.exhaustive import with_others
from tests.sessions import Hand
from tests.tui.conftest import Driver, OpenApp
from tests.tui.test_own_file import write_session

LONG = "This sentence about a graph break is so long that it has no room in one line of a page"

PROBLEM = Fact("breaks", "problem", LONG, "what it costs", view="breaks", cost="+1 graph")
FINE = (Fact("time", "good", "Compiling took 1 s."), Fact("run", "good", "It ran to its end."))

FIGURES = [
    FigureInRow("graphs", "2", (105, 8)),
    FigureInRow("compiling", "34.9 s", (27.3, 2.7, 2.4)),
]


def texts(facts: list[Fact], at: int, width: int = 78) -> list[str]:
    lines = PageLayout(width, "x x", "x r", at).lines(facts, FIGURES)
    return ["".join(text for text, _ in line.pieces).rstrip() for line in lines]


def test_a_finding_is_one_line_with_its_cost_and_its_action() -> None:
    notice = Fact("run", "notice", "Something was noticed.")
    lines = texts([notice, PROBLEM], at=0)
    assert lines[1].startswith("✗ This sentence about a graph break is so long")
    assert lines[1].endswith("…  +1 graph  ⏎ show")


def test_the_finding_under_the_cursor_is_shown_whole() -> None:
    shown = " ".join(" ".join(texts([PROBLEM], at=0)[:3]).split())
    assert shown.replace("+1 graph ⏎ show ", "").startswith(f"✗ {LONG} what it costs")


def test_no_line_is_wider_than_the_pane() -> None:
    for width in (40, 78, 120, 198):
        for at in range(3):
            assert max(map(cell_len, texts([PROBLEM, *FINE], at, width))) <= width


def test_text_uses_the_width_of_the_pane() -> None:
    assert texts([PROBLEM, *FINE], at=1, width=198)[0].startswith(f"✗ {LONG} ")


def test_what_is_fine_is_one_line_until_the_cursor_is_there() -> None:
    assert texts([PROBLEM, *FINE], at=0)[-1] == "✓ fine: time · run"
    assert texts([PROBLEM, *FINE], at=1)[-2:] == [
        "time        ✓ Compiling took 1 s.",
        "run         ✓ It ran to its end.",
    ]


def test_what_still_works_is_no_finding() -> None:
    running = Fact("run", "running", "Still at work: importing torch.", view="console")
    lines = texts([PROBLEM, running, FINE[0]], at=0)
    assert lines[-3:] == ["▷ Still at work: importing torch.", "", "✓ fine: time"]


def test_a_figure_has_a_bar_for_each_part_where_there_is_room() -> None:
    labels, values = ("".join(text for text, _ in row) for row in figure_lines(FIGURES, 60))
    assert labels.split() == ["graphs", "compiling"]
    assert values.split() == ["2", "█▁", "34.9", "s", "█▁▁"]
    assert labels.index("compiling") == values.index("34.9")
    narrow = "".join(text for text, _ in figure_lines(FIGURES, 20)[1])
    assert "34.9 s" in narrow
    assert "█▁▁" not in narrow


def test_the_figures_are_those_of_the_session(hand: Hand) -> None:
    with SessionReader(hand.path) as reader:
        figures = {figure.label: figure.value for figure in figures_row(reader)}
    assert figures == {
        "graphs": "1",
        "breaks": "0",
        "recompiles": "0",
        "guards": figures["guards"],
        "kernels": "3",
        "saved": figures["saved"],
        "compiling": "2.00 s",
    }


# on screen


def rows(driver: Driver) -> list[str]:
    return driver.screen.splitlines()


@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40), (200, 50)]))
async def test_the_page_begins_with_the_worst_finding_and_says_which_keys_do_something(
    tmp_path: Path, open_app: OpenApp, size: tuple[int, int]
) -> None:
    session = write_session(tmp_path / "a.fxs", own_operations=2, breaks_at=2)
    async with open_app(session, size=size) as driver:
        first = rows(driver)[2]
        assert first.startswith("▸✗ train.py:2 ")
        assert "⏎ show · x x fix" in first
        shown = driver.screen
        assert shown.index("⏎ show") < shown.index("recompiles") < shown.index("✓ fine:")


async def test_the_users_own_file_stands_beside_the_findings_where_there_is_room(
    tmp_path: Path, open_app: OpenApp
) -> None:
    session = write_session(tmp_path / "a.fxs", own_operations=2, breaks_at=2)
    async with open_app(session, size=(120, 40)) as driver:
        assert "│ train.py" in driver.screen
        assert "2 ✗ def loss(x):" in driver.screen
        await driver.pilot.resize_terminal(80, 24)
        await driver.settle()
        assert "def loss(x):" not in driver.screen


async def test_enter_in_the_own_file_leads_to_its_line_beside_graph_and_kernel(
    tmp_path: Path, open_app: OpenApp
) -> None:
    session = write_session(tmp_path / "a.fxs", own_operations=2, breaks_at=2)
    async with open_app(session, size=(120, 40)) as driver:
        await driver.press("tab", "j", "j", "enter")
        assert driver.explorer.view == "source"
        assert driver.panes[0].place.line == 3


async def test_the_cursor_lists_what_is_fine_and_leaves_it_closed_again(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path, size=(100, 40)) as driver:
        assert "✓ fine: " in driver.screen
        await driver.press("j")
        assert "✓ fine: " not in driver.screen
        assert "✓ Compiling took 2.00 s." in driver.screen
        await driver.press("k")
        assert "✓ fine: " in driver.screen
        assert "Compiling took" not in driver.screen


async def test_what_was_looked_for_is_one_line_and_listed_by_the_key_of_all_facts(
    hand: Hand, open_app: OpenApp
) -> None:
    with SessionReader(hand.path) as reader:
        looked_for = search(reader)
    async with open_app(hand.path, size=(120, 40)) as driver:
        count = len(looked_for.looked_for)
        await driver.until(lambda: f"Checked for {count} kinds of problems" in driver.screen)
        assert "unrolled loops" not in driver.screen
        await driver.press("i")
        for kind in (*looked_for.looked_for, *looked_for.not_looked_for):
            assert kind in driver.screen
        assert "needs a profile" in driver.screen
