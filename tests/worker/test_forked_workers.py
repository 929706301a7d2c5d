"""A forked worker captures what a fresh one does, and a fresh interpreter takes its place where the
request needs one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import torch

from fx_explorer.cli import main
from fx_explorer.client import Capture, forked_workers
from fx_explorer.client.forked_workers import ForkServer
from fx_explorer.model import Artifact, CaptureRequest, ConsoleLine, Graph, Outcome
from fx_explorer.session import SessionReader
from fx_explorer.worker import fork_server
from tests.conftest import ROOT
from tests.exhaustive import in_exhaustive_runs, with_others

MLP = str(ROOT / "sample_models" / "mlp.py")

SCRIPT = """import sys

print("torch was there" if "torch" in sys.modules else "torch was not there")

import torch

torch.compile(lambda x: x + 1)(torch.ones(3))
"""

STATE = """import os, random, sys, threading
import torch

def f(x):
    return x + 1

f = torch.compile(f)

def fx_explorer_target():
    print("threads", threading.active_count(), len(threading.enumerate()))
    print("session", os.getsid(0) == os.getpid(), "group", os.getpgrp() == os.getpid())
    print("stdin", sys.stdin.read(), "terminal", sys.stdout.isatty(), sys.stdout.encoding, sys.stdout.line_buffering)
    print("open", [n for n in sorted(map(int, os.listdir("/proc/self/fd"))) if n < 3])
    print("cuda", torch.cuda.is_initialized(), "folder", os.getcwd(), "own", "FX_EXPLORER_CLIENT" in os.environ)
    print("file", __file__, "path", [place for place in sys.path if "worker" in place], len(sys.argv))
    shown = open("/proc/self/environ", "rb").read().decode().split("\\0")
    print("mark", f"FX_EXPLORER_CAPTURE={os.environ['FX_EXPLORER_CAPTURE']}" in shown)
    return f, (torch.ones(3),)
"""

ASKS = f"""import os
import torch

print("variable", os.environ.get("{fork_server.ASKS_THE_DRIVER}"), end=" ")
print("refused", torch.cuda._is_in_bad_fork())

f = torch.compile(lambda x: x + 1)

def fx_explorer_target():
    return f, (torch.ones(3),)
"""

CHANCE = """import random, sys
import torch

print("chance", random.random(), torch.initial_seed())
if "numpy" in sys.modules:
    print(sys.modules["numpy"].random.rand())

def f(x):
    return x + 1

f = torch.compile(f)

def fx_explorer_target():
    return f, (torch.ones(3),)
"""

Look = Callable[[SessionReader], object]


def code(reader: SessionReader) -> tuple[object, ...]:
    graphs = [(graph.stage, graph.direction, graph.node_count) for graph in reader.rows(Graph)]
    texts = [reader.text(row.text) for row in reader.rows(Artifact, stage="output_code")]
    return graphs, texts


def printed(reader: SessionReader) -> str:
    return "\n".join(row.text for row in reader.rows(ConsoleLine))


async def captured(
    server: ForkServer | None, request: CaptureRequest, look: Look
) -> tuple[Outcome, object, int]:
    """The outcome, what was looked for, and the process of the worker that captured."""
    capture = Capture(request, fork_server=server)
    await capture.start()
    try:
        outcome = await capture.wait()
        with SessionReader(capture.session_path) as reader:
            process = capture._worker._process
            return outcome, look(reader), process.pid if process else 0
    finally:
        capture.discard()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def process_of(server: ForkServer) -> int:
    assert server._server is not None
    return server._server._process.pid


@pytest.fixture(autouse=True)
def may_fork(forks_nothing: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked_workers, "_can_fork", lambda: True)


@pytest.fixture
async def server() -> AsyncIterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


@pytest.mark.parametrize("job", with_others(["model"], ["no target", "state", "script"]))
async def test_what_a_forked_worker_captures_is_what_a_fresh_one_does(
    server: ForkServer, job: str, tmp_path: Path
) -> None:
    script, state = tmp_path / "script.py", tmp_path / "state.py"
    script.write_text(SCRIPT)
    state.write_text(STATE)
    look: Look = code if job == "model" else printed
    target = {
        "model": MLP,
        "state": str(state),
        "script": str(script),
        "no target": str(tmp_path / "missing.py"),
    }[job]
    request = CaptureRequest(target, session="")
    outcome, seen, _ = await captured(server, request, look)
    again, seen_again, _ = await captured(server, request, look)
    fresh_outcome, seen_by_fresh, _ = await captured(None, request, look)
    assert (outcome.kind, outcome.message) == (fresh_outcome.kind, fresh_outcome.message)
    assert (again.kind, again.message) == (fresh_outcome.kind, fresh_outcome.message)
    assert seen == seen_again == seen_by_fresh
    assert seen or job == "no target"
    if job == "script":
        assert "torch was not there" in str(seen)


@in_exhaustive_runs
def test_the_first_contender_of_a_bench_may_be_the_first_fork(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pipe understands other messages than a capture's."""
    server = ForkServer()
    monkeypatch.setattr(forked_workers, "fork_server", lambda: server)
    try:
        ended = main(["bench", MLP, "--backends", "aot_eager", "--no-train", "--budget", "5"])
        assert server._server is not None, "nothing was forked"
    finally:
        server.close()
    told = capsys.readouterr()
    assert ended == 0, told.err
    assert "failed" not in told.out
    assert "equal" in told.out


