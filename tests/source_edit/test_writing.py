"""These tests check that an edit is written only to the file it was made for, and that the rest of
the file does not change.
"""

from __future__ import annotations

import codecs
import errno
import os
import stat
import subprocess
from pathlib import Path

import pytest

from fx_explorer.errors import UsageError
from fx_explorer.source_edit.user_files import FileEdit
from fx_explorer.source_edit.writing import why_not_written, write_edits

BEFORE = "import torch\n\n\ndef f(x):\n    print(x)\n    return x\n"
AFTER = "import torch\n\n\ndef f(x):\n    return x\n"


def edited(path: Path, before: str = BEFORE, after: str = AFTER) -> FileEdit:
    return FileEdit(str(path), before, after)


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_the_file_is_the_fixed_one_and_the_backup_the_old_one(tmp_path: Path) -> None:
    file = written(tmp_path / "model.py", BEFORE.encode())
    assert write_edits([edited(file)]).backups == [tmp_path / "model.py.orig"]
    assert file.read_text() == AFTER
    assert (tmp_path / "model.py.orig").read_text() == BEFORE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.py", "model.py.orig"]


def test_a_backup_is_never_written_over(tmp_path: Path) -> None:
    file = written(tmp_path / "model.py", BEFORE.encode())
    written(tmp_path / "model.py.orig", b"mine")
    assert write_edits([edited(file)]).backups[0].name == "model.py.orig2"
    assert (tmp_path / "model.py.orig").read_bytes() == b"mine"


def test_a_file_that_has_changed_since_is_left_alone_and_the_line_is_named(tmp_path: Path) -> None:
    file = written(tmp_path / "model.py", BEFORE.replace("return x", "return x * 2").encode())
    with pytest.raises(UsageError, match="changed since it was captured, first in line 6"):
        write_edits([edited(file)])
    assert [path.name for path in tmp_path.iterdir()] == ["model.py"]


def test_a_file_that_is_gone_is_a_message(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*gone\.py: No such file"):
        write_edits([edited(tmp_path / "gone.py")])


def test_a_read_only_file_is_a_message(tmp_path: Path) -> None:
    file = written(tmp_path / "model.py", BEFORE.encode())
    file.chmod(0o444)
    with pytest.raises(UsageError, match="read-only"):
        write_edits([edited(file)])
    assert file.read_text() == BEFORE


def test_the_mode_stays(tmp_path: Path) -> None:
    file = written(tmp_path / "model.py", BEFORE.encode())
    file.chmod(0o751)
    write_edits([edited(file)])
    assert stat.S_IMODE(file.stat().st_mode) == 0o751


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    file = written(tmp_path / "real" / "model.py", BEFORE.encode())
    link = tmp_path / "model.py"
    link.symlink_to(file)
    write_edits([edited(link)])
    assert link.is_symlink()
    assert file.read_text() == AFTER


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"])
def test_line_ends_stay_and_new_lines_get_the_same(tmp_path: Path, end: str) -> None:
    longer = AFTER.replace("    return x\n", "    y = x\n    return y\n")
    file = written(tmp_path / "model.py", BEFORE.replace("\n", end).encode())
    write_edits([edited(file, after=longer)])
    assert file.read_bytes() == longer.replace("\n", end).encode()


def test_lines_that_stay_keep_the_end_they_have_in_a_mixed_file(tmp_path: Path) -> None:
    mixed = b"import torch\r\n\n\r\ndef f(x):\n    print(x)\r\n    return x\n"
    file = written(tmp_path / "model.py", mixed)
    write_edits([edited(file)])
    assert file.read_bytes() == mixed.replace(b"    print(x)\r\n", b"")


def test_a_file_without_a_last_newline_stays_without(tmp_path: Path) -> None:
    file = written(tmp_path / "model.py", BEFORE.rstrip("\n").encode())
    write_edits([edited(file, after=AFTER.replace("return x\n", "return x\n    # the end\n"))])
    assert file.read_text() == AFTER.rstrip("\n") + "\n    # the end"


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8"])
def test_the_declared_encoding_stays(tmp_path: Path, encoding: str) -> None:
    head = f"# -*- coding: {encoding} -*-\n# größer\n"
    file = written(tmp_path / "model.py", (head + BEFORE).encode(encoding))
    write_edits([edited(file, head + BEFORE, head + AFTER)])
    assert file.read_bytes() == (head + AFTER).encode(encoding)


def test_a_byte_order_mark_stays(tmp_path: Path) -> None:
    file = written(tmp_path / "model.py", codecs.BOM_UTF8 + BEFORE.encode())
    write_edits([edited(file)])
    assert file.read_bytes() == codecs.BOM_UTF8 + AFTER.encode()


def test_an_edit_that_the_encoding_cannot_hold_is_a_message(tmp_path: Path) -> None:
    head = "# -*- coding: latin-1 -*-\n"
    file = written(tmp_path / "model.py", (head + BEFORE).encode("latin-1"))
    with pytest.raises(UsageError, match="which cannot encode the edit"):
        write_edits([edited(file, head + BEFORE, head + AFTER + "# ∞\n")])
    assert [path.name for path in tmp_path.iterdir()] == ["model.py"]


def test_a_file_that_is_not_what_its_encoding_says_is_a_message(tmp_path: Path) -> None:
    file = written(tmp_path / "model.py", b"# \xff\n" + BEFORE.encode())
    with pytest.raises(UsageError, match="cannot be decoded"):
        write_edits([edited(file)])


def test_the_diff_is_one_that_patch_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path / "model.py", BEFORE.encode())
    subprocess.run(["git", "apply", "-"], input=edited(file).diff.encode(), check=True)
    assert file.read_text() == AFTER


