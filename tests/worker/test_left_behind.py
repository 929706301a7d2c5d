"""These tests check what a capture leaves when it is over, or when its client was killed:
processes, and the session it had so far.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from fx_explorer import cli
from fx_explorer.client import Capture, session_files
from fx_explorer.client.interrupted import news_of_leftovers
from fx_explorer.client.session_files import is_a_session
from fx_explorer.folders import IN_USE_PREFIX
from fx_explorer.model import CaptureRequest, Compilation, ConsoleLine
from fx_explorer.session import SessionReader, SessionWriter
from tests.worker.capturing import capture, processes_with
from tests.worker.test_client import CLIENT, MARK, wait_until

warm = pytest.mark.usefixtures("warm_workers")

linux = pytest.mark.skipif(
    sys.platform != "linux", reason="the environment of a process is told by Linux only"
)

DAEMON = """
import subprocess, sys
started = subprocess.Popen(["sleep", "1000"], start_new_session=True, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(started.pid, flush=True)
"""

HOLDING = """
import ctypes
print("waiting", flush=True)
ctypes.PyDLL(None).sleep(1000)  # as C code does that never gives the interpreter's lock back
"""


@linux
@warm
async def test_a_daemon_of_a_program_that_was_stopped_is_ended_and_named(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(f"{DAEMON}\nimport time\ntime.sleep(1000)\n")
    started: list[int] = []
    running = Capture(
        CaptureRequest(str(tmp_path / "script.py"), "", as_script=True),
        on_output=lambda stream, chunk: started.append(int(chunk)) if stream == "stdout" else None,
        output=tmp_path / "s.fxs",
    )
    await running.start()
    async for notice in running.notices():
        if notice.kind == "worker" and notice.text.startswith("running"):
            break
    while not started:
        await asyncio.sleep(0)
    outcome = await running.cancel()
    assert outcome.kind == "cancelled"
    (told,) = [notice.text async for notice in running.notices() if notice.kind == "note"]
    assert told.startswith("the program started processes that left its process group: ")
    assert told.endswith(f"sleep 1000 (process {started[0]}). They were ended with the program.")
    assert not _is_alive(started[0])
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert "sleep 1000" in reader.rows(ConsoleLine)[-1].text


@linux
@warm
async def test_a_daemon_of_a_program_that_ended_by_itself_runs_on_as_it_would_alone_and_is_named(
    tmp_path: Path,
) -> None:
    (tmp_path / "script.py").write_text(DAEMON)
    ended = await capture(tmp_path / "script.py", as_script=True)
    pid = int(ended.printed()[0])
    try:
        assert ended.outcome.kind == "finished"
        assert _is_alive(pid)
        (told,) = [notice.text for notice in ended.notices if notice.kind == "note"]
        assert told.endswith(
            f"sleep 1000 (process {pid}). They continue to run, as without fx-explorer."
        )
    finally:
        os.kill(pid, signal.SIGKILL)


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


@linux
def test_kill_9_ends_a_worker_that_never_lets_go_and_its_session_can_be_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(MARK, "1")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "target.py").write_text(HOLDING)
    command = [sys.executable, "-c", CLIENT, str(tmp_path / "target.py")]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2], env=environment
    ) as client:
        try:
            assert client.stdout is not None
            assert client.stdout.readline() == b"running\n"
            assert session_files.leftovers() == [], "it is held while it runs"
            session = next(tmp_path.glob(f"{IN_USE_PREFIX}*/session.fxs"))
            assert wait_until(lambda: _console(session) == ["waiting"])
        finally:
            client.kill()
    assert wait_until(lambda: processes_with(MARK) == [])
    (line,) = news_of_leftovers(None)
    assert str(tmp_path / "target.py") in line
    assert line.endswith("Recover or remove it: fx-explorer recover")
    assert news_of_leftovers(None) == [], "told once"

    monkeypatch.chdir(tmp_path)
    assert cli.main(["recover"]) == 0
    assert str(session) in capsys.readouterr().out
    (tmp_path / "target.fxs").write_text("an older one of the user's")
    assert cli.main(["recover", "1"]) == 2
    said = capsys.readouterr().err
    assert "target.fxs already exists" in said
    assert f"still in {session}" in said
    assert cli.main(["recover", "1", "-o", "got.fxs"]) == 0
    assert _console(tmp_path / "got.fxs") == ["waiting"]
    assert session_files.leftovers() == []
    assert cli.main(["recover", "1"]) == 2


def _console(session: Path) -> list[str]:
    with SessionReader(session) as reader:
        return [row.text for row in reader.rows(ConsoleLine)]


def test_what_was_left_is_listed_by_what_is_in_it_and_removed_only_when_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    empty, kept, damaged, held = (session_files.new_capture_directory() for _ in range(4))
    with SessionWriter(empty[0] / "session.fxs") as writer:
        writer.set_meta("progress", "importing torch")
    for directory, _ in (kept, held):
        with SessionWriter(directory / "session.fxs") as writer:
            writer.add(Compilation(0, "0/0", 0, 0, "", "", 0))
    (damaged[0] / "session.fxs").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    (tmp_path / f"{IN_USE_PREFIX}link").symlink_to(kept[0])
    for _, lock in (empty, kept, damaged):
        lock.release()
    old = time.time() - 2 * session_files.SETTLED_S
    os.utime(empty[0], (old, old))
    assert {one.directory for one in session_files.leftovers()} == {kept[0], damaged[0]}
    assert not empty[0].exists(), "nothing was in it"
    assert cli.main(["recover", "--remove"]) == 0
    assert capsys.readouterr().out.count("removed") == 2
    assert [path.exists() for path in (kept[0], damaged[0], held[0])] == [False, False, True]
    assert is_a_session(held[0] / "session.fxs")
    held[1].release()


READING_A_LOG = """
import os, sys
from pathlib import Path
from fx_explorer.command_line.logs import LogReadingProcess

reading = LogReadingProcess(Path(sys.argv[1]))
reading.begin()
os._exit(9)
"""


def test_what_was_read_of_a_log_goes_at_the_next_start_when_its_reader_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    log = tmp_path / "torch.log"
    log.write_text("nothing of torch's\n")
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(session_files, "SETTLED_S", -1)
    command = [sys.executable, "-c", READING_A_LOG, str(log)]
    assert subprocess.run(command, check=False).returncode == 9
    (folder,) = temporary.glob(f"{IN_USE_PREFIX}*")
    wait_until(lambda: session_files.leftovers() == [] and not folder.exists())
