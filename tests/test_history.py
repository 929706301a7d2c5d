"""These tests check the history: what is kept of which project, what goes first, the names of
captures on a command line, and what happens where it cannot be written or read.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fx_explorer import cli
from fx_explorer.client import Capture, history, session_files
from fx_explorer.client.history import History, Hold, number_in, project_of
from fx_explorer.client.history_settings import HistorySettings
from fx_explorer.client.interrupted import news_of_leftovers
from fx_explorer.client.session_files import is_a_session
from fx_explorer.errors import SessionWriteError, UsageError
from fx_explorer.model import CaptureRequest, Compilation
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import write_training_step

Printed = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def keep(folder: Path, target: str = "model.py", **settings: int) -> history.KeptCapture:
    """Keep a session of a target below ``folder``, and let go of it."""
    session = folder / "written.fxs"
    write_training_step(session)
    kept, hold = History(HistorySettings(**settings)).keep(
        session, target, str(folder), is_moved=True
    )
    hold.release()
    return kept


def numbers() -> list[int]:
    return [capture.number for capture in History().captures()]


# what is kept, and what goes


def test_a_session_is_moved_and_is_readable_for_its_user_alone(tmp_path: Path) -> None:
    kept = keep(tmp_path)
    assert not (tmp_path / "written.fxs").exists()
    assert is_a_session(kept.session)
    assert numbers() == [kept.number] == [1]
    (capture,) = History().captures()
    assert (capture.project, capture.target) == (str(tmp_path), "model.py")
    for path in [History().folder, kept.folder]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for path in kept.folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_oldest_go_first_within_a_project_and_a_held_one_stays(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    keep(other)
    held = Hold(keep(tmp_path).folder)
    for _ in range(3):
        keep(tmp_path, sessions=2)
    assert numbers() == [5, 4, 2, 1]
    held.release()
    keep(tmp_path, sessions=2)
    assert numbers() == [6, 5, 1]


def test_the_oldest_of_all_go_when_they_are_too_large_and_the_newest_stays(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    first = keep(other)
    with (first.folder / "large").open("wb") as file:
        file.truncate(1_500_000)
    second = keep(tmp_path, megabytes=1)
    assert numbers() == [second.number]
    session = tmp_path / "large.fxs"
    write_training_step(session)
    with session.open("ab") as file:
        file.write(bytes(1_500_000))
    kept, hold = History(HistorySettings(megabytes=1)).keep(
        session, "x.py", str(tmp_path), is_moved=False
    )
    hold.release()
    assert session.exists(), "a copy was kept"
    assert numbers() == [kept.number]


def test_two_processes_at_once_keep_captures_of_their_own(tmp_path: Path) -> None:
    folders = [tmp_path / str(i) for i in range(12)]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(6) as pool:
        kept = list(pool.map(keep, folders))
    assert len({capture.number for capture in kept}) == 12
    assert all(is_a_session(capture.session) for capture in kept)


def test_a_number_is_never_used_again(tmp_path: Path) -> None:
    keep(tmp_path)
    History().forget(keep(tmp_path))
    assert keep(tmp_path).number == 3


def test_what_a_killed_process_left_half_made_goes(tmp_path: Path) -> None:
    kept = keep(tmp_path)
    half_made = History().folder / "7"
    half_made.mkdir()
    old = time.time() - 2 * history.HALF_MADE_S
    os.utime(half_made, (old, old))
    assert numbers() == [kept.number], "it is no capture"
    keep(tmp_path)
    assert not half_made.exists()


def test_the_project_is_the_repository_or_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "repository" / "inside"
    inside.mkdir(parents=True)
    (inside / "model.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert project_of(str(inside / "model.py")) == str(inside)
    (tmp_path / "repository" / ".git").mkdir()
    assert project_of(f"{inside / 'model.py'}:Net") == str(tmp_path / "repository")
    assert project_of("package.module:object") == str(tmp_path)
    monkeypatch.chdir(inside)
    assert project_of("package.module:object") == str(tmp_path / "repository")


# captures


async def captured(target: Path, warm_python: str, **options: object) -> Capture:
    """Capture a target with a history, to its end."""
    capture = Capture(
        CaptureRequest(str(target), session="", backend="eager"),
        warm_python,
        120,
        history=History(),
        **options,  # type: ignore[arg-type]
    )
    await capture.start()
    async for _ in capture.notices():
        pass
    await capture.wait()
    return capture


PROGRAM = """
import torch
compiled = torch.compile(lambda x: x.sin() + 1, backend="eager")
compiled(torch.ones(3))
"""


async def test_a_capture_without_a_place_of_its_own_is_in_the_history(
    tmp_path: Path, warm_python: str
) -> None:
    (tmp_path / "script.py").write_text(PROGRAM)
    capture = await captured(tmp_path / "script.py", warm_python)
    assert capture.kept_name == "history:1"
    assert not capture.is_temporary
    with SessionReader(capture.session_path) as reader:
        assert reader.count(Compilation) == 1
    capture.discard()
    assert numbers() == [1]
    assert session_files.leftovers() == []


async def test_a_program_that_takes_its_process_down_is_in_the_history(
    tmp_path: Path, warm_python: str
) -> None:
    (tmp_path / "script.py").write_text(f"{PROGRAM}\nimport os\nos.abort()\n")
    capture = await captured(tmp_path / "script.py", warm_python)
    capture.discard()
    assert capture.outcome is not None
    assert capture.outcome.kind == "killed"
    with SessionReader(History().find(1).session) as reader:
        assert reader.meta("outcome")["kind"] == "killed"
        assert reader.count(Compilation) == 1


async def test_a_capture_in_a_file_of_the_users_is_kept_as_well_and_what_replaces_it_changes_nothing(
    tmp_path: Path, warm_python: str
) -> None:
    (tmp_path / "script.py").write_text(PROGRAM)
    output = tmp_path / "mine.fxs"
    capture = await captured(tmp_path / "script.py", warm_python, output=output)
    capture.discard()
    assert capture.session_path == output
    kept = History().find(1).session
    before = kept.read_bytes()
    with SessionWriter(output) as writer:
        writer.set_meta("mine", True)
    assert kept.read_bytes() == before


async def test_a_target_that_does_not_start_is_not_kept(tmp_path: Path, warm_python: str) -> None:
    capture = await captured(tmp_path / "missing.py", warm_python)
    capture.discard()
    assert capture.outcome is not None
    assert capture.outcome.kind == "not_started"
    assert numbers() == []


@pytest.mark.parametrize("trouble", ["no folder", "full disk"])
async def test_a_history_that_cannot_be_written_fails_no_capture(
    tmp_path: Path, warm_python: str, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    (tmp_path / "script.py").write_text(PROGRAM)
    if trouble == "no folder":
        (tmp_path / "state").mkdir()
        (tmp_path / "state" / "fx-explorer").write_text("in the way")
        reason = "File exists"
    else:
        reason = os.strerror(errno.ENOSPC)

        def place(*_: object) -> None:
            raise SessionWriteError("cannot write") from OSError(errno.ENOSPC, reason)

        monkeypatch.setattr(history, "place_session", place)
    capture = await captured(tmp_path / "script.py", warm_python)
    assert capture.outcome is not None
    assert capture.outcome.kind == "finished"
    assert capture.outcome.message == ""
    folder = tmp_path / "state" / "fx-explorer" / "history"
    assert capture.history_problem == (
        f"the capture could not be kept in the history: {folder} cannot be written ({reason})"
    )
    assert capture.is_temporary
    assert is_a_session(capture.session_path)
    assert not list(folder.glob("*/")) if folder.is_dir() else True
    capture.discard()


def test_an_interrupted_capture_is_moved_into_the_history_at_the_next_start(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text("")
    directory, lock = session_files.new_capture_directory()
    session = directory / "session.fxs"
    write_training_step(session, finished=False)
    with SessionWriter(session) as writer:
        request = CaptureRequest("train.py", str(session))
        writer.set_meta("request", json.loads(request.to_json()))
        writer.set_meta("target", {"file": str(tmp_path / "train.py")})
    assert news_of_leftovers(History()) == [], "it is held while it runs"
    lock.release()
    assert news_of_leftovers(History()) == [], "its worker may still write"
    old = time.time() - 60
    for file in directory.iterdir():
        os.utime(file, (old, old))
    (line,) = news_of_leftovers(History())
    assert line.startswith("a capture was interrupted; what it recorded is kept (train.py, ")
    assert line.endswith(": fx-explorer history:1")
    assert not directory.exists()
    (capture,) = History().captures()
    assert capture.project == str(tmp_path)
    assert news_of_leftovers(History()) == []


# the command line


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two captures, in which the command line is."""
    folder = tmp_path / "project"
    folder.mkdir()
    keep(folder)
    keep(folder, "other.py")
    monkeypatch.chdir(folder)
    return folder


