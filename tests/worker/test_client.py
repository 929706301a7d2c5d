"""These tests check the life of a worker from outside: read while it runs, cancelled, orphaned, and
its session moved to its place.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fx_explorer import output_file
from fx_explorer.client import Capture
from fx_explorer.client.session_files import place_session, session_file
from fx_explorer.errors import SessionWriteError, UsageError
from fx_explorer.model import CaptureRequest, Command, ConsoleLine
from fx_explorer.session import SessionReader, SessionWriter
from tests.worker.capturing import processes_with

MARK = "FX_EXPLORER_TEST_PROCESS"

COMPILING = """
import torch
def model(x):
    for i in range(100_000):
        x = torch.sin(x)
    return x
example_inputs = torch.ones(3)
"""

WAITING = "print('waiting', flush=True)\nimport time\ntime.sleep(1000)\n"

CLIENT = """
import asyncio, sys
from fx_explorer.client import Capture
from fx_explorer.model import CaptureRequest

async def main():
    heard = asyncio.Event()
    capture = Capture(CaptureRequest(sys.argv[1], ""), on_output=lambda stream, chunk: heard.set())
    await capture.start()
    end = asyncio.create_task(capture.wait())
    await asyncio.wait([end, asyncio.create_task(heard.wait())], return_when=asyncio.FIRST_COMPLETED)
    print("running" if heard.is_set() else capture.outcome, flush=True)
    await end

asyncio.run(main())
"""


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether the condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        os.sched_yield()
    return met


async def test_quitting_while_compiling_leaves_a_readable_session_and_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, "1")
    (tmp_path / "target.py").write_text(COMPILING)
    capture = Capture(
        CaptureRequest(f"{tmp_path / 'target.py'}", "", build=True), output=tmp_path / "s.fxs"
    )
    await capture.start()
    with SessionReader(capture.session_path) as live:
        assert live.meta("request")["target"] == str(tmp_path / "target.py")
        async for notice in capture.notices():
            if notice.kind == "compilation":
                break
        assert live.meta("progress").startswith("calling model")
    assert processes_with(MARK) != []
    outcome = await capture.cancel()
    assert outcome.kind == "cancelled"
    assert "calling model" in outcome.message
    assert processes_with(MARK) == []
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert reader.meta("outcome")["kind"] == "cancelled"


async def test_cancelling_before_the_worker_is_there_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, "1")
    (tmp_path / "target.py").write_text(WAITING)
    capture = Capture(CaptureRequest(str(tmp_path / "target.py"), ""))
    await capture.start()
    outcome = await capture.cancel()
    capture.discard()
    assert outcome.kind == "cancelled"
    assert processes_with(MARK) == []
    assert not capture.session_path.exists()


def test_a_worker_whose_client_was_killed_ends_with_everything_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "target.py").write_text(
        "import subprocess\nsubprocess.Popen(['sleep', '1000'])\n" + WAITING
    )
    command = [sys.executable, "-c", CLIENT, str(tmp_path / "target.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as client:
        try:
            assert client.stdout is not None
            assert client.stdout.readline() == b"running\n"
            assert wait_until(lambda: len(processes_with(MARK)) == 3), (
                "client, worker and the sleep it started"
            )
        finally:
            client.kill()
    assert wait_until(lambda: processes_with(MARK) == [])
    (session,) = tmp_path.glob("fx-explorer-*/session.fxs")
    with SessionReader(session) as reader:
        assert [row.text for row in reader.rows(ConsoleLine)] in ([], ["waiting"])


@pytest.mark.usefixtures("warm_workers")
async def test_a_worker_that_stays_keeps_the_programs_outcome_and_its_session_is_placed(
    tmp_path: Path,
) -> None:
    (tmp_path / "target.py").write_text(
        "def model(x):\n    return x + 1\nimport torch\nexample_inputs = torch.ones(3)\n"
    )
    request = CaptureRequest(f"{tmp_path / 'target.py'}:model", "", pause="dynamo", stay=True)
    capture = Capture(request, output=tmp_path / "s.fxs")
    await capture.start()
    gates = []
    async for notice in capture.notices():
        if notice.kind == "gate" and notice.state == "begin":
            gates.append(notice.gate)
            if notice.gate is None:
                break
            capture.send(Command("go"))
    assert gates == ["dynamo", None]
    with SessionReader(capture.session_path) as live:
        assert live.meta("outcome")["kind"] == "finished"
    assert not (tmp_path / "s.fxs").exists()
    outcome = await capture.cancel()
    assert outcome.kind == "finished"
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert reader.meta("outcome")["kind"] == "finished"


@pytest.mark.usefixtures("warm_workers")
async def test_a_worker_that_stays_says_at_once_why_nothing_was_compiled(tmp_path: Path) -> None:
    """Whoever looks meanwhile reads the same as after the end."""
    (tmp_path / "plain.py").write_text(
        "import torch\ndef model(x):\n    return x + 1\nmodel(torch.ones(2))\n"
    )
    capture = Capture(
        CaptureRequest(str(tmp_path / "plain.py"), "", pause="dynamo", stay=True),
        output=tmp_path / "s.fxs",
    )
    await capture.start()
    async for notice in capture.notices():
        if notice.kind == "gate" and notice.state == "begin":
            break
    with SessionReader(capture.session_path) as live:
        told = live.meta("outcome")["message"]
    assert "it never called an object that torch.compile returned. It defines model." in told
    assert (await capture.cancel()).message == told


@pytest.mark.usefixtures("warm_workers")
async def test_what_is_stopped_before_it_compiled_anything_replaces_no_session(
    tmp_path: Path,
) -> None:
    (tmp_path / "quick.py").write_text(
        "def model(x):\n    return x + 1\nimport torch\nexample_inputs = torch.ones(3)\n"
    )
    (tmp_path / "slow.py").write_text("print('waiting')\nimport time\ntime.sleep(1000)\n")
    found = Capture(CaptureRequest(f"{tmp_path / 'quick.py'}:model", ""), output=tmp_path / "s.fxs")
    await found.start()
    assert (await found.wait()).kind == "finished"
    before = (tmp_path / "s.fxs").read_bytes()
    heard = asyncio.Event()
    stopped = Capture(
        CaptureRequest(str(tmp_path / "slow.py"), "", as_script=True),
        output=tmp_path / "s.fxs",
        on_output=lambda *_: heard.set(),
    )
    await stopped.start()
    await heard.wait()
    outcome = await stopped.cancel()
    assert outcome.kind == "cancelled"
    assert f"{tmp_path / 's.fxs'} keeps its previous content" in outcome.message
    assert (tmp_path / "s.fxs").read_bytes() == before
    assert stopped.session_path == tmp_path / "s.fxs"


@pytest.fixture
def heeded_interrupts() -> Iterator[None]:
    """A process that was started in the background of a shell ignores SIGINT, and so does every
    process that it starts.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded_interrupts")
