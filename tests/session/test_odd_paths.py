"""These tests check session files whose names are not UTF-8, or mean something in a URI: they open,
and messages about them can be printed.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from fx_explorer.cli import main
from tests.sessions import write_training_step

NAMES = (
    b"caf\xe9.fxs",
    b"\xff\xfe.fxs",
    b"a?mode=rw.fxs",
    b"a%41#b.fxs",
    b"a\nb.fxs",
    b"\x1b]0;x\x07.fxs",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_session_opens_whatever_it_is_called(
    name: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / os.fsdecode(name)
    shutil.copy(write_training_step(tmp_path / "s.fxs").path, path)
    for words in (
        ["report", str(path)],
        ["explore", str(path)],
        ["diff", str(path), str(tmp_path / "s.fxs")],
    ):
        assert main(words) == 0
        assert "\x1b" not in capsys.readouterr().out
    path.write_bytes(b"no session")
    assert main(["report", str(path)]) == 5
    said = capsys.readouterr().err
    assert "\x1b" not in said
