"""Workers that need not import torch: they are forks of a process that has imported it.

``ForkServer`` keeps that process (worker/fork_server.py) for one interpreter and its variables.
Where there can be none (a system other than Linux, an old kernel, a machine whose accelerator no
fork can use), and for a worker with other variables, ``fork`` returns None, and a fresh process is
started.

A watcher ends a worker's group of processes when this process is gone. A worker watches its command
pipe itself, but in a thread, which does not run while C code holds the interpreter's lock. A shell
that waits for the end of a pipe of ours needs nobody: it kills the group also when we end by ``kill
-9``.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fx_explorer.client.child_sessions import without_mark
from fx_explorer.client.descendants import MARK, OWN_MARK, adopting
from fx_explorer.process_status import can_follow_processes, status_of

WATCHER_SHELL = "/bin/sh"

WATCHER_SCRIPT = 'read -r line; kill -s KILL -- "-$1"'
"""Shell script that ends a process group when the pipe on its input closes: ``read`` returns only
then, because nobody writes to the pipe.
"""


def watcher_of(group: int) -> subprocess.Popen[bytes] | None:
    """Start a watcher for a process group. Returns None without a shell (a bare container): then
    nothing ends the group.
    """
    try:
        return subprocess.Popen(
            [WATCHER_SHELL, "-c", WATCHER_SCRIPT, WATCHER_SHELL, str(group)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={OWN_MARK: "1"},
            start_new_session=True,  # what ends our group, a closed terminal, must not end it first
        )
    except OSError:
        return None


def end_watcher(watcher: subprocess.Popen[bytes]) -> None:
    """End a watcher without letting it end the group. It must be gone before its pipe is closed,
    because the group's number may belong to another group by now.
    """
    watcher.kill()
    watcher.wait()
    if watcher.stdin is not None:
        watcher.stdin.close()


@contextlib.contextmanager
def watched(group: int) -> Iterator[None]:
    """Inside the block, make sure that the process group is ended if this process ends."""
    watcher = watcher_of(group)
    try:
        yield
    finally:
        if watcher is not None:
            end_watcher(watcher)


WORKER = Path(__file__).resolve().parent.parent / "worker" / "worker.py"

JOB = "worker.fork_server"

NO_MARK = "0" * 16
"""Value of MARK in the server: each fork writes its own in its place."""

READ_LATE = frozenset((MARK, "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"))
"""Variables that may differ between a server and its forks: torch and triton read these whenever
they need a cache folder (torch/_inductor/runtime/cache_dir_utils.py, triton/knobs.py).
"""

ACCELERATORS = ("/dev/kfd", "/dev/accel")
"""Where one of these is, workers are started afresh. That importing torch leaves a device usable in
a fork was tried for CUDA only (worker/fork_server.py).
"""


class ForkedWorker:
    """A child process that this process did not start itself, as a subprocess of asyncio."""

    def __init__(self, pid: int) -> None:
        """Raises OSError where the system cannot wait for it."""
        self.pid = pid
        self.returncode: int | None = None
        self._has_ended = asyncio.Event()
        self._descriptor = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._descriptor, self._end)

    async def wait(self) -> int:
        """Wait for its end, and return its exit status, or minus the signal's number."""
        await self._has_ended.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        _, status = os.waitpid(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)
        self._has_ended.set()


class ForkServer:
    """Keeps a process that has imported torch, from the first ``prepare`` or ``fork`` on, until it
    is closed.
    """

    def __init__(self) -> None:
        self._server: _Server | None = None
        self._is_closed = False

    def prepare(self, python: str) -> None:
        """Have torch imported in the background, for workers in this interpreter. A server for
        another interpreter, or for other variables, is ended.
        """
        if self._server is not None and self._server.made_for != _kind(python):
            self._end_server()
        server = self._server_for(python)
        if server is not None:
            server.import_torch()

    async def fork(
        self, python: str, environment: Mapping[str, str], job: str, descriptors: Sequence[int]
    ) -> ForkedWorker | None:
        """Fork a worker with these variables and return it. Returns None where a fresh process must
        be started instead.

        ``descriptors`` are what it gets for its notices, commands, output and errors; they may be
        closed when this returns.
        """
        if _differing(_variables(), environment) - READ_LATE:
            return None
        server = self._server_for(python)
        if server is None:
            return None
        variables = {name: environment[name] for name in READ_LATE if name in environment}
        asked = {"job": job, "variables": variables, "folder": os.getcwd()}
        copies = [os.dup(descriptor) for descriptor in descriptors]
        forking = asyncio.create_task(asyncio.to_thread(server.fork, asked, copies))
        try:
            pid = await asyncio.shield(forking)
        except asyncio.CancelledError:
            forking.add_done_callback(_end_unwanted)
            raise
        worker = _adopted(pid) if pid else None
        if pid and worker is None:
            raise OSError(f"process {pid}, a fork of a worker, ended before it could start")
        return worker

    @property
    def is_importing(self) -> bool:
        """Return whether a fork would have to wait."""
        return self._server is not None and self._server.is_busy

    def give_up_importing(self) -> None:
        """End a server that is still importing: whoever waits for a fork of it gets none."""
        if self.is_importing:
            self._end_server()

    def close(self) -> None:
        """End the server, and start none again."""
        self._is_closed = True
        self._end_server()

    def _server_for(self, python: str) -> _Server | None:
        """Return the server for this interpreter, a new one if there is none."""
        if self._is_closed or not _can_fork():
            return None
        if self._server is not None and self._server.has_ended:
            self._end_server()
        kind = _kind(python)
        if self._server is None:
            with contextlib.suppress(OSError):  # a fresh process fails too, and says why
                self._server = _Server(kind)
        is_for_it = self._server is not None and self._server.made_for == kind
        return self._server if is_for_it else None

    def _end_server(self) -> None:
        if self._server is not None:
            self._server.end()
            self._server = None


