"""Work in a forked process: what it returns and raises comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fx_explorer import second_process
from fx_explorer.errors import SessionError, WorkerError
from fx_explorer.second_process import WorkBeside, is_gain

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def test_what_the_work_returns_comes_back() -> None:
    with WorkBeside(lambda: (os.getpid(), {"a": [1]}), doing="counting") as work:
        number, value = work.result()
    assert number != os.getpid()
    assert value == {"a": [1]}


def test_a_result_longer_than_a_pipe_comes_back() -> None:
    with WorkBeside(lambda: "x" * 3_000_000, doing="writing") as work:
        assert len(work.result()) == 3_000_000


def test_what_the_work_raises_is_raised_here() -> None:
    def fail() -> None:
        raise SessionError("trace.log cannot be read")

    with (
        WorkBeside(fail, doing="reading") as work,
        pytest.raises(SessionError, match=r"trace\.log"),
    ):
        work.result()


def test_an_error_that_cannot_be_pickled_comes_back_as_its_traceback() -> None:
    def fail() -> None:
        error = ValueError("odd")
        error.lock = threading.Lock()  # type: ignore[attr-defined]
        raise error

    with WorkBeside(fail, doing="reading") as work, pytest.raises(RuntimeError, match="odd"):
        work.result()


def test_a_killed_process_is_told() -> None:
    with (
        WorkBeside(lambda: os.kill(os.getpid(), signal.SIGKILL), doing="reading the log") as work,
        pytest.raises(WorkerError, match="reading the log was killed"),
    ):
        work.result()


def test_work_that_is_not_waited_for_ends_with_the_block() -> None:
    with WorkBeside(lambda: time.sleep(600), doing="sleeping") as work:
        number = work._pid
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


BESIDE = """
import time
from fx_explorer.second_process import WorkBeside
work = WorkBeside(lambda: time.sleep(600), doing="sleeping")
print(work._pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_work_ends_soon_after_a_process_that_was_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", BESIDE], stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        number = int(first.stdout.readline())
        assert has_process(number)
        first.kill()
    until = time.monotonic() + 60
    while has_process(number):
        assert time.monotonic() < until
        time.sleep(0.05)


def has_process(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_second_process_is_no_gain_on_one_core_or_beside_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(second_process, "cores", lambda: 1)
    assert not is_gain()
    monkeypatch.setattr(second_process, "cores", lambda: 2)
    assert is_gain()
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert not is_gain()