def test_the_list_says_what_came_out_and_what_to_do(project: Path, capsys: Printed) -> None:
    assert cli.main(["history"]) == 0
    shown = capsys.readouterr().out
    assert f"captures of {project} (2, " in shown
    assert shown.index("other.py") < shown.index("model.py"), "the newest first"
    assert "1 graph, 0 graph breaks, 3 kernels" in shown
    assert "fx-explorer history diff 1 2" in shown


def test_programs_get_the_same_list_within_bounds(project: Path, capsys: Printed) -> None:
    for _ in range(20):
        keep(project, f"{'long_' * 100}.py")
    capsys.readouterr()
    assert cli.main(["history", "--json"]) == 0
    text = capsys.readouterr().out
    assert len(text) <= 12_000
    content = json.loads(text)
    assert content["schema"] == "fx-explorer/history/1"
    assert len(content["captures"]) == 20
    assert content["captures"][0]["name"] == "history:22"
    assert content["captures"][0]["graphs"] == 1
    assert cli.main(["history", "--json", "--limit", "1"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (len(content["captures"]), content["left_out"]) == (1, 19)


def test_another_directory_names_the_projects_that_have_captures(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["history"]) == 0
    shown = capsys.readouterr().out
    assert f"No capture of {tmp_path} is kept." in shown
    assert f"{project} (2, " in shown
    assert cli.main(["history", "--project", "project"]) == 0
    assert "other.py" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["history:2", "history:-1"])
def test_a_capture_is_a_session_for_any_command(project: Path, capsys: Printed, name: str) -> None:
    assert cli.main(["report", name, "--section", "graphs", "--format", "text"]) == 0
    assert "Joint graph" in capsys.readouterr().out
    assert cli.main([name]) == 0
    assert capsys.readouterr().out


def test_two_captures_are_compared_by_their_numbers(project: Path, capsys: Printed) -> None:
    assert cli.main(["history", "diff", "1", "2", "--format", "json"]) == 0
    by_numbers = capsys.readouterr().out
    assert cli.main(["diff", "history:1", "history:2", "--format", "json"]) == 0
    assert capsys.readouterr().out == by_numbers
    assert '"history:1"' in by_numbers


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["history:9"], "there is no history:9: it was removed, or never existed"),
        (["history", "diff", "1", "9"], "there is no history:9"),
        (["capture", "history:1"], "history:1 is already a capture"),
        (["history", "forget"], "say which to forget: fx-explorer history forget N"),
        (["history", "forget", "2", "9"], "there is no history:9"),
        (["history", "--all"], "--all and numbers work only with forget"),
        (["history", "remove"], "history has no action 'remove'"),
    ],
)
def test_what_is_not_there_is_one_sentence(
    project: Path, capsys: Printed, words: list[str], message: str
) -> None:
    assert cli.main(words) == 2
    assert message in capsys.readouterr().err
    assert numbers() == [2, 1]


