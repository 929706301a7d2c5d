"""These tests check that every view says what it shows, what is worth noticing and where the data
came from; an empty view says why it is empty.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.words import bar
from fx_explorer.overview.view_tables import TABLES
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import Hand
from tests.tui.conftest import OpenApp


@pytest.fixture
def step(hand: Hand):  # type: ignore[no-untyped-def]
    with SessionReader(hand.path) as reader:
        yield reader


def session(path: Path, outcome: model.Outcome | None) -> SessionReader:
    with SessionWriter(path) as writer:
        if outcome:
            writer.set_meta("outcome", outcome.to_json())
    return SessionReader(path)


@pytest.mark.parametrize("name", TABLES)
def test_every_view_says_what_it_shows_and_where_it_came_from(
    step: SessionReader, name: str
) -> None:
    table = TABLES[name](step)
    assert table.shows.endswith(".")
    assert table.origin
    assert all(len(row.cells) == len(table.columns) for row in table.rows)


@pytest.mark.parametrize("name", TABLES)
def test_a_view_with_rows_begins_with_its_answer(step: SessionReader, name: str) -> None:
    table = TABLES[name](step)
    answer = table.answer or table.notice
    if not table.rows:
        assert table.empty.endswith((".", ":")) or table.empty == ""
        return
    assert answer
    assert "\n" not in answer
    assert len(answer.partition(". ")[0]) < 160, "one line on a wide terminal"


@pytest.mark.parametrize("outcome", [None, model.Outcome("finished")])
@pytest.mark.parametrize("name", TABLES)
def test_an_empty_view_says_why(tmp_path: Path, name: str, outcome: model.Outcome | None) -> None:
    with session(tmp_path / "empty.fxs", outcome) as reader:
        table = TABLES[name](reader)
        assert not table.rows
        assert table.empty.endswith(".")


def test_kernels_are_listed_with_their_code(step: SessionReader) -> None:
    rows = TABLES["kernels"](step).rows
    assert [row.cells[2] for row in rows] == [
        "extern_kernels.addmm",
        "kernel",
        "extern_kernels.addmm",
    ]
    assert "auto tmp1 = gelu(tmp0);" in rows[1].detail().text
    assert "library call" in rows[0].detail().text


def test_saved_memory_names_its_producer_and_its_consumer(step: SessionReader) -> None:
    (row,) = TABLES["memory"](step).rows
    assert row.cells[0] == "128 B"
    assert "aten.addmm.default" in row.cells
    assert row.cells[-1] == "mm"


def test_the_console_reads_only_the_page_it_shows(tmp_path: Path) -> None:
    path = tmp_path / "long.fxs"
    with SessionWriter(path) as writer:
        writer.add_all(model.ConsoleLine(0, "stdout", f"line {i}") for i in range(5000))
        writer.add(
            model.Failure(0, 0, "program", None, "ValueError", "no", writer.text("Traceback …"))
        )
    with SessionReader(path) as reader:
        rows = TABLES["console"](reader).rows
        assert len(rows) == 5001
        assert rows[0].cells[2] == "ValueError: no"
        assert rows[0].detail().text == "Traceback …"
        assert [row.cells[2] for row in rows[4000:4002]] == ["line 3999", "line 4000"]


def test_times_of_the_stages_add_up(step: SessionReader) -> None:
    table = TABLES["time"](step)
    assert table.tree is not None
    by_function = [row.cells[0] for row in table.rows].index("by function")
    stages = range(1, by_function)
    assert {table.tree.depths[at] for at in stages} == {1}
    seconds = [float(table.rows[at].cells[1].split()[0]) for at in stages]
    assert sum(seconds) == pytest.approx(2.0)


def test_a_bar_is_as_long_as_its_share() -> None:
    assert bar(1, 2, 10) == "━━━━━"
    assert bar(1, 4, 10) == "━━╸"
    assert bar(1, 0, 10) == ""


async def test_the_help_and_the_facts_have_what_a_view_shows_and_its_origin(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("6")
        assert "From Inductor" not in driver.screen
        await driver.press("question_mark")
        assert "From Inductor's code generation" in driver.screen
        await driver.press("escape", "i")
        assert "Inductor's code generation" in driver.screen
        assert "in the order the compiled code runs them" in driver.screen
        await driver.press("escape", "0")
        await driver.press("i")
        assert "Your modules, each with its submodules" in driver.screen


def test_a_log_says_why_a_view_is_empty_and_what_it_has_instead(tmp_path: Path) -> None:
    log = Path(__file__).parent.parent / "data" / "torch_trace"
    first = min(log.glob("*.log*"), key=lambda path: path.stat().st_size)
    read_log(first, tmp_path / "log.fxs")
    with SessionReader(tmp_path / "log.fxs") as reader:
        assert TABLES["console"](reader).empty.startswith("A log has no output of the program.")
        roofline = TABLES["roofline"](reader)
        assert not roofline.rows
        assert roofline.empty