# what the file is beyond its content


def test_hard_links_stay_one_file_with_its_owner_and_attributes(tmp_path: Path) -> None:
    file = written(tmp_path / "model.py", BEFORE.encode())
    (tmp_path / "same.py").hardlink_to(file)
    if os.geteuid() == 0:
        os.chown(file, 1234, 5678)
    attributes = {"user.kept": b"yes"} if _can_hold_attributes(file) else {}
    before = file.stat()
    write_edits([edited(file)])
    after = file.stat()
    assert (after.st_ino, after.st_nlink, after.st_uid, after.st_gid) == (
        before.st_ino,
        2,
        before.st_uid,
        before.st_gid,
    )
    assert (tmp_path / "same.py").read_text() == AFTER
    assert {name: os.getxattr(file, name) for name in attributes} == attributes


def _can_hold_attributes(file: Path) -> bool:
    try:
        os.setxattr(file, "user.kept", b"yes")
    except (OSError, AttributeError):
        return False
    return True


def test_no_copy_is_setuid_and_the_file_keeps_its_mode(tmp_path: Path) -> None:
    file = written(tmp_path / "model.py", BEFORE.encode())
    file.chmod(0o4755)
    (backup,) = write_edits([edited(file)]).backups
    assert stat.S_IMODE(file.stat().st_mode) == 0o4755
    assert stat.S_IMODE(backup.stat().st_mode) == 0o755


@pytest.mark.parametrize("fails_at", [0, 1, 2])
def test_a_disk_that_fills_up_leaves_every_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    """0: the backup of the second file; 1: its content half written; 2: the room ends when all is
    written.
    """
    files = [written(tmp_path / name, BEFORE.encode()) for name in ("one.py", "two.py")]
    longer = AFTER + "# much longer\n" * 1000
    both = [edited(files[0]), edited(files[1], after=longer)]
    write, calls = os.write, [0]

    def full(descriptor: int, content: bytes) -> int:
        calls[0] += 1
        if calls[0] == 3 + min(fails_at, 1):  # a backup and a file, twice
            written_half = write(descriptor, content[: len(content) // 2]) if fails_at == 1 else 0
            if fails_at < 2:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), written_half)
        return write(descriptor, content)

    def no_room(descriptor: int) -> None:
        if fails_at == 2 and calls[0] == 4:
            calls[0] += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("fx_explorer.source_edit.writing.os.write", full)
    monkeypatch.setattr("fx_explorer.source_edit.writing.os.fsync", no_room)
    with pytest.raises(UsageError, match=r"cannot write .*two\.py: No space left"):
        write_edits(both)
    assert [file.read_text() for file in files] == [BEFORE, BEFORE]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.py", "two.py"], (
        "no backup of what was not changed"
    )


def test_a_file_that_changes_in_the_last_moment_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path / "model.py", BEFORE.encode())
    monkeypatch.setattr(
        "fx_explorer.source_edit.writing.shutil.copystat",
        lambda *_: file.write_text("an editor saved"),
    )
    with pytest.raises(UsageError, match="changed during writing"):
        write_edits([edited(file)])
    assert file.read_text() == "an editor saved"
    assert (tmp_path / "model.py.orig").read_text() == BEFORE, "what was read is nowhere else now"


def test_what_cannot_be_written_is_known_before_anybody_is_asked(tmp_path: Path) -> None:
    file = written(tmp_path / "model.py", BEFORE.encode())
    assert why_not_written([edited(file)]) == ""
    file.chmod(0o444)
    assert "read-only" in why_not_written([edited(file)])
    file.unlink()
    os.mkfifo(file)
    assert "is no longer a file" in why_not_written([edited(file)])


def test_what_was_written_is_taken_back_with_its_backups(tmp_path: Path) -> None:
    files = [tmp_path / "a.py", tmp_path / "b.py"]
    for file in files:
        file.write_text(BEFORE)
    written = write_edits([edited(file) for file in files])
    written.undo()
    assert [file.read_text() for file in files] == [BEFORE, BEFORE]
    assert sorted(tmp_path.iterdir()) == files


def test_nothing_is_taken_back_if_one_of_the_files_was_changed_since(tmp_path: Path) -> None:
    files = [tmp_path / "a.py", tmp_path / "b.py"]
    for file in files:
        file.write_text(BEFORE)
    written = write_edits([edited(file) for file in files])
    files[1].write_text("changed\n")
    with pytest.raises(UsageError, match=r"b\.py has changed since .* in .*b\.py\.orig"):
        written.undo()
    assert files[0].read_text() == AFTER
    assert all(backup.read_text() == BEFORE for backup in written.backups)


def test_a_file_that_is_gone_is_named_when_its_edit_is_taken_back(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(BEFORE)
    written = write_edits([edited(file)])
    file.unlink()
    with pytest.raises(UsageError, match=r"cannot read .*a\.py.*a\.py\.orig"):
        written.undo()
