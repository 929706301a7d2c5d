"""These tests check that a session that cannot be written says why, with a remedy."""

from __future__ import annotations

import shutil
import sqlite3
from collections import namedtuple
from pathlib import Path

import pytest

from fx_explorer.errors import SessionWriteError
from fx_explorer.session.write_errors import LITTLE_ROOM, ExplainedWrite

Usage = namedtuple("Usage", ["free"])


@pytest.mark.parametrize(
    ("free", "told"),
    [(LITTLE_ROOM - 1, "no room is left on the disk"), (LITTLE_ROOM, "disk I/O error")],
)
def test_a_full_disk_is_told_as_that_whatever_sqlite_calls_it(
    free: int, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(free))
    with pytest.raises(SessionWriteError, match=told), ExplainedWrite(tmp_path / "s.fxs", "write"):
        raise sqlite3.OperationalError("disk I/O error")


def test_a_folder_that_is_gone_leaves_what_sqlite_said(tmp_path: Path) -> None:
    with (
        pytest.raises(SessionWriteError, match="unable to open"),
        ExplainedWrite(tmp_path / "gone" / "s.fxs", "write"),
    ):
        raise sqlite3.OperationalError("unable to open database file")
