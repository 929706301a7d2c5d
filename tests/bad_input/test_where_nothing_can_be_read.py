"""These tests use files and directories without permission to read, and machines without a place
for temporary files: the user sees a sentence, not a traceback.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fx_explorer.cli import main
from tests.conftest import ROOT

LOG = ROOT / "tests" / "data" / "torch_trace" / "h200_recompiles.log.gz"

COMMANDS = (
    ["report"],
    ["check"],
    ["capture"],
    ["run"],
    ["graph"],
    ["diff"],
    ["ranks"],
    ["fix"],
    ["bench"],
    ["ledger"],
    ["numerics"],
    ["kernel"],
    ["profile"],
    ["memory"],
    ["modules"],
    ["support"],
    ["dynamic"],
    ["explore"],
    [],
)


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that the user may not look into. Root may look into any, so that the system is
    asked through what refuses it.
    """
    directory = tmp_path / "closed"
    directory.mkdir()
    for name in ("t.log", "m.py", "s.fxs", "p.pt2"):
        (directory / name).write_bytes(b"")
    stat, scandir, listdir = os.stat, os.scandir, os.listdir

    def refused(path: object, real: object) -> None:
        if (
            isinstance(path, str | os.PathLike)
            and Path(os.fspath(path)).is_relative_to(directory)
            and path != real
        ):
            raise PermissionError(13, "Permission denied", os.fspath(path))

    def stat_refused(path: object, *args: object, **keywords: object) -> object:
        refused(path, directory)
        return stat(path, *args, **keywords)  # type: ignore[call-overload]

    def scandir_refused(path: object = ".") -> object:
        refused(path, None)
        return scandir(path)  # type: ignore[call-overload]

    def listdir_refused(path: object = ".") -> object:
        refused(path, None)
        return listdir(path)  # type: ignore[call-overload]

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", stat_refused)
        patch.setattr(os, "scandir", scandir_refused)
        patch.setattr(os, "listdir", listdir_refused)
        yield directory


@pytest.mark.parametrize("name", ["", "t.log", "m.py", "s.fxs", "p.pt2"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command) or "none")
def test_what_may_not_be_looked_at_is_told(
    command: list[str], name: str, closed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([*command, str(closed / name)])
    told = capsys.readouterr().err
    assert code in (2, 5), told
    assert told.count("\n") == 1, told
    assert str(closed) in told


@pytest.mark.parametrize(
    "command", [["report"], ["check"], ["diff", str(LOG)], ["ranks"], ["graph"], ["capture"]]
)
def test_where_no_temporary_directory_can_be_made_it_is_told_how_to_name_one(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])
    target = str(LOG) if command[0] != "capture" else str(ROOT / "sample_models" / "convnet.py")
    assert main([*command, target]) in (4, 5)
    told = capsys.readouterr().err
    assert "Set TMPDIR to a directory with room" in told
    assert "Traceback" not in told
