"""These tests check which of the user's files have changed since the capture. Only the text counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fx_explorer.model import SourceFile
from fx_explorer.model.secret_arguments import without_known_keys
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.source_edit.user_files import (
    CapturedFile,
    FileEdit,
    FilesNow,
    captured_files,
    changed_on_disk,
)

TEXT = "a = 1\nb = 2\nc = 3\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(TEXT)
    return path


def now(file: Path, captured: str = TEXT) -> FilesNow:
    return FilesNow([CapturedFile(7, str(file), captured)])


def test_a_changed_file_is_told_with_the_first_line_that_differs(file: Path) -> None:
    files = now(file)
    assert files.changed() == ()
    file.write_text(TEXT.replace("b = 2", "b = 22"))
    (changed,) = files.changed()
    assert (changed.file.id, changed.line) == (7, 2)


def test_a_file_with_a_key_is_as_it_was_and_no_edit_writes_it_without_the_key(file: Path) -> None:
    text = TEXT.replace("b = 2", "b = 'AKIAABCD1234EFGH5678'")
    file.write_text(text)
    captured = without_known_keys(text)
    assert captured != text
    assert now(file, captured).changed() == ()
    edit = FileEdit(str(file), captured, captured.replace("a = 1", "a = 7"))
    assert "has a key in line 2, which no session stores" in changed_on_disk(edit)
    file.write_text(text.replace("c = 3", "c = 4"))
    assert "has changed since it was captured, first in line 3" in changed_on_disk(edit)
    file.write_text(captured)  # a program may have these very words
    assert changed_on_disk(edit) == ""


def test_a_touched_file_is_as_it_was(file: Path) -> None:
    files = now(file)
    assert files.changed() == ()
    os.utime(file, (1, 1))
    assert files.changed() == ()


def test_a_change_that_was_undone_is_none(file: Path) -> None:
    files = now(file)
    file.write_text("b = 2\n")
    assert [one.line for one in files.changed()] == [1]
    file.write_text(TEXT)
    os.utime(file, (2, 2))
    assert files.changed() == ()


def test_a_change_that_leaves_size_and_line_count_is_noticed(file: Path) -> None:
    files = now(file)
    assert files.changed() == ()
    file.write_text(TEXT.replace("3", "4"))
    os.utime(file, (3, 3))
    assert [one.line for one in files.changed()] == [3]


@pytest.mark.parametrize(
    "written",
    [TEXT.replace("\n", "\r\n").encode(), b"\xef\xbb\xbf" + TEXT.encode(), TEXT[:-1].encode()],
)
def test_other_line_ends_a_mark_at_the_beginning_and_no_end_of_the_last_line_are_no_change(
    file: Path, written: bytes
) -> None:
    file.write_bytes(written)
    assert now(file).changed() == ()


def test_more_lines_at_the_end_are_a_change(file: Path) -> None:
    file.write_text(TEXT + "d = 4\n")
    assert [one.line for one in now(file).changed()] == [4]


@pytest.mark.parametrize("path", ["gone.py", "null\0byte.py", "."])
def test_what_cannot_be_read_is_not_called_old(tmp_path: Path, path: str) -> None:
    assert now(tmp_path / path).changed() == ()


def test_what_is_in_no_encoding_is_not_called_old(file: Path) -> None:
    file.write_bytes(b"# \xff\xfe\n")
    assert now(file).changed() == ()


def test_only_the_users_own_files_with_a_text_are_looked_after(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.add(SourceFile(0, "/mine.py", writer.text(TEXT), 3, is_user=True))
        writer.add(SourceFile(0, "/library.py", writer.text(TEXT), 3, is_user=False))
        writer.add(SourceFile(0, "<string>", 0, 0, is_user=True))
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert [(one.path, one.text) for one in captured_files(reader)] == [("/mine.py", TEXT)]
