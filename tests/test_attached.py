"""These tests check what people attach to a report: folders of tlparse's, archives of logs,
sessions and pages. What comes out is what the log itself gives. Archives that are no honest ones
are refused, and leave nothing behind.
"""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fx_explorer.cli import main
from fx_explorer.session.untrusted import unpacking

DATA = Path(__file__).parent / "data"

LOGS = ("comp_metrics", "artifacts")

Reported = Callable[[str], dict[str, Any]]


@pytest.fixture
def reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Reported:
    """Reports on a file of the present folder, without what names the file."""
    monkeypatch.chdir(tmp_path)

    def report(name: str) -> dict[str, Any]:
        assert main(["report", name, "--format", "json"]) == 0, capsys.readouterr().err
        content = dict(json.loads(capsys.readouterr().out))
        for key in ("target", "outcome", "environment"):
            content.pop(key)
        return content

    return report


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], tuple[int, str]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)

    def report(name: str) -> tuple[int, str]:
        code = main(["report", name])
        words = capsys.readouterr().err
        assert words.count("\n") == 1, words
        assert str(tmp_path / "temporary") not in words
        left = [path for path in (tmp_path / "temporary").rglob("*") if path.is_file()]
        assert not left
        return code, words

    return report


def _log(name: str) -> bytes:
    return gzip.decompress((DATA / "tlparse" / f"{name}.log.gz").read_bytes())


def _unpacked_folder(name: str, into: Path) -> Path:
    with tarfile.open(DATA / "attached" / f"folder_of_{name}.tar.gz") as tar:
        tar.extractall(into, filter="data")
    return into / f"f_{name}"


