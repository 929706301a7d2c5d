"""The worker as a process: its pipes, its signals, and that nothing of it stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path

from fx_explorer.client.child_sessions import DIRECTORY as CHILDREN
from fx_explorer.client.child_sessions import HOOK, without_mark
from fx_explorer.client.descendants import MARK, OWN_MARK, Descendant, Descendants, UnknownProcess
from fx_explorer.client.forked_workers import WORKER, ForkedWorker, ForkServer, watched
from fx_explorer.client.process_outcomes import StopReason

STOP_FILE = "stop"
"""In the session's directory: the SIGTERM that follows is ours (program/process_ending.py)."""

GRACE_S = 3.0
"""Time for the worker to end by itself after SIGTERM: torch's own teardown takes up to 2 s."""

DRAIN_S = 1.0
"""How long output is awaited when the worker is gone: a process that left its group may hold the
pipe for ever.
"""

DRAIN_TURNS = 20
"""Number of turns into which that time is divided."""

LONGEST_NOTICE = 1 << 20

Reading = Callable[[asyncio.StreamReader], Coroutine[object, object, None]]


class WorkerProcess:
    """One worker, in a session and process group of its own. It is ended with everything in its
    group, whatever happens to us: also when the task that runs it is cancelled, and, by the closed
    command pipe, when this process is killed.
    """

    def __init__(
        self,
        python: str,
        environment: Mapping[str, str] | None = None,
        job: str = "worker.job",
        directory: Path | None = None,
        fork_server: ForkServer | None = None,
    ) -> None:
        """``environment`` are variables beside our own. ``job`` is the module of worker/ that does
        the work. ``directory`` is that of the session that it records; None for one that records
        nothing. A worker is forked by ``fork_server`` where it can be, and else started.
        """
        self.python = python
        self._job = job
        mark = secrets.token_hex(8)
        self._environment = {**without_mark(os.environ), **(environment or {}), MARK: mark}
        self._environment.pop(OWN_MARK, None)
        self._directory = directory
        self._fork_server = fork_server
        self._descendants = Descendants(mark, HOOK)
        self.stopped: StopReason = ""
        """Why we ended it; empty when we did not."""
        self.left_output_open = False
        """Whether a process that left the group still held its output at the end."""
        self.left_the_group: list[Descendant] = []
        """Processes that the program started and that left its group. When the worker was stopped
        they were ended, otherwise they run on, as they would without us.
        """
        self.time_limit = TimeLimit(None, self._time_out)
        """``--timeout``; held while the worker waits for the user."""
        self._process: asyncio.subprocess.Process | ForkedWorker | None = None
        self._commands: asyncio.WriteTransport | None = None
        self._timing_out: asyncio.Task[None] | None = None

    async def run(
        self,
        request: str,
        timeout_s: float | None,
        *,
        notices: Reading,
        stdout: Reading,
        stderr: Reading,
    ) -> int:
        """Run it to its end and return its exit status, or minus the signal's number. Raises
        OSError when it cannot start.
        """
        async with contextlib.AsyncExitStack() as stack:
            readers = [await _reading_pipe(stack) for _ in range(3)]
            (_, notices_fd), (_, stdout_fd), (_, stderr_fd) = readers
            self._commands, commands_fd = await _writing_pipe(stack)
            self.send(request)
            self.time_limit = TimeLimit(timeout_s, self._time_out)
            self.time_limit.go_on()
            tasks = [
                asyncio.create_task(read(pipe))
                for read, (pipe, _) in zip((notices, stdout, stderr), readers, strict=True)
            ]
            descriptors = (notices_fd, commands_fd, stdout_fd, stderr_fd)
            try:
                self._process = process = await self._start(*descriptors)
            finally:
                # The worker has its own by now. A pipe that we held open too would never end.
                for descriptor in descriptors:
                    os.close(descriptor)
            # Killed when this is cancelled, it must be waited for before the loop is closed.
            stack.push_async_callback(process.wait)
            stack.callback(self._kill_group)
            stack.enter_context(watched(process.pid))
            marks = self._directory / CHILDREN if self._directory else None
            self._descendants.begin(process.pid, marks)
            stack.callback(self._descendants.stop)
            if self.stopped:  # while it was being started
                self._kill_group()
            await process.wait()
            self.time_limit.hold()
            if not self.stopped:
                await asyncio.to_thread(self._descendants.program_ended)
            self._kill_group()
            self.left_the_group = await asyncio.to_thread(
                self._descendants.end_all if self.stopped else self._descendants.outside_the_group
            )
            await self._drain(tasks)
            assert process.returncode is not None
            return process.returncode

    async def _start(
        self, notices: int, commands: int, output: int, errors: int
    ) -> asyncio.subprocess.Process | ForkedWorker:
        """Start the worker: as a fork of the server, else as a fresh process. Raises OSError when
        neither starts.
        """
        if self._fork_server is not None:
            descriptors = (notices, commands, output, errors)
            worker = await self._fork_server.fork(
                self.python, self._environment, self._job, descriptors
            )
            if worker is not None:
                return worker
        return await asyncio.create_subprocess_exec(
            self.python,
            str(WORKER),
            str(notices),
            str(commands),
            self._job,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            pass_fds=(notices, commands),
            env=self._environment,
            start_new_session=True,
        )

    @property
    def unknown_processes(self) -> list[UnknownProcess]:
        """Return the program's processes that may have compiled something and were not recorded."""
        return self._descendants.unknown

    async def stop(self, reason: StopReason, grace_s: float = GRACE_S) -> None:
        """End it: politely first, by force after ``grace_s``. Does nothing to one that has
        ended.
        """
        process = self._process
        if process is not None and process.returncode is not None:
            return
        # The first reason is why it ends; a second one finds it ending.
        self.stopped = self.stopped or reason
        # run() looks for a reason to stop as soon as there is a process.
        if process is None:
            if self._fork_server is not None:
                self._fork_server.give_up_importing()
            return
        if self._directory is not None:
            with contextlib.suppress(OSError):  # no room: the worker takes the signal for another's
                (self._directory / STOP_FILE).touch(0o600)
        self.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), grace_s)
        except asyncio.TimeoutError:
            self._kill_group()
            await process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the worker alone; to nobody when it is gone."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def send(self, line: str) -> None:
        """Write a line to the command pipe; to nobody when the worker is gone."""
        if self._commands is not None and not self._commands.is_closing():
            self._commands.write(line.encode() + b"\n")

    async def dismiss(self, line: str, grace_s: float) -> None:
        """End a worker that has nothing left to do: by its own command, and by force after
        ``grace_s``.
        """
        self.send(line)
        if self._process is not None:
            try:
                await asyncio.wait_for(self._process.wait(), grace_s)
            except asyncio.TimeoutError:
                self._kill_group()

    def kill(self) -> None:
        """End it and everything it started, at once."""
        self._kill_group()

    def _time_out(self) -> None:
        self._timing_out = asyncio.create_task(self.stop("timed_out"), name="time out")

    async def _drain(self, tasks: list[asyncio.Task[None]]) -> None:
        """Read the rest of the pipes within ``DRAIN_S``, in several turns. When this process gets
        no time for a while, that costs one turn and not all of them.
        """
        for _ in range(DRAIN_TURNS):
            ended, unfinished = await asyncio.wait(tasks, timeout=DRAIN_S / DRAIN_TURNS)
            if not unfinished:
                break
        self.left_output_open = bool(unfinished)
        for task in unfinished:
            task.cancel()
        for task in ended:
            task.result()  # a fault in reading is ours and must show

    def _kill_group(self) -> None:
        """End the worker and everything it started: compilers, the program's children."""
        if self._process is not None:
            with contextlib.suppress(
                ProcessLookupError, PermissionError
            ):  # PermissionError: macOS, when only zombies are left
                os.killpg(self._process.pid, signal.SIGKILL)


