"""These tests send signals, from outside and blocked by the program: the capture ends, in time and
with the code that shells expect.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fx_explorer import cli
from fx_explorer.client import Capture
from fx_explorer.client.process_outcomes import EndedWorker, exit_code, outcome_of
from fx_explorer.model import CaptureRequest, ConsoleLine, Outcome
from fx_explorer.session import SessionReader

BLOCKING = """
import signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP})
print("deaf", flush=True)
while True:
    time.sleep(1000)
"""


@pytest.mark.usefixtures("warm_workers")
async def test_a_program_that_blocks_every_signal_can_be_stopped_and_what_it_printed_is_kept(
    tmp_path: Path,
) -> None:
    (tmp_path / "deaf.py").write_text(BLOCKING)
    heard = asyncio.Event()
    capture = Capture(
        CaptureRequest(str(tmp_path / "deaf.py"), "", as_script=True),
        output=tmp_path / "s.fxs",
        on_output=lambda stream, chunk: heard.set(),
    )
    await capture.start()
    await heard.wait()
    capture.interrupt()
    outcome = await capture.cancel(grace_s=0.1)
    assert outcome.kind == "cancelled"
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert Outcome.from_json(reader.meta("outcome")) == outcome


def test_sigterm_ends_the_command_line_with_143_and_keeps_the_session(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import time\nprint('here', flush=True)\ntime.sleep(1000)\n"
    )
    command = [
        sys.executable,
        "-m",
        "fx_explorer",
        "run",
        str(tmp_path / "script.py"),
        "-o",
        str(tmp_path / "s.fxs"),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert b"ended by SIGTERM from outside while running script.py" in said
    assert (tmp_path / "s.fxs").exists()


def test_a_fifo_is_no_target_and_nobody_waits_for_a_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "fifo.py")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["capture", "fifo.py"]) == 2
    told = capsys.readouterr().err
    assert (
        "fifo.py is not a Python file: it is a FIFO. Write it to a file first; a log may come "
        "from the standard input" in told
    )


OWN_SIGNAL = """
import os, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
try:
    os.kill(os.getpid(), signal.{name})
    time.sleep(1000)
except Exception:
    print("no exception that a program catches")
"""


@pytest.mark.usefixtures("warm_workers")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGKILL", "SIGINT", "SIGUSR1", "SIGALRM"])
async def test_a_program_that_sends_itself_a_signal_was_ended_by_it_and_nobody_cancelled_it(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(OWN_SIGNAL.format(name=name))
    request = CaptureRequest(str(tmp_path / "script.py"), "", as_script=True)
    capture = Capture(request, output=tmp_path / "s.fxs")
    await capture.start()
    outcome = await capture.wait()
    assert outcome.kind == "killed", outcome.message
    assert f"ended by {name} " in outcome.message
    assert "cancelled" not in outcome.message
    assert exit_code(outcome, as_script=False) == 4
    assert exit_code(outcome, as_script=True) == 128 + getattr(signal, name), "as a shell tells it"
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert Outcome.from_json(reader.meta("outcome")) == outcome
        assert not any("no exception" in row.text for row in reader.rows(ConsoleLine))
    assert not capture.session_path.parent.name.startswith("fx-explorer-run-"), "nothing is left"


@pytest.mark.parametrize(
    ("number", "is_of_job", "kind", "words"),
    [
        (signal.SIGTERM, True, "killed", "torchrun ends the other ranks of a job"),
        (signal.SIGTERM, False, "killed", "ended by SIGTERM from outside while running train.py"),
        (signal.SIGHUP, True, "killed", "ended by SIGHUP from outside"),
        (signal.SIGINT, True, "cancelled", "cancelled while running train.py"),
        (0, False, "cancelled", "cancelled while running train.py"),
    ],
)
def test_only_the_users_own_end_of_a_capture_is_told_as_cancelled(
    number: int, is_of_job: bool, kind: str, words: str
) -> None:
    remains = EndedWorker(
        0, "", "running train.py", stopped="cancelled", stopped_by=number, is_of_job=is_of_job
    )
    outcome = outcome_of(remains)
    assert outcome.kind == kind
    assert words in outcome.message
    assert exit_code(outcome, as_script=True, stopped_by=number) == 128 + (number or signal.SIGINT)