Kind = tuple[str, str, dict[str, str]]
"""What a server is made for: an interpreter, a working directory where that matters, variables."""


class _Server:
    """One process of worker/fork_server.py. Threads may use it."""

    def __init__(self, made_for: Kind) -> None:
        """Raises OSError where it cannot start."""
        self.made_for = made_for
        self.has_ended = False
        self._is_greeted = False
        self._has_answered = False
        """Whether it has imported or forked before. A program that imports torch itself (a script)
        has fresh workers only: nothing is imported for it.
        """
        self._talking = threading.Lock()
        python, _, variables = made_for
        self._socket, theirs = socket.socketpair()
        try:
            descriptor = theirs.fileno()
            self._process = subprocess.Popen(
                [python, str(WORKER), str(descriptor), str(descriptor), JOB],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(descriptor,),
                env={**variables, MARK: NO_MARK},
                start_new_session=True,
            )
        except OSError:
            self._socket.close()
            raise
        finally:
            theirs.close()
        self._answers = self._socket.makefile("rb")
        self._watcher = watcher_of(self._process.pid)
        self._end_with_us = weakref.finalize(self, self._process.kill)

    @property
    def is_busy(self) -> bool:
        """Return whether the server is importing or forking now."""
        return self._talking.locked()

    def import_torch(self) -> None:
        """Begin to import in the background."""
        if not self._has_answered and not self.is_busy:
            threading.Thread(target=self._ask, args=({}, ()), daemon=True).start()

    def fork(self, asked: Mapping[str, object], descriptors: Sequence[int]) -> int:
        """Return the process of a worker, a child of this process; 0 when the server has ended.
        Closes the descriptors.
        """
        try:
            with adopting() as can_adopt:
                return self._ask(asked, descriptors) if can_adopt else 0
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def end(self) -> None:
        """End the process at once."""
        self.has_ended = True
        self._end_with_us()
        self._process.wait()
        if self._watcher is not None:
            end_watcher(self._watcher)
        with self._talking:  # whoever waits for an answer gets the end of the pipe now
            self._answers.close()
            self._socket.close()

    def _ask(self, asked: Mapping[str, object], descriptors: Sequence[int]) -> int:
        with self._talking:
            if self.has_ended:
                return 0
            try:
                if not self._is_greeted:
                    self._greet()
                socket.send_fds(self._socket, [json.dumps(asked).encode() + b"\n"], descriptors)
                line = self._answers.readline()
            except OSError:  # it died, or is not ours
                line = b""
            if not line.strip().isdigit():
                self.has_ended = True
                return 0
            self._has_answered = True
            return int(line)

    def _greet(self) -> None:
        """Check that the process that was started answers itself. Raises OSError where another one
        answers: the interpreter is a wrapper, or runs in a container, and its forks would not
        become children of this process.
        """
        line = self._answers.readline()
        if line.strip() != b"%d" % self._process.pid:
            raise OSError(f"another process answers in place of the interpreter: {line!r}")
        self._is_greeted = True


@functools.cache
def fork_server() -> ForkServer:
    """Return the server of this process, which ends with it."""
    return ForkServer()


@functools.cache
def _can_fork() -> bool:
    """Return whether this system lets a process wait for one that another has forked, and torch
    works in a fork.
    """
    if not can_follow_processes() or any(map(os.path.exists, ACCELERATORS)):
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (OSError, AttributeError):  # before Linux 5.3
        return False
    return True


def _variables() -> dict[str, str]:
    """Return the environment that a worker gets, without the mark that tells it from others."""
    variables = without_mark(os.environ)
    variables.pop(OWN_MARK, None)
    return variables


def _kind(python: str) -> Kind:
    variables = _variables()
    places = variables.get("PYTHONPATH", "").split(os.pathsep)
    is_relative = any(place and not os.path.isabs(place) for place in places)
    return python, os.getcwd() if is_relative else "", variables


def _differing(some: Mapping[str, str], others: Mapping[str, str]) -> set[str]:
    names = some.keys() | others.keys()
    return {name for name in names if some.get(name) != others.get(name)}


def _adopted(pid: int) -> ForkedWorker | None:
    """Return the process; None where it is no child of this one."""
    if not _is_child(pid):
        return None
    try:
        return ForkedWorker(pid)
    except OSError:
        return None


def _is_child(pid: int) -> bool:
    status = status_of(pid)
    return status is not None and status.parent == os.getpid()


def _end_unwanted(forking: asyncio.Task[int]) -> None:
    pid = 0 if forking.cancelled() else forking.result()
    if pid and _is_child(pid):
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
