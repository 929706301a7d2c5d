"""These tests check a folder that one process makes while another looks for leftovers: it belongs
to its maker, locked until it is removed.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fx_explorer.client import session_files
from fx_explorer.folders import Lock, temporary_folder

LOOKS_S = 0.3
"""How long the other one looks into the folder."""


@pytest.fixture
def looked_at_when_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """Another has the lock of each new folder before its maker asks for it."""
    make = tempfile.mkdtemp
    seen: list[str] = []

    def made_and_looked_at(*arguments: str, **options: str) -> str:
        folder = make(*arguments, **options)
        other = Lock(Path(folder))
        threading.Timer(LOOKS_S, other.release).start()
        seen.append(folder)
        return folder

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(tempfile, "mkdtemp", made_and_looked_at)
    yield seen
    assert seen


def is_locked(folder: Path) -> bool:
    try:
        Lock(folder).release()
    except BlockingIOError:
        return True
    return False


def test_a_temporary_folder_is_locked_although_another_looked_at_it_first(
    looked_at_when_made: list[str],
) -> None:
    with temporary_folder() as folder:
        assert str(folder) in looked_at_when_made
        time.sleep(2 * LOOKS_S)  # then it is not the other one's lock
        assert is_locked(folder)
    assert not folder.exists()


@pytest.mark.usefixtures("looked_at_when_made")
def test_the_directory_of_a_capture_is_made_although_another_looked_at_it_first() -> None:
    directory, lock = session_files.new_capture_directory()
    assert is_locked(directory)
    lock.release()


def test_a_temporary_folder_is_locked_until_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    remove = shutil.rmtree
    locked = []

    def removed(folder: Path, **options: bool) -> None:
        locked.append(is_locked(folder))
        remove(folder, **options)

    monkeypatch.setattr(shutil, "rmtree", removed)
    with temporary_folder() as folder:
        assert not locked
    assert locked == [True]
    assert not folder.exists()