async def _reading_pipe(stack: contextlib.AsyncExitStack) -> tuple[asyncio.StreamReader, int]:
    """Return a reader for us and a descriptor for the worker."""
    ours, theirs = os.pipe()
    reader = asyncio.StreamReader(limit=LONGEST_NOTICE)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb", 0)
    )
    stack.callback(transport.close)
    return reader, theirs


async def _writing_pipe(stack: contextlib.AsyncExitStack) -> tuple[asyncio.WriteTransport, int]:
    theirs, ours = os.pipe()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(ours, "wb", 0))
    stack.callback(transport.close)
    return transport, theirs


async def next_line(reader: asyncio.StreamReader) -> bytes:
    """Return the next line; empty at the end of the pipe. A line that is too long comes in pieces,
    of which none is a notice.
    """
    try:
        return await reader.readline()
    except ValueError:  # asyncio has dropped what it had of the line
        return b"(a line that is too long)\n"


# The time limit of a capture. It stands still while the worker waits for the user: that time is
# not the program's.


class TimeLimit:
    """A TimeLimit calls ``on_end`` after ``limit_s`` seconds, not counting the time in which it is
    held. With None it never does.
    """

    def __init__(self, limit_s: float | None, on_end: Callable[[], object]) -> None:
        self._left_s = limit_s
        self._on_end = on_end
        self._timer: asyncio.TimerHandle | None = None

    def go_on(self) -> None:
        if self._left_s is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._left_s, self._on_end)

    def hold(self) -> None:
        if self._timer is not None:
            self._left_s = max(0.0, self._timer.when() - asyncio.get_running_loop().time())
            self._timer.cancel()
            self._timer = None
