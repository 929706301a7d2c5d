"""These tests check that versions of a function that was recompiled can be told apart in every
view, and that a sum over several is labelled so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fx_explorer import cli, model
from fx_explorer.overview.overview import overview
from fx_explorer.overview.view_tables import TABLES
from fx_explorer.session import SessionReader
from fx_explorer.tui.panes.table_rows import arranged, at_once
from tests.tui.conftest import OpenApp

PROGRAM = """import torch


@torch.compile
def score(x, power):
    return torch.tanh(x * power).sum()


x = torch.randn(8, 16, requires_grad=True)
score(x, 2).backward()
score(x.double(), 2).backward()  # another dtype
score(x, 2.5).backward()  # a number of another type
score(x[0], 2).backward()  # fewer dimensions
"""
"""``score`` is compiled four times: three times again."""

VERSIONS = 4

Captured = Callable[..., Path]


@pytest.fixture(scope="module")
def session(captured: Captured, tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("versions") / "thrice.py"
    program.write_text(PROGRAM)
    return captured(program)


@pytest.fixture
def thrice(session: Path) -> Iterator[SessionReader]:
    with SessionReader(session) as reader:
        yield reader


def names(reader: SessionReader) -> list[str]:
    return [row.name for row in reader.rows(model.Compilation) if row.status != "restarted"]


def test_the_program_recompiles_thrice(thrice: SessionReader) -> None:
    assert names(thrice) == ["0/0", "0/1", "0/2", "0/3"]


@pytest.mark.parametrize("view", ["graphs", "stages", "guards", "kernels", "memory", "time"])
def test_each_row_of_a_view_says_which_version_it_is_of(thrice: SessionReader, view: str) -> None:
    table = TABLES[view](thrice)
    shown = {
        name
        for row in table.rows
        for name in names(thrice)
        if any(f"[{name}]" in cell for cell in row.cells)
    }
    assert shown == set(names(thrice))
    for row in table.rows:
        assert not row.version or any(f"[{row.version}]" in cell for cell in row.cells), row.cells


@pytest.mark.parametrize("view", ["graphs", "guards", "kernels", "memory"])
def test_a_sum_below_a_table_says_which_versions_it_adds_up(
    thrice: SessionReader, view: str
) -> None:
    table = TABLES[view](thrice)
    assert f"adds up {VERSIONS} versions of score" in at_once(arranged(table, None, "")).totals
    words = "[0/1]"
    narrowed = at_once(arranged(table.searched(words) if table.searched else table, None, words))
    assert narrowed.order
    assert "versions" not in narrowed.totals


def test_sums_of_the_overview_say_over_how_many_versions_they_are(thrice: SessionReader) -> None:
    summed = [fact for fact in overview(thrice) if fact.topic in ("kernels", "memory")]
    assert {fact.topic for fact in summed} == {"kernels", "memory"}
    for fact in summed:
        assert f"a sum over {VERSIONS} versions of score" in fact.detail


def test_the_memory_of_a_step_is_of_one_version_and_says_so(thrice: SessionReader) -> None:
    table = TABLES["step_memory"](thrice)
    told = table.rows[0].detail()
    assert (
        f"{VERSIONS - 1} compilations of the same functions for other inputs: only the last of "
        "each is shown." in told.text
    )


def test_the_report_names_the_version_of_each_kernel_and_says_what_a_sum_is_over(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", str(session), "--format", "text"]) == 0
    printed = capsys.readouterr().out
    assert f"a sum over {VERSIONS} versions of score" in printed
    assert all(
        f"[{name}]" in printed and f"{number} of {VERSIONS}" in printed
        for number, name in enumerate(("0/0", "0/1", "0/2", "0/3"), start=1)
    )
    assert cli.main(["report", str(session)]) == 0
    kernels = [
        one
        for compiled in json.loads(capsys.readouterr().out)["compilations"]
        for one in compiled["kernels"]
    ]
    assert {one["version"]["number"] for one in kernels} == {1, 2, 3, 4}


@pytest.mark.parametrize("down", [0, 2, 1])
async def test_a_recompile_that_is_opened_has_its_own_graph_and_kernel_beside_it(
    session: Path, open_app: OpenApp, down: int
) -> None:
    """All versions have nodes of the line that the guard is about."""
    async with open_app(session, size=(160, 40)) as driver:
        await driver.press("2")
        await driver.until(lambda: driver.panes[1].document is not None)
        await driver.press("4")
        table = driver.explorer.table
        await driver.until(lambda: table.rows.line_count == VERSIONS - 1)
        await driver.press("g", *["down"] * down)
        version = table.version
        assert version == f"0/{down + 1}"
        await driver.press("enter")
        await driver.until(lambda: driver.explorer.view == "source")
        _, graph, kernel = driver.panes
        assert graph.document.owner == version
        assert kernel.document.owner == version
