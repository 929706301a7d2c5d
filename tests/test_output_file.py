"""These tests check files that a command is asked to write: no file of the user's is replaced,
whatever exists at the path.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fx_explorer import cli
from fx_explorer.client.session_files import is_a_session, place_session, session_file
from fx_explorer.command_line.outputs import of_this_rank
from fx_explorer.errors import SessionWriteError, UsageError
from fx_explorer.model import SourceFile
from fx_explorer.output_file import OutputFile
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.tui.controllers.leaving import save_session

SOURCE = "print('mine')\n"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """Return a finished session; ``tmp_path / "here"`` beside it is free for output."""
    (tmp_path / "here").mkdir()
    path = tmp_path / "captured.fxs"
    with SessionWriter(path) as writer:
        writer.set_meta("progress", "captured")
    return path


def written(path: Path, text: str = SOURCE) -> Path:
    path.write_text(text)
    return path


def messages(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the messages of a command that must refuse before anything runs."""
    assert cli.main(words) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("name", ["t.py", "./t.py", "symlink.fxs", "hard.fxs", "link/t.py"])
def test_the_target_is_never_written_over_whatever_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    target = written(tmp_path / "t.py")
    (tmp_path / "symlink.fxs").symlink_to(target)
    (tmp_path / "hard.fxs").hardlink_to(target)
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    for command in (
        ["capture", "t.py:f"],
        ["run", "t.py"],
        ["check", "t.py", "--max-recompiles", "0"],
        ["report", "t.py"],
    ):
        said = messages(*command, "-o", name, "--force", capsys=capsys)
        assert "that this run reads, so it is not overwritten; choose another place with -o" in said
    said = messages(
        "check", "t.py", "--max-recompiles", "0", "--junit", name, "--force", capsys=capsys
    )
    assert "so it is not overwritten; choose another place with --junit" in said
    assert target.read_text() == SOURCE


def test_a_file_that_is_not_ours_is_refused_before_anything_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    session: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "t.py")
    written(tmp_path / "thesis.txt")
    assert "is not a session of fx-explorer" in messages(
        "capture", "t.py", "-o", "thesis.txt", capsys=capsys
    )
    assert "is not a report of fx-explorer" in messages(
        "report", str(session), "-o", "thesis.txt", capsys=capsys
    )
    said = messages(
        "check", str(session), "--max-recompiles", "0", "--junit", "thesis.txt", capsys=capsys
    )
    assert "is not a JUnit file of fx-explorer" in said
    assert (tmp_path / "thesis.txt").read_text() == SOURCE


