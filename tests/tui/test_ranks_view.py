"""These tests check the view of a job's ranks: the answer above, rows for ranks that are alike, and
the keys on them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer.errors import SessionError
from fx_explorer.instruments.ranks.compared import compare
from fx_explorer.instruments.ranks.report import group_text
from fx_explorer.instruments.ranks.screen import CompareTwo, RanksApp, RanksState
from fx_explorer.tui.widgets.code_view import CodeView
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import RowList
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.ranks.logs_of_ranks import H200, as_rank, text_of, with_texts, write_rank

DIVERGING = H200 / "h200_ranks_diverge"


def beside(left: Path, right: Path, names: tuple[str, str]) -> str:
    return f"{names[0]} ({left.name}) beside {names[1]} ({right.name})"


def app_of(folder: Path, compare_two: CompareTwo = beside) -> RanksApp:
    return RanksApp(RanksState(compare([folder])), str(folder), compare_two)


@pytest.fixture(scope="module")
def four_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("four")
    log = text_of(H200 / "h200_ranks_diverge" / "rank_0.log.gz")
    other = with_texts(
        log, b"torch._C._nn.gelu(linear_3)", b"torch.relu(linear_3)", b"dynamo_output_graph"
    )
    for rank in range(4):
        write_rank(folder, rank, as_rank(other if rank == 2 else log, rank))
    return folder


def rows(app: RanksApp) -> list[str]:
    shown = app.query_one("#ranks", RowList)
    return [shown.line_text(line) for line in range(shown.line_count)]


def told(app: RanksApp) -> str:
    return app.query_one("#told", CodeView).text


async def test_the_divergence_is_on_top_and_the_cursor_on_the_ranks_that_differ() -> None:
    app = app_of(DIVERGING)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        answer = "\n".join(line.plain for line in app._answer())
        assert answer.startswith("Rank 1 failed to compile f() at ranks_zoo.py:27 in AOTAutograd")
        assert "Rank 1 diverges from rank 0.\nFirst: Rank 1 took a different branch" in answer
        assert app.row.rank.rank == 1
        assert "Rank 1 failed to compile f()" in told(app)


async def test_enter_opens_the_rank_under_the_cursor() -> None:
    app = app_of(DIVERGING)
    async with app.run_test() as pilot:
        await pilot.press("up", "enter")
    assert app.return_value == 0


async def test_leaving_opens_none() -> None:
    app = app_of(DIVERGING)
    async with app.run_test() as pilot:
        await pilot.press("q")
    assert app.return_value is None


async def test_a_group_opens_into_its_ranks_and_each_can_be_opened(four_ranks: Path) -> None:
    app = app_of(four_ranks)
    async with app.run_test() as pilot:
        assert len(rows(app)) == 2
        await pilot.press("up", "right")
        assert len(rows(app)) == 5
        await pilot.press("left")
        assert len(rows(app)) == 2
        await pilot.press("right", "down", "down", "down", "enter")
    assert app.return_value == 3


async def test_an_opened_group_has_room_on_the_screen(four_ranks: Path) -> None:
    app = app_of(four_ranks)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("up", "right")
        await pilot.pause()
        assert app.query_one("#ranks", RowList).size.height == 6


async def test_two_ranks_are_compared_and_escape_goes_back(four_ranks: Path) -> None:
    app = app_of(four_ranks)
    async with app.run_test() as pilot:
        await pilot.press("c")
        await app.workers.wait_for_complete()
        await pilot.pause()
        names = [f"dedicated_log_torch_trace_rank_{rank}.log" for rank in (0, 2)]
        assert told(app) == f"rank 0 ({names[0]}) beside rank 2 ({names[1]})"
        await pilot.press("escape")
        assert "What rank 2 compiled" in told(app)


@in_exhaustive_runs
async def test_the_marked_rank_is_the_one_that_others_are_compared_with(four_ranks: Path) -> None:
    app = app_of(four_ranks)
    async with app.run_test() as pilot:
        await pilot.press("m", "up", "c")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert told(app).startswith("rank 2 (")


async def test_a_rank_is_not_compared_with_itself() -> None:
    app = app_of(DIVERGING)
    async with app.run_test() as pilot:
        await pilot.press("up", "c")
        assert told(app).startswith("Rank 0 is already the marked one")


async def test_a_log_that_is_gone_meanwhile_is_told() -> None:
    def gone(left: Path, right: Path, names: tuple[str, str]) -> str:
        raise SessionError(f"{left} cannot be read: it is gone")

    app = app_of(DIVERGING, gone)
    async with app.run_test() as pilot:
        await pilot.press("c")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "cannot be read: it is gone" in told(app)


@in_exhaustive_runs
async def test_what_was_open_is_open_again_when_a_session_was_closed(four_ranks: Path) -> None:
    state = RanksState(compare([four_ranks]))
    first = RanksApp(state, "", beside)
    async with first.run_test() as pilot:
        await pilot.press("up", "right", "down", "down", "enter")
    again = RanksApp(state, "", beside)
    async with again.run_test() as pilot:
        await pilot.pause()
        assert len(rows(again)) == 5
        assert again.row.rank.rank == first.return_value


@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40), (200, 50), (30, 10)]))
async def test_every_size_of_terminal_shows_the_answer_the_rows_and_the_keys(
    size: tuple[int, int],
) -> None:
    app = app_of(DIVERGING)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert app.query_one("#answer").size.height >= 2
        assert app.query_one("#ranks", RowList).size.height >= 2
        assert "open" in app.query_one("#keys", OneLine).text


@in_exhaustive_runs
async def test_the_time_line_is_drawn_again_for_a_terminal_that_is_resized() -> None:
    app = app_of(DIVERGING)
    async with app.run_test(size=(160, 40)) as pilot:
        await pilot.pause()
        wide = max(len(line) for line in told(app).splitlines() if "█" in line)
        for width in (70, 160):
            await pilot.resize_terminal(width, 40)
            await pilot.pause()
            drawn = [
                len(line)
                for line in told(app).splitlines()
                if "█" in line and "compiles" not in line
            ]
            assert max(drawn) <= width - 4
            assert (max(drawn) > 70) == (width == 160)
        assert wide > 70


def test_why_a_function_was_left_to_python_is_told_in_torchs_first_sentence() -> None:
    ranks = compare([DIVERGING])
    explained = "Attempted to call function marked as skipped Explanation: Dynamo developers have … Hint: Avoid calling it."
    summary = replace(
        ranks.summaries[1],
        compilations=(replace(ranks.summaries[1].compilations[0], error=explained),),
    )
    told = "\n".join(group_text(ranks, ranks.groups[1], summary, 120))
    assert told.endswith(": Attempted to call function marked as skipped")
    assert "Hint" not in told
