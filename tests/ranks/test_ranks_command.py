"""These tests run ``fx-explorer ranks``: its output, its exit codes, and the process in which the
work is done.
"""

from __future__ import annotations

import html
import json
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from fx_explorer import cli
from fx_explorer.command_line.given_logs import is_of_ranks
from fx_explorer.command_line.starting_app import describe_compared
from fx_explorer.errors import UsageError
from fx_explorer.instruments.ranks.compared import FEW_BYTES, SameProcess, engine
from fx_explorer.instruments.ranks.rank_finding import RankFinding
from fx_explorer.instruments.ranks.reading import read_file
from fx_explorer.instruments.ranks.sentences import MOST_FURTHER, further
from tests.ranks.logs_of_ranks import H200

ALIKE, DIVERGING = H200 / "h200_ranks_ddp", H200 / "h200_ranks_diverge"


def test_the_answer_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ranks", str(DIVERGING)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Rank 1 failed to compile f() at ranks_zoo.py:27 in AOTAutograd")
    assert lines[0].endswith("Rank 1 diverges from rank 0.")
    assert lines[1].startswith(
        "First: Rank 1 took a different branch at ranks_zoo.py:29, where rank 0 had r == 0"
    )


def test_ranks_that_are_alike_are_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["ranks", str(ALIKE)])
    assert capsys.readouterr().out.startswith(
        "Both ranks compiled the same, 5 compilations each.\n"
    )


def test_a_check_fails_where_ranks_diverge_and_is_met_where_they_do_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["ranks", str(DIVERGING), "--check"]) == 1
    assert cli.main(["ranks", str(ALIKE), "--check"]) == 0


def test_files_can_be_given_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ranks", *map(str, sorted(DIVERGING.iterdir())), "--check"]) == 1


def test_the_time_line_shows_who_compiled_when_and_who_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cli.main(["ranks", str(DIVERGING)])
    rows = [
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("  rank ") and "█" in line
    ]
    assert len(rows) == 2
    assert rows[1].endswith("x")


def test_json_has_every_finding_and_which_ranks_agree(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["ranks", str(DIVERGING), "--format", "json"])
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "fx-explorer/ranks/1"
    assert (told["diverges"], told["differing_ranks"], told["first_divergence"]["line"]) == (
        True,
        [1],
        29,
    )
    assert told["agreement"]["graph"] == [[0], [1]]
    assert told["agreement"]["torch"] == [[0, 1]]


def test_markdown_shows_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["ranks", str(DIVERGING), "--format", "markdown"])
    printed = capsys.readouterr().out
    assert printed.startswith("**Rank 1 failed to compile f() at ranks\\_zoo.py:27")
    assert "ranks\\_zoo.py:29" in printed


def test_the_page_says_what_the_text_says(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["ranks", str(DIVERGING), "--format", "json"])
    told = json.loads(capsys.readouterr().out)
    cli.main(["ranks", str(DIVERGING), "--format", "html"])
    page = capsys.readouterr().out
    shown = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())
    for sentence in (told["summary"], *(wait["words"] for wait in told["waits"])):
        assert sentence[1:] in shown
    assert "connect-src" not in page
    assert "default-src 'none'" in html.unescape(page)
    assert "<script" not in page


def test_few_small_logs_are_read_in_this_process_and_many_beside_it() -> None:
    with engine("", 1000, 2) as here:
        assert isinstance(here, SameProcess)
    with engine("", FEW_BYTES, 64) as beside:
        assert isinstance(beside, ProcessPoolExecutor)


def test_a_process_beside_says_of_a_log_what_this_one_says() -> None:
    log = str(DIVERGING / "rank_1.log.gz")
    with engine("", FEW_BYTES, 64) as beside:
        assert beside.submit(read_file, log).result() == read_file(log)


def test_what_the_work_raises_comes_with_its_result() -> None:
    future = SameProcess().submit(int, "x")
    with pytest.raises(ValueError, match="invalid literal"):
        future.result()


def test_an_engine_that_is_none_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ranks", str(ALIKE), "--engine", "spark://host"]) == 2
    assert "--engine dask://HOST:PORT" in capsys.readouterr().err


def test_without_dask_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(UsageError, match=r"pip install 'fx-explorer\[dask\]'"),
        engine("dask://localhost:8786", 0, 1),
    ):
        pass


def test_a_dask_cluster_says_what_this_process_says(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    log = str(DIVERGING / "rank_1.log.gz")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, local_directory=tmp_path
    ) as cluster:
        address = f"dask://{cluster.scheduler_address.removeprefix('tcp://')}"
        with engine(address, 0, 1) as executor:
            assert executor.submit(read_file, log).result(timeout=120) == read_file(log)


def test_a_directory_of_logs_needs_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([str(DIVERGING)]) == 0
    assert "Rank 1 diverges from rank 0." in capsys.readouterr().out.splitlines()[0]


def test_a_package_of_python_with_a_log_in_it_is_a_target_and_no_job(tmp_path: Path) -> None:
    assert not is_of_ranks(str(tmp_path))
    (tmp_path / "rank_0.log.gz").write_bytes((DIVERGING / "rank_0.log.gz").read_bytes())
    assert is_of_ranks(str(tmp_path))
    (tmp_path / "__init__.py").touch()
    assert not is_of_ranks(str(tmp_path))


def test_two_ranks_compared_are_what_diff_says_of_their_logs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs = [DIVERGING / f"rank_{rank}.log.gz" for rank in (0, 1)]
    assert cli.main(["diff", *map(str, logs)]) == 0
    printed = describe_compared(logs[0], logs[1], (str(logs[0]), str(logs[1])))
    assert capsys.readouterr().out.split() == printed.split()


def test_a_command_for_one_session_says_what_compares_the_ranks_of_a_directory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["report", str(DIVERGING)]) == 2
    assert f"fx-explorer ranks {DIVERGING}" in capsys.readouterr().err


def test_many_ranks_that_all_differ_are_told_in_a_screen_or_two() -> None:
    found = [
        RankFinding(
            "graph", (rank,), (0,), 0, f"the graph of f() on rank {rank} is not that of rank 0"
        )
        for rank in range(1, 500)
    ]
    told = list(further(found, found[0]))
    assert len(told) == MOST_FURTHER + 1
    assert told[-1] == f"… and {498 - MOST_FURTHER} more differences."


@pytest.mark.parametrize("width", [60, 80, 120])
def test_on_a_terminal_no_line_is_wider_and_no_word_is_lost(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert cli.main(["ranks", str(DIVERGING)]) == 0
    plain = capsys.readouterr().out
    monkeypatch.setattr("fx_explorer.instruments.ranks.command.width_for", lambda out: width)
    assert cli.main(["ranks", str(DIVERGING)]) == 0
    fitted = capsys.readouterr().out
    assert max(map(len, plain.splitlines())) > width
    assert max(map(len, fitted.splitlines())) <= width
    assert fitted.split() == plain.split()