def test_a_report_and_a_check_are_written_again_over_their_own(
    tmp_path: Path, session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, junit = tmp_path / "here" / "r.json", tmp_path / "here" / "j.xml"
    for _ in range(2):
        assert cli.main(["report", str(session), "-o", str(report)]) == 0
        cli.main(["check", str(session), "--max-recompiles", "0", "--junit", str(junit)])
    assert report.read_text().startswith("{")
    assert junit.read_text().startswith("<?xml")
    assert "is not a JUnit file" in messages(
        "check", str(session), "--max-recompiles", "0", "--junit", str(report), capsys=capsys
    )
    assert cli.main(["report", str(session), "-o", str(session), "--force"]) == 2, (
        "the session that is read is never replaced"
    )
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == ["j.xml", "r.json"]


def test_force_replaces_what_is_not_ours(tmp_path: Path, session: Path) -> None:
    place = written(tmp_path / "here" / "thesis.txt")
    place_session(session, session_file(place, force=True))
    assert is_a_session(place)


def test_an_empty_file_holds_nothing_to_lose(tmp_path: Path, session: Path) -> None:
    place = written(tmp_path / "here" / "mktemp", "")
    place.chmod(0o600)
    place_session(session, session_file(place))
    assert is_a_session(place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600, (
        "whoever made it private gets a private session"
    )


def test_a_source_of_the_run_is_not_replaced_even_with_force(tmp_path: Path, session: Path) -> None:
    """A module that the target imports is known only when it has run."""
    source = written(tmp_path / "here" / "module.py")
    with SessionWriter(session) as writer:
        writer.add(SourceFile(0, str(source), 0))
    with pytest.raises(
        SessionWriteError, match=f"this run reads, so it is not overwritten.*is kept in {session}"
    ):
        place_session(session, session_file(source, force=True))
    assert source.read_text() == SOURCE
    assert is_a_session(session)


def test_what_appears_at_the_place_while_a_capture_runs_stays(
    tmp_path: Path, session: Path
) -> None:
    place = tmp_path / "here" / "s.fxs"
    output = session_file(place)
    output.check()
    written(place)
    with pytest.raises(SessionWriteError, match="already exists"):
        place_session(session, output)
    with (
        pytest.raises(UsageError, match="already exists"),
        OutputFile(tmp_path / "new", "diff", is_a_session).partial(),
    ):
        written(tmp_path / "new")
    assert place.read_text() == (tmp_path / "new").read_text() == SOURCE
    assert is_a_session(session)


def test_a_link_to_a_session_stays_a_link_and_a_dangling_one_is_not_followed(
    tmp_path: Path, session: Path
) -> None:
    here = tmp_path / "here"
    place_session(session, session_file(here / "real.fxs"))
    (here / "link.fxs").symlink_to("real.fxs")
    (here / "dangling.fxs").symlink_to("nowhere")
    with SessionWriter(session) as writer:
        writer.set_meta("progress", "again")
    place_session(session, session_file(here / "link.fxs"))
    assert (here / "link.fxs").is_symlink()
    with SessionReader(here / "real.fxs") as reader:
        assert reader.meta("progress") == "again"
    with pytest.raises(
        UsageError, match=r"dangling.fxs is a link to nowhere, which does not exist"
    ):
        session_file(here / "dangling.fxs").check()


def test_the_half_written_file_has_a_new_name_that_nobody_can_guess_and_no_wider_mode(
    tmp_path: Path,
) -> None:
    output = OutputFile(tmp_path / "report.json", "report", is_a_session)
    names: set[str] = set()
    before = os.umask(0o027)
    try:
        for _ in range(2):
            with contextlib.suppress(KeyError), output.partial() as beside:
                names.add(beside.name)
                assert beside.parent == tmp_path
                raise KeyError
        output.write_text("{}")
    finally:
        os.umask(before)
    assert len(names) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
    assert stat.S_IMODE((tmp_path / "report.json").stat().st_mode) == 0o640


@pytest.fixture
def odd_place(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    path = tmp_path / "odd"
    if request.param == "fifo":
        os.mkfifo(path)
    elif request.param == "directory":
        path.mkdir()
    elif request.param == "device":
        path = Path("/dev/full")
    else:
        with socket.socket(socket.AF_UNIX) as bound:
            monkeypatch.chdir(tmp_path)  # the path may be too long for a socket
            bound.bind("odd")
            yield path
            return
    yield path


@pytest.mark.parametrize(
    ("odd_place", "words"),
    [
        ("fifo", "a FIFO"),
        ("directory", "a directory"),
        ("device", "a device"),
        ("socket", "a socket"),
    ],
    indirect=["odd_place"],
)
def test_what_is_no_file_cannot_hold_a_session(odd_place: Path, words: str, session: Path) -> None:
    with pytest.raises(UsageError, match=f"{words}, and cannot hold a session"):
        session_file(odd_place, force=True).check()
    with pytest.raises(SessionWriteError, match="is kept in"):
        place_session(session, session_file(odd_place, force=True))


def test_a_text_goes_to_a_stream_and_a_stream_that_takes_nothing_is_a_message(
    tmp_path: Path, session: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    for place, why in (
        (Path("/dev/full"), os.strerror(errno.ENOSPC)),
        (tmp_path / "fifo", os.strerror(errno.ENXIO)),
    ):
        with pytest.raises(UsageError, match=f"cannot write the report to {place}: {why}"):
            OutputFile(place, "report", is_a_session).write_text("{}")
    command = [sys.executable, "-m", "fx_explorer", "report", str(session), "-o", "/dev/stdout"]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1]
    )
    assert ended.stdout.startswith("{")


def test_a_disk_without_room_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = written(tmp_path / "r.json", '{"schema": "fx-explorer/report/1"}')
    output = OutputFile(place, "report", lambda file: True)

    def full(self: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UsageError, match=r"cannot write the report to .*No space left"):
        output.write_text("{}")
    assert "fx-explorer/report/1" in place.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_saving_from_the_app_follows_no_link_and_replaces_nothing(
    tmp_path: Path, session: Path
) -> None:
    (tmp_path / "here" / "s.fxs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SessionWriteError, match="already exists"):
        save_session(session, tmp_path / "here" / "s.fxs")
    assert not (tmp_path / "elsewhere").exists()
    assert is_a_session(save_session(session, tmp_path / "here" / "t"))


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "train.fxs"),
        ({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}, "train.rank1.fxs"),
        ({"RANK": "0", "WORLD_SIZE": "1"}, "train.fxs"),
        ({"LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "4"}, "train.rank3.fxs"),
        ({"SLURM_PROCID": "7", "SLURM_NTASKS": "8"}, "train.rank7.fxs"),
        ({"RANK": "../x", "WORLD_SIZE": "2"}, "train.fxs"),
    ],
)
def test_each_rank_of_a_distributed_run_has_a_file_of_its_own(
    environment: dict[str, str], name: str
) -> None:
    assert of_this_rank(Path("out/train.fxs"), environment) == Path("out") / name