async def test_forks_may_use_a_gpu_have_their_users_variables_and_not_the_same_chance(
    server: ForkServer, tmp_path: Path
) -> None:
    """Asked by way of CUDA, no fork could use a GPU. The program sees what its user has set."""
    target = tmp_path / "asks.py"
    target.write_text(ASKS)
    outcome, seen, _ = await captured(server, CaptureRequest(str(target), session=""), printed)
    assert outcome.kind == "finished", outcome.message
    assert seen == "variable None refused False"

    target = tmp_path / "chance.py"
    target.write_text(CHANCE)
    request = CaptureRequest(str(target), session="")
    runs = [await captured(server, request, printed) for _ in range(2)]
    first, second = (str(seen).split() for _, seen, _ in runs)
    assert first[0] == second[0] == "chance"
    assert not set(first[1:]) & set(second[1:])


async def test_a_forked_worker_is_a_child_of_ours_whose_end_is_seen(server: ForkServer) -> None:
    capture = Capture(CaptureRequest(MLP, session="", stay=True), fork_server=server)
    await capture.start()
    async for notice in capture.notices():
        if notice.kind == "gate" and notice.gate is None:
            break
    process = capture._worker._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    await capture.wait()
    assert process.returncode == -signal.SIGKILL
    assert is_gone(process.pid)
    capture.discard()


async def test_a_server_is_for_its_interpreter_and_variables_alone(server: ForkServer) -> None:
    server.prepare(sys.executable)
    process = process_of(server)
    other = {**os.environ, "TORCHINDUCTOR_MAX_AUTOTUNE": "1"}
    assert await server.fork(sys.executable, other, "worker.job", ()) is None
    server.prepare(sys.executable)
    assert process_of(server) == process
    assert await server.fork("/usr/bin/another-python", dict(os.environ), "worker.job", ()) is None
    server.prepare("/usr/bin/another-python")
    assert server._server is None
    assert is_gone(process)


async def test_an_interpreter_that_cannot_start_is_told_as_by_a_fresh_worker(
    server: ForkServer,
) -> None:
    capture = Capture(CaptureRequest(MLP, session=""), "/no/such/python", fork_server=server)
    await capture.start()
    outcome = await capture.wait()
    capture.discard()
    assert outcome.kind == "not_started"
    assert "cannot start /no/such/python" in outcome.message


@in_exhaustive_runs
async def test_a_wrapper_that_is_no_interpreter_itself_gets_fresh_workers(
    server: ForkServer, tmp_path: Path
) -> None:
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\n"{sys.executable}" "$@"\nexit $?\n')
    wrapper.chmod(0o700)
    capture = Capture(CaptureRequest(MLP, session=""), str(wrapper), fork_server=server)
    await capture.start()
    outcome = await capture.wait()
    capture.discard()
    assert outcome.kind == "finished"
    assert not isinstance(capture._worker._process, forked_workers.ForkedWorker)


async def test_no_server_is_left_when_nobody_needs_it_any_more() -> None:
    server = ForkServer()
    server.prepare(sys.executable)
    process = process_of(server)
    server.close()
    assert is_gone(process)
    server.prepare(sys.executable)
    assert server._server is None


async def test_a_server_that_died_is_replaced(server: ForkServer) -> None:
    server.prepare(sys.executable)
    process = process_of(server)
    os.kill(process, signal.SIGKILL)
    outcome, _, _ = await captured(server, CaptureRequest(MLP, session=""), code)
    assert outcome.kind == "finished"
    outcome, _, _ = await captured(server, CaptureRequest(MLP, session=""), code)
    assert outcome.kind == "finished"


async def test_a_capture_that_is_stopped_while_torch_is_imported_ends_at_once(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = tmp_path / "torch"
    torch.mkdir()
    (torch / "__init__.py").write_text("import time\ntime.sleep(100)")
    (torch / "version.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    capture = Capture(CaptureRequest(MLP, session=""), fork_server=server)
    await capture.start()
    async for notice in capture.notices():
        if notice.text == "importing torch":
            break
    outcome = await asyncio.wait_for(capture.cancel(), 20)
    capture.discard()
    assert outcome.kind == "cancelled"


async def test_an_import_that_takes_too_long_is_a_time_out(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = tmp_path / "torch"
    torch.mkdir()
    (torch / "__init__.py").write_text("import time\ntime.sleep(100)")
    (torch / "version.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    capture = Capture(CaptureRequest(MLP, session=""), timeout=3, fork_server=server)
    await capture.start()
    outcome = await asyncio.wait_for(capture.wait(), 40)
    capture.discard()
    assert outcome.kind == "timed_out"


async def test_a_fresh_interpreter_takes_over_where_torch_has_changed(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = tmp_path / "torch"
    torch.mkdir()
    version = torch / "version.py"
    version.write_text("")
    (torch / "__init__.py").write_text("__version__ = 'first'")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    await captured(server, CaptureRequest(MLP, session=""), printed)
    (torch / "__init__.py").write_text("raise ImportError('it is the second now')")
    version.write_text("second = True")
    outcome, *_ = await captured(server, CaptureRequest(MLP, session=""), printed)
    assert "it is the second now" in outcome.message


def test_a_fork_in_which_torch_refuses_the_gpu_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not fork_server.has_lost_its_devices()
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    assert fork_server.has_lost_its_devices()