async def test_ctrl_c_reaches_a_script_as_keyboard_interrupt(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import sys, time\ntry:\n    sys.stdout.write('waiting\\n'); time.sleep(1000)\n"
        "except KeyboardInterrupt:\n    print('saved')\n    raise\n"
    )
    heard = asyncio.Event()
    capture = Capture(
        CaptureRequest(str(tmp_path / "script.py"), "", as_script=True),
        on_output=lambda *_: heard.set(),
    )
    await capture.start()
    end = asyncio.create_task(capture.wait())
    await asyncio.wait(
        [end, first_words := asyncio.create_task(heard.wait())], return_when=asyncio.FIRST_COMPLETED
    )
    assert first_words.done(), capture.outcome
    capture.interrupt()
    outcome = await end
    with SessionReader(capture.session_path) as reader:
        assert [row.text for row in reader.rows(ConsoleLine, stream="stdout")] == [
            "waiting",
            "saved",
        ]
    capture.discard()
    assert (outcome.kind, outcome.exit_code) == ("raised", 130)


def test_a_place_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for bad in (
        tmp_path / "file" / "s.fxs",
        tmp_path / "absent" / "s.fxs",
        Path("/proc/s.fxs"),
        tmp_path,
    ):
        with pytest.raises(UsageError, match="-o"):
            session_file(bad).check()
    session_file(tmp_path / "s.fxs").check()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "temporary.fxs"
    with SessionWriter(path) as writer:
        writer.set_meta("progress", "captured")
    return path


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS])
def test_a_session_that_cannot_be_moved_is_kept_and_its_place_told(
    tmp_path: Path, session: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(output_file.os, "replace", refuse)
    monkeypatch.setattr(output_file.os, "link", refuse)
    with pytest.raises(SessionWriteError, match=f"{os.strerror(error)}.*is kept in {session}"):
        place_session(session, session_file(tmp_path / "s.fxs"))
    with SessionReader(session) as reader:
        assert reader.meta("progress") == "captured"


def test_a_session_that_somebody_removed_is_not_replaced_by_an_empty_one(
    tmp_path: Path, session: Path
) -> None:
    session.unlink()
    with pytest.raises(SessionWriteError, match="is gone"):
        place_session(session, session_file(tmp_path / "s.fxs"))
    assert list(tmp_path.iterdir()) == []


def test_another_file_system_is_no_obstacle_and_leaves_no_half_file(
    tmp_path: Path, session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def across(source: Path, destination: Path) -> None:
        if source == session:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        link(source, destination)

    monkeypatch.setattr(output_file.os, "link", across)
    place_session(session, session_file(tmp_path / "s.fxs"))
    assert [path.name for path in tmp_path.iterdir()] == ["s.fxs"]
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert reader.meta("progress") == "captured"


def test_a_finished_session_is_one_file_that_moves_over_an_older_one(
    tmp_path: Path, session: Path
) -> None:
    shutil.copy(session, tmp_path / "s.fxs")
    with SessionReader(session) as still_shown:
        place_session(session, session_file(tmp_path / "s.fxs"))
        assert still_shown.meta("progress") == "captured"
    assert [path.name for path in tmp_path.iterdir()] == ["s.fxs"]
    shutil.copy(tmp_path / "s.fxs", tmp_path / "elsewhere.fxs")
    with SessionReader(tmp_path / "elsewhere.fxs") as reader:
        assert reader.meta("progress") == "captured"
