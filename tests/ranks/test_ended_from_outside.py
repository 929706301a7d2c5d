"""These tests check that a comparison ended from outside leaves neither processes nor folders."""

from __future__ import annotations

import io
import os
import signal
import tempfile
from pathlib import Path

import pytest

from fx_explorer import cli
from fx_explorer.client.session_files import leftovers
from fx_explorer.command_line.given_logs import ReadingProgress
from fx_explorer.folders import IN_USE_PREFIX, temporary_folder
from fx_explorer.instruments.ranks import compared
from fx_explorer.instruments.ranks import compared as engines
from tests.ranks.logs_of_ranks import H200


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def own_process_and_folder(_: int) -> tuple[int, str]:
    with temporary_folder() as folder:
        return os.getpid(), str(folder)


def test_the_processes_of_a_pool_end_with_the_block_that_is_left(temporary: Path) -> None:
    children = []

    def leave() -> None:
        with engines.engine("", engines.FEW_BYTES, 2) as executor:
            children.append(executor.submit(own_process_and_folder, 0).result())
            raise SystemExit(143)

    with pytest.raises(SystemExit):
        leave()
    ((pid, folder),) = children
    assert pid != os.getpid()
    assert Path(folder).parent.parent == temporary  # in the folder that the parent removes
    assert not list(temporary.iterdir())
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, 0)  # it was waited for already


def test_a_signal_ends_the_command_as_ctrl_c_does(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended_meanwhile(_: str) -> None:
        with temporary_folder():
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(compared, "read_file", ended_meanwhile)
    with pytest.raises(SystemExit) as ended:
        cli.main(["ranks", str(H200 / "h200_ranks_diverge")])
    assert ended.value.code == 128 + signal.SIGTERM
    assert not list(temporary.iterdir())
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_what_a_killed_process_left_is_taken_away_by_the_next(temporary: Path) -> None:
    left = temporary / f"{IN_USE_PREFIX}gone"
    left.mkdir()
    (left / "log.fxs").write_text("half of a session")
    os.utime(left, (0, 0))
    with temporary_folder() as used:
        os.utime(used, (0, 0))
        assert not leftovers()
        assert list(temporary.iterdir()) == [used]


def test_progress_is_told_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    out = io.StringIO()
    with ReadingProgress(out) as progress:
        for second in range(25):
            now = float(second)
            progress.show_progress(second * 100, 10_000)
    assert out.getvalue().splitlines() == [
        "reading ranks: 0 of 10,000",
        "reading ranks: 1,000 of 10,000 · about 2 min left",
        "reading ranks: 2,000 of 10,000 · about 1 min left",
    ]


def test_few_files_that_are_read_at_once_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    out = io.StringIO()
    with ReadingProgress(out) as progress:
        for second in range(4):
            now = float(second)
            progress.show_progress(second * 100, 400)
    assert out.getvalue().splitlines() == ["reading ranks: 200 of 400"]
