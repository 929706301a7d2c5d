"""These tests check whether this user captured a session on this machine: what keeps the mark, and
what removes it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.client.session_files import copy_session, session_file
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.ownership import (
    MARK,
    is_captured_here,
    mark_as_captured_here,
    remember_session,
    secret_path,
)
from fx_explorer.session.writer import finish_session
from fx_explorer.tui.controllers.leaving import save_session

SOURCE = "import triton\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def write(
    path: Path, *, source: str = SOURCE, inputs: str = "torch.ones(2)", mark: str = ""
) -> Path:
    with SessionWriter(path) as writer:
        writer.set_meta("request", {"target": "m.py:f", "inputs": inputs})
        writer.add(model.SourceFile(0, "/p/m.py", writer.text("def f(x): return x"), 1))
        writer.add(
            model.Artifact(
                0, 1, "kernel", "kernel", "forward", "k", "triton", writer.text(source), 1
            )
        )
        if mark:
            writer.set_meta(MARK, mark)
        else:
            mark_as_captured_here(path, writer)
    finish_session(path)
    return path


def is_own(path: Path) -> bool:
    with SessionReader(path) as reader:
        return is_captured_here(reader)


def mark_of(path: Path) -> str:
    with SessionReader(path) as reader:
        return str(reader.meta(MARK))


def test_the_mark_holds_for_a_copy_and_for_what_is_built_later(tmp_path: Path) -> None:
    session = write(tmp_path / "s.fxs")
    copy = Path(shutil.copy(session, tmp_path / "copy.fxs"))
    with SessionWriter(copy) as writer:
        writer.add(model.KernelBuild(0, 1, 0, {"XBLOCK": 1}, "h100"))
        writer.add(
            model.Artifact(0, 1, "ptx", "kernel", "forward", "k", "ptx", writer.text("ptx"), 1)
        )
        writer.set_meta("outcome", {"kind": "finished"})
    assert is_own(session)
    assert is_own(copy)


CHANGES = {
    "another kernel": "UPDATE text SET body=(SELECT body FROM text WHERE id=1) WHERE id=2",
    "one kernel more": "INSERT INTO artifact SELECT 9, 1, kind, stage, direction, title, language, 1, 1 FROM artifact",
    "another request": "UPDATE meta SET value=replace(value, 'ones', 'open') WHERE key='request'",
    "another target": "INSERT INTO meta VALUES ('target', '{}')",
    "another path": "UPDATE source_file SET path='/home/me/.bashrc'",
    "a choice with a source": "INSERT INTO kernel_build (id, kernel, source) VALUES (1, 1, 1)",
    "machine code": "INSERT INTO kernel_build (id, kernel, machine_code) VALUES (1, 1, 1)",
    "no request": "DELETE FROM meta WHERE key='request'",
    "another kind of mark": f"UPDATE meta SET value='true' WHERE key='{MARK}'",
    "broken mark": f"UPDATE meta SET value='{{' WHERE key='{MARK}'",
    "text that is none": "UPDATE text SET body=x'00' WHERE id=2",
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_could_run_cannot_be_changed_under_the_mark(change: str, tmp_path: Path) -> None:
    session = write(tmp_path / "s.fxs")
    with sqlite3.connect(session) as db:
        db.execute(CHANGES[change])
    db.close()
    assert not is_own(session)


def test_a_mark_cannot_be_carried_to_another_session(tmp_path: Path) -> None:
    own = write(tmp_path / "own.fxs")
    assert not is_own(write(tmp_path / "other.fxs", source="import os", mark=mark_of(own)))
    assert is_own(write(tmp_path / "same.fxs", mark=mark_of(own)))


def test_another_user_has_another_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = write(tmp_path / "s.fxs")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    assert not is_own(session)
    assert not (tmp_path / "elsewhere").exists(), "asking makes no secret"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert secret_path().is_absolute()


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o604])
def test_a_secret_that_others_could_read_is_none(mode: int, home: Path, tmp_path: Path) -> None:
    session = write(tmp_path / "s.fxs")
    assert secret_path().stat().st_mode & 0o777 == 0o600
    secret_path().chmod(mode)
    assert not is_own(session)


def test_a_secret_is_a_file_of_the_users_own(home: Path, tmp_path: Path) -> None:
    session = write(tmp_path / "s.fxs")
    secret = secret_path().read_bytes()
    secret_path().rename(tmp_path / "moved")
    secret_path().symlink_to(tmp_path / "moved")
    assert not is_own(session)
    secret_path().unlink()
    os.mkfifo(secret_path(), 0o600)
    assert not is_own(session), "and nobody waits for it"
    secret_path().unlink()
    secret_path().write_bytes(secret[:8])
    secret_path().chmod(0o600)
    assert not is_own(session)


def test_without_a_place_for_a_secret_a_session_is_not_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    session = write(tmp_path / "s.fxs")
    assert mark_of(session) == "None"
    assert not is_own(session)


def test_what_is_saved_while_it_is_captured_is_the_users_own_for_another_process(
    tmp_path: Path,
) -> None:
    session = write(tmp_path / "s.fxs", mark="growing")
    copy_session(session, session_file(tmp_path / "strangers.fxs"))
    remember_session(session)
    saved = save_session(session, tmp_path / "saved.fxs")
    # Another process remembers nothing: the mark in the file counts.
    assert is_own(saved)
    assert not is_own(tmp_path / "strangers.fxs"), "a copy of a stranger's stays a stranger's"
