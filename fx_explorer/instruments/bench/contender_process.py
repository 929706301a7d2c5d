"""This module starts, commands and ends the process that measures one cell."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from fx_explorer.client.forked_workers import ForkServer
from fx_explorer.client.worker_process import WorkerProcess, next_line
from fx_explorer.errors import WorkerError
from fx_explorer.model import BenchNews, BenchTask, CellState, NumericsTask

JOB = "instruments.bench.measure.contender"

LAST_WORDS = 3
"""Maximum number of lines of the process's output that are quoted when it dies."""

Told = Callable[[str], object]
"""A function that receives messages about what the process is doing."""


class CellFailed(Exception):
    """Raised when a cell can be measured no further."""

    def __init__(
        self, state: CellState, message: str, *, is_usage: bool = False, traceback: str = ""
    ) -> None:
        super().__init__(message)
        self.state = state
        self.message = message
        self.is_usage = is_usage
        """Whether the request is the cause: the target cannot do what was requested."""
        self.traceback = traceback
        """Traceback of the program or the compiler; empty where neither raised."""


class ContenderProcess:
    """A process that measures a round when it is asked. ``started`` makes one."""

    def __init__(self, process: WorkerProcess, timeout_s: float | None, tell: Told) -> None:
        self._process = process
        self._timeout_s = timeout_s
        self._tell = tell
        self._news: asyncio.Queue[BenchNews] = asyncio.Queue()
        self._printed: list[str] = []
        self._ended: asyncio.Task[int] | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def started(
        cls,
        task: BenchTask | NumericsTask,
        folder: Path,
        python: str,
        timeout_s: float | None,
        tell: Told,
        fork_server: ForkServer | None = None,
        job: str = JOB,
    ) -> AsyncIterator[ContenderProcess]:
        """Start the process, with empty compile caches of its own below ``folder``. It ends with
        the block.

        The contender is a fork of ``fork_server`` if possible. ``job`` is the module that does the
        task.
        """
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as caches:
            environment = {
                "TORCHINDUCTOR_CACHE_DIR": caches,
                "TRITON_CACHE_DIR": str(Path(caches) / "triton"),
            }
            if not task.is_compiled:
                # Also what the program itself gives to torch.compile, wherever that stands in it.
                environment["TORCHDYNAMO_DISABLE"] = "1"
            contender = cls(
                WorkerProcess(
                    python,
                    environment,
                    job=job,
                    fork_server=fork_server,
                ),
                timeout_s,
                tell,
            )
            contender._run(task)
            try:
                yield contender
            finally:
                contender._process.kill()
                await contender._over()

    async def answer(self, command: str = "") -> BenchNews:
        """Send a command, if any, and return the next answer. Raises CellFailed without an answer,
        and WorkerError when the interpreter cannot be started.
        """
        if command:
            self._process.send(command)
        try:
            return await asyncio.wait_for(self._answer(), self._timeout_s)
        except asyncio.TimeoutError:
            raise CellFailed(
                "timed_out", f"it took longer than {self._timeout_s:g} s (--timeout)"
            ) from None

    def _run(self, task: BenchTask | NumericsTask) -> None:
        running = self._process.run(
            task.to_json(), None, notices=self._read, stdout=self._print, stderr=self._print
        )
        self._ended = asyncio.create_task(running, name="contender")

    async def _over(self) -> None:
        if self._ended is not None:
            with contextlib.suppress(OSError):  # it could not be started, which ``answer`` tells
                await self._ended

    async def _answer(self) -> BenchNews:
        while True:
            news = await self._next()
            if news.kind == "failed":
                raise CellFailed(
                    news.cell["state"],
                    news.text,
                    is_usage=news.is_usage,
                    traceback=news.traceback,
                )
            if news.kind != "doing":
                return news
            self._tell(news.text)

    async def _next(self) -> BenchNews:
        """Wait for the next message of the process. Raises CellFailed if it dies first."""
        assert self._ended is not None
        news = asyncio.create_task(self._news.get(), name="news of a contender")
        try:
            await asyncio.wait({news, self._ended}, return_when=asyncio.FIRST_COMPLETED)
            if not news.done() and self._news.empty():
                raise self._death()
            return await news
        finally:
            news.cancel()

    def _death(self) -> Exception:
        assert self._ended is not None
        if error := self._ended.exception():
            return WorkerError(
                f"{self._process.python} cannot be started: {error}. Choose another "
                "interpreter with --python."
            )
        status = self._ended.result()
        if status == -9:
            return CellFailed(
                "out_of_memory",
                "the system killed its process (signal 9), as it does when memory runs out",
            )
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        return CellFailed("failed", "; ".join([f"its process died ({how})", *self._printed]))

    async def _read(self, pipe: asyncio.StreamReader) -> None:
        async for line in pipe:
            try:
                self._news.put_nowait(BenchNews.from_json(line.decode()))
            except (ValueError, TypeError) as error:
                # Nobody would wake up who waits for an answer that cannot be read.
                self._news.put_nowait(
                    BenchNews(
                        "failed", f"its answer cannot be read: {error}", cell={"state": "failed"}
                    )
                )

    async def _print(self, pipe: asyncio.StreamReader) -> None:
        while line := await next_line(pipe):
            text = line.decode(errors="backslashreplace").strip()
            if text:
                self._printed = [*self._printed, text][-LAST_WORDS:]