def _zip(path: Path, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def _tar(path: Path, files: Mapping[str, bytes], packing: str = "gz") -> None:
    with tarfile.open(path, f"w:{packing}") as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize("name", LOGS)
def test_a_folder_of_tlparse_gives_what_its_log_gives(
    name: str, tmp_path: Path, reported: Reported
) -> None:
    (tmp_path / "alone.log").write_bytes(_log(name))
    expected = reported("alone.log")
    folder = _unpacked_folder(name, tmp_path)
    assert reported(folder.name) == expected
    packed = DATA / "attached" / f"folder_of_{name}.tar.gz"
    assert reported(str(packed)) == expected


@pytest.mark.parametrize("name", LOGS)
def test_a_folder_without_its_log_is_put_together_from_its_records(
    name: str, tmp_path: Path, reported: Reported
) -> None:
    (tmp_path / "alone.log").write_bytes(_log(name))
    expected = reported("alone.log")
    folder = _unpacked_folder(name, tmp_path)
    (folder / "raw.log").unlink()
    again = reported(folder.name)
    for key in ("totals", "graph_breaks", "recompiles", "findings", "symbols"):
        assert again[key] == expected[key], key
    for compilation, other in zip(again["compilations"], expected["compilations"], strict=True):
        assert compilation["graphs"] == other["graphs"]
        assert compilation["kernels"] == other["kernels"]


@pytest.mark.parametrize("packing", ["zip", "gz", "bz2", "xz", ""])
@pytest.mark.parametrize("folder", ["", "a/b/"])
def test_a_log_in_an_archive_is_opened(
    packing: str, folder: str, tmp_path: Path, reported: Reported
) -> None:
    content = _log("comp_metrics")
    (tmp_path / "alone.log").write_bytes(content)
    files = {f"{folder}train.log": content, f"{folder}readme.txt": b"see the log\n"}
    if packing == "zip":
        _zip(tmp_path / "attached", files)
    else:
        _tar(tmp_path / "attached", files, packing)
    assert reported("attached") == reported("alone.log")


def test_a_packed_log_and_a_session_in_an_archive_are_opened(
    tmp_path: Path, reported: Reported
) -> None:
    _zip(tmp_path / "log.zip", {"x.log.gz": (DATA / "tlparse" / "simple.log.gz").read_bytes()})
    assert reported("log.zip")["totals"]["graphs"] > 0
    session = gzip.decompress((DATA / "screens" / "whole.fxs.gz").read_bytes())
    (tmp_path / "alone.fxs").write_bytes(session)
    _zip(tmp_path / "session.zip", {"x/model.fxs": session, "x/notes.md": b"hello"})
    assert reported("session.zip") == reported("alone.fxs")
    (tmp_path / "alone.fxs.gz").write_bytes(gzip.compress(session))
    assert reported("alone.fxs.gz") == reported("alone.fxs")


def test_a_debug_directory_in_an_archive_is_opened(reported: Reported) -> None:
    packed = DATA / "debug_directory" / "forward_and_backward.tar.gz"
    assert reported(str(packed))["totals"]["kernels"] > 0


def _debug_files() -> dict[str, bytes]:
    files = {}
    with tarfile.open(DATA / "debug_directory" / "forward_and_backward.tar.gz") as tar:
        for member in tar:
            content = tar.extractfile(member)
            if content is not None:
                files[member.name] = content.read()
    return files


def test_a_folder_without_a_name_of_its_own_has_that_of_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _zip(tmp_path / "debug.zip", _debug_files())
    assert main(["report", "debug.zip", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["target"]["name"] == "debug.zip"


def test_a_trace_log_beside_a_debug_directory_is_opened(tmp_path: Path, reported: Reported) -> None:
    (tmp_path / "alone.log").write_bytes(_log("comp_metrics"))
    _zip(tmp_path / "both.zip", {**_debug_files(), "train.log": _log("comp_metrics")})
    assert reported("both.zip") == reported("alone.log")


def test_what_mac_os_and_windows_put_into_an_archive_does_no_harm(
    tmp_path: Path, reported: Reported
) -> None:
    content = _log("comp_metrics")
    (tmp_path / "alone.log").write_bytes(content)
    beside = b"\0\5\x16\7\0\2\0\0Mac OS X        " + bytes(80)
    _zip(tmp_path / "mac.zip", {"my job/train 1.log": content, "__MACOSX/._train 1.log": beside})
    _zip(tmp_path / "windows.zip", {"job\\sub\\train.log": content, "job\\readme.txt": b"hello"})
    _zip(tmp_path / "long.zip", {f"{'名' * 150}/{'前' * 150}.log": content})
    for name in ("mac.zip", "windows.zip", "long.zip"):
        assert reported(name) == reported("alone.log"), name


def test_folders_of_tlparse_with_one_name_are_two_logs(
    tmp_path: Path, refused: Callable[[str], tuple[int, str]]
) -> None:
    files = {"raw.log": _log("simple"), "index.html": b"<html>"}
    _zip(
        tmp_path / "job.zip",
        {f"{job}/rank_0/{name}": files[name] for job in "ab" for name in files},
    )
    code, words = refused("job.zip")
    assert (code, "job.zip has 2 logs" in words) == (2, True), words


def test_a_full_disk_is_not_called_a_damaged_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    _zip(tmp_path / "log.zip", {"train.log": _log("simple")})
    monkeypatch.setattr(unpacking, "_place", full)
    assert main(["report", str(tmp_path / "log.zip")]) == 5
    words = capsys.readouterr().err
    assert f"cannot be unpacked into {tempfile.gettempdir()}: No space left on device" in words


def test_logs_of_several_ranks_are_named(
    tmp_path: Path, refused: Callable[[str], tuple[int, str]]
) -> None:
    content = _log("simple")
    _zip(tmp_path / "job.zip", {f"rank_{rank}.log": content for rank in range(3)})
    code, words = refused("job.zip")
    assert code == 2
    assert "job.zip has 3 logs" in words
    assert "fx-explorer job.zip" in words


def _bomb(path: Path) -> None:
    _zip(path, {"train.log": bytes(20 << 20)})


def _far_outside(path: Path) -> None:
    _tar(path, {"../../outside.log": b"x"})


def _outside_in_zip(path: Path) -> None:
    _zip(path, {"a/../../outside.log": b"x"})


def _absolute(path: Path) -> None:
    _tar(path, {"/outside.log": b"x"})


def _cut(path: Path) -> None:
    _tar(path, {"train.log": _log("simple")})
    path.write_bytes(path.read_bytes()[:-2000])


def _bomb_for_a_session(path: Path) -> None:
    path.write_bytes(gzip.compress(b"SQLite format 3\0" + bytes(300 << 20)))


def _cut_session(path: Path) -> None:
    path.write_bytes((DATA / "screens" / "whole.fxs.gz").read_bytes()[:-2000])


def _encrypted(path: Path) -> None:
    """Set the flag that encrypted members have, as zipfile cannot encrypt."""
    _zip(path, {"train.log": b"V"})
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)


def _two_debug_directories(path: Path) -> None:
    files = _debug_files()
    _zip(path, {f"{run}/{name}": files[name] for run in ("first", "second") for name in files})


def _only_others(path: Path) -> None:
    _zip(path, {"a.png": b"\x89PNG\r\n\x1a\n", "b.docx": b"PK\x03\x04"})


def _nested(path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("train.log", _log("simple"))
    _zip(path, {"inner.zip": inner.getvalue(), "readme.txt": b"hello"})


def _two_sessions(path: Path) -> None:
    session = gzip.decompress((DATA / "screens" / "whole.fxs.gz").read_bytes())
    _zip(path, {"a.fxs": session, "b.fxs": session})


@pytest.mark.parametrize(
    ("make", "code", "words"),
    [
        (_bomb, 5, "unpacks to far more than its own size"),
        (_far_outside, 5, "names a file outside itself"),
        (_outside_in_zip, 5, "names a file outside itself"),
        (_absolute, 5, "names a file outside itself"),
        (_cut, 5, "is damaged or cut off"),
        (_bomb_for_a_session, 5, "unpacks to far more than its own size"),
        (_cut_session, 5, "is damaged or cut off"),
        (_encrypted, 5, "is encrypted"),
        (_only_others, 2, "with 2 files, but none that fx-explorer can open"),
        (_nested, 2, "inner.zip"),
        (_two_sessions, 2, "a.fxs"),
        (_two_debug_directories, 2, "has 2 TORCH_COMPILE_DEBUG directories: first"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_what_is_no_archive_of_logs_is_refused_and_leaves_nothing(
    make: Callable[[Path], None],
    code: int,
    words: str,
    tmp_path: Path,
    refused: Callable[[str], tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unpacking, "ALWAYS_BYTES", 8 << 20)
    make(tmp_path / "attached.bin")
    ended, message = refused("attached.bin")
    assert (ended, words in message) == (code, True), message
    assert not list(tmp_path.parent.glob("outside.log"))


def test_links_in_an_archive_are_left_out(
    tmp_path: Path, refused: Callable[[str], tuple[int, str]]
) -> None:
    with tarfile.open(tmp_path / "links.tar", "w") as tar:
        for name, kind in (("a.log", tarfile.SYMTYPE), ("b.log", tarfile.FIFOTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member)
    code, words = refused("links.tar")
    assert (code, "with 0 files" in words) == (2, True), words


def test_an_archive_of_very_many_files_is_not_unpacked(
    tmp_path: Path,
    refused: Callable[[str], tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unpacking, "MOST_FILES", 5)
    _tar(tmp_path / "many.tgz", {f"{number}.txt": b"x" for number in range(10)})
    code, words = refused("many.tgz")
    assert code == 5
    assert "more than 5 files in it" in words


@pytest.mark.parametrize(
    ("inside", "name"), [("job/train.log", "train.log"), ("out/raw.log", "job.zip")]
)
def test_a_report_names_the_archive_and_no_temporary_file(
    inside: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    _zip(tmp_path / "job.zip", {inside: _log("simple"), "out/index.html": b"<html>"})
    assert main(["report", "job.zip", "--format", "json"]) == 0
    target = json.loads(capsys.readouterr().out)["target"]
    assert (target["name"], target["file"]) == (name, str(tmp_path / "job.zip" / inside))
    assert main(["report", "job.zip", "--format", "text"]) == 0
    assert capsys.readouterr().out.startswith(f"✓ {name} is a TORCH_TRACE log")


def test_a_folder_of_tlparse_has_its_own_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _unpacked_folder("comp_metrics", tmp_path)
    (folder / "raw.log").unlink()
    assert main(["report", str(folder), "--format", "json"]) == 0
    target = json.loads(capsys.readouterr().out)["target"]
    assert (target["name"], target["file"]) == (folder.name, str(folder / "raw.log"))


@pytest.mark.parametrize("command", ["bench", "memory", "issue", "options"])
def test_a_command_that_needs_the_program_names_the_archive(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "job.zip"
    _zip(archive, {"train.log": _log("simple")})
    more = ["-o", str(tmp_path / "draft")] if command == "issue" else []
    assert main([command, str(archive), *more]) == 2
    assert capsys.readouterr().err.startswith(f"fx-explorer: {archive} was written by torch")


def test_ranks_in_an_archive_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = DATA / "torch_trace" / "h200_ranks_diverge"
    files = {f"job/{path.name}": path.read_bytes() for path in folder.iterdir()}
    _zip(tmp_path / "job.zip", files)
    answers = []
    for given in (folder, tmp_path / "job.zip"):
        assert main(["ranks", str(given)]) == 0
        answers.append(capsys.readouterr().out.splitlines()[0])
    assert answers[0] == answers[1]


def test_of_thousands_of_files_of_tlparse_those_beside_the_log_are_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Payloads are in the log, and a file for each takes longer than to read it."""
    placed: list[str] = []
    place = unpacking._place

    def noting(folder: Path, archive: Path, name: str) -> Path:
        placed.append(name)
        return place(folder, archive, name)

    monkeypatch.setattr(unpacking, "_place", noting)
    files = {f"out/-_0_0_0/f{number}.txt": b"payload" for number in range(500)}
    files |= {"out/raw.log": _log("simple"), "out/index.html": b"<html>"}
    _zip(tmp_path / "job.zip", files)
    _tar(tmp_path / "job.tgz", files)
    for name in ("job.zip", "job.tgz"):
        placed.clear()
        assert main(["report", str(tmp_path / name)]) == 0
        assert sorted(placed) == ["out/index.html", "out/raw.log"]
    # A folder without its log is put together from the payloads.
    files["other/raw.jsonl"] = b"{}\n"
    files["other/index.html"] = b"<html>"
    _zip(tmp_path / "two.zip", files)
    placed.clear()
    main(["ranks", str(tmp_path / "two.zip")])
    assert len(placed) == len(files)
    capsys.readouterr()


def test_half_a_log_is_read_as_far_as_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content = _log("simple")
    _zip(tmp_path / "half.zip", {"train.log": content[: len(content) // 2]})
    assert main(["report", str(tmp_path / "half.zip"), "--format", "text"]) == 0
    assert "Parts of the log are damaged" in capsys.readouterr().out


def test_an_archive_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    """SIGTERM while files are unpacked: the folder of ours is gone."""
    files = {f"{number}.txt": b"x" * 100 for number in range(20_000)}
    _zip(tmp_path / "many.zip", files)
    ours = tmp_path / "temporary"
    ours.mkdir()
    command = [sys.executable, "-m", "fx_explorer", "report", str(tmp_path / "many.zip")]
    process = subprocess.Popen(
        command,
        env={**os.environ, "TMPDIR": str(ours)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None and not any(ours.rglob("9.txt")):
        time.sleep(0.01)
    process.terminate()
    assert process.wait(timeout=60) == 143
    assert not list(ours.iterdir())
