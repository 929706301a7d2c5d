"""These tests check that files of one name in one session are shown with the folders that tell them
apart.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.cli import main
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.file_names import distinct_names, file_name, in_file

MINE, THEIRS, MAIN = "/home/me/work/trainer.py", "/venv/transformers/trainer.py", "/home/me/go.py"


def write(path: Path, *files: str, breaks: bool = True) -> Path:
    """Write files with one compilation and one graph break each, at lines 7, 8 …"""
    with SessionWriter(path) as writer:
        for number, file in enumerate(files):
            writer.add(model.SourceFile(0, file, 0))
            row = model.Compilation(0, f"{number}/0", number, 0, f"f{number}", file, 4)
            compilation = writer.add(row)
            if breaks:
                reason, code = ("GB0059", "a builtin", "", ("leave it",)), "print(x)"
                writer.add(model.GraphBreak(0, compilation, *reason, file, 7 + number, code))
    return path


def test_each_is_shown_with_its_folder_and_others_without(tmp_path: Path) -> None:
    with SessionReader(write(tmp_path / "a.fxs", MINE, THEIRS, MAIN)):
        assert in_file(MINE, 7) == "work/trainer.py:7"
        assert in_file(THEIRS, 2164) == "transformers/trainer.py:2164"
        assert in_file(MAIN, 3) == "go.py:3"


def test_a_file_of_no_open_session_is_shown_by_its_name(tmp_path: Path) -> None:
    with SessionReader(write(tmp_path / "a.fxs", MINE, THEIRS)):
        assert file_name("/elsewhere/trainer.py") == "trainer.py"
    assert file_name(MINE) == "trainer.py"


def test_another_open_session_does_not_change_the_names_of_this(tmp_path: Path) -> None:
    with (
        SessionReader(write(tmp_path / "a.fxs", MINE)),
        SessionReader(write(tmp_path / "b.fxs", THEIRS)),
    ):
        assert (file_name(MINE), file_name(THEIRS)) == ("trainer.py", "trainer.py")


def test_a_file_that_comes_while_the_session_is_written_is_told_apart(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "a.fxs") as writer:
        writer.add(model.SourceFile(0, MINE, 0))
        with SessionReader(tmp_path / "a.fxs") as reader:
            assert file_name(MINE) == "trainer.py"
            writer.add(model.SourceFile(0, THEIRS, 0))
            reader.rows(model.SourceFile)
            assert file_name(MINE) == "work/trainer.py"


def test_a_reader_that_was_closed_and_opened_again_tells_them_apart(tmp_path: Path) -> None:
    reader = SessionReader(write(tmp_path / "a.fxs", MINE, THEIRS))
    reader.close()
    reader.reopen()
    assert file_name(MINE) == "work/trainer.py"
    reader.close()


def test_the_report_and_breaks_show_these_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = write(tmp_path / "a.fxs", MINE, THEIRS)
    assert main(["report", str(session), "--format", "text"]) == 0
    out = capsys.readouterr().out
    assert "work/trainer.py:7" in out
    assert "transformers/trainer.py:8" in out
    assert " trainer.py:" not in out
    with SessionReader(session) as reader:
        assert {in_file(one.file, one.line) for one in distinct_breaks(reader)} == {
            "work/trainer.py:7",
            "transformers/trainer.py:8",
        }


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (("/a/x/n.py", "/b/x/n.py", "/b/y/n.py"), ("a/x/n.py", "b/x/n.py", "y/n.py")),
        (("n.py", "/w/n.py", "/n.py"), ("n.py", "w/n.py", "/n.py")),
        (("/a/__init__.py", "/b/a/__init__.py"), ("/a/__init__.py", "b/a/__init__.py")),
        (("<string>", "<stdin>", ""), ("<string>", "<stdin>", "")),
        (("/a//n.py", "/a/n.py"), ("/a/n.py", "/a/n.py")),
    ],
)
def test_as_many_folders_as_are_needed(paths: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert distinct_names(paths) == dict(zip(paths, names, strict=True))