def test_captures_are_forgotten_by_number_or_all_of_the_project(
    project: Path, tmp_path: Path, capsys: Printed
) -> None:
    elsewhere = keep(tmp_path)
    held = Hold(History().find(2).folder)
    assert cli.main(["history", "forget", "2"]) == 2
    assert "history:2 is open in another fx-explorer" in capsys.readouterr().err
    held.release()
    assert cli.main(["history", "forget", "1"]) == 0
    assert capsys.readouterr().out == "forgot history:1 (model.py)\n"
    assert cli.main(["history", "forget", "--all"]) == 0
    assert numbers() == [elsewhere.number]


def test_damaged_and_foreign_sessions_are_listed_with_the_reason(
    project: Path, capsys: Printed
) -> None:
    (History().find(1).folder / "about.json").write_bytes(b"\xff{")
    History().find(1).session.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    newer = History().find(2).session
    with sqlite3.connect(newer) as database:
        database.execute("UPDATE meta SET value='9999' WHERE key='schema_version'")
    database.close()
    assert cli.main(["history", "--project", str(project)]) == 0
    assert "was written by a newer fx-explorer (schema 9999" in capsys.readouterr().out
    assert cli.main(["history:2"]) == 5
    assert "upgrade with" in capsys.readouterr().err
    assert cli.main(["history:1"]) == 5
    assert cli.main(["history", "forget", "1", "2"]) == 0
    assert numbers() == []


def test_the_history_is_switched_off_by_one_setting(
    project: Path, tmp_path: Path, capsys: Printed
) -> None:
    config = tmp_path / "config" / "fx-explorer"
    config.mkdir(parents=True)
    (config / "config.toml").write_text("[history]\nkeep = false\n")
    assert history.history_to_keep() is None
    assert cli.main(["history"]) == 0
    assert "New captures are not kept: keep = false in" in capsys.readouterr().out
    (config / "config.toml").write_text("[history]\nkeep = 0\nsessions = 0\nsize = 3\n")
    kept = history.history_to_keep()
    assert kept is not None
    assert (kept.settings.keep, kept.settings.sessions) == (True, 20)
    assert [problem.split(": ", 1)[1] for problem in kept.settings.problems] == [
        "keep = 0 must be true or false",
        "sessions = 0 must be a whole number from 1 on. To keep no captures: keep = false",
        "'size' is not a setting of [history]",
    ]


@pytest.mark.parametrize("target", ["history:newest", "history:", "history:1:2", "my_history:1"])
def test_an_object_of_a_module_called_history_is_no_number(target: str) -> None:
    assert number_in(target) is None


def test_what_a_capture_holds_is_found_only_while_it_is_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no capture is kept"):
        History().find(1)
