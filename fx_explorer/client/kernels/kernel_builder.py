"""One builder (worker/kernels/kernel_builder.py) from the outside: a process that is asked for one
thing at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal

from fx_explorer.client.process import WorkerProcess, next_line
from fx_explorer.errors import WorkerError
from fx_explorer.model import BuildAnswer, BuildRequest, Gpu

QUIT_S = 1.0

LAST_WORDS = 4000
"""Bytes of what a builder printed last."""


class BuilderDiedError(WorkerError):
    """The process ended before it answered."""


class Builder:
    """One process, started when it is first asked, and again when it has ended."""

    def __init__(self, gpu: Gpu, python: str) -> None:
        self._gpu = gpu
        self._python = python
        self._process = WorkerProcess(python, job="kernels.kernel_builder")
        self._running: asyncio.Task[int] | None = None
        self._answers: asyncio.Queue[BuildAnswer] = asyncio.Queue()
        self._said = b""

    @property
    def is_alive(self) -> bool:
        return self._running is not None and not self._running.done()

    async def start(self) -> BuildAnswer:
        """Start the builder, and return when it is warm, some seconds later; at once when it is
        warm already. Raises WorkerError when this interpreter or machine cannot build, and
        BuilderDiedError.
        """
        if self.is_alive:
            return BuildAnswer(0, "ready")
        self._process = WorkerProcess(self._python, job="kernels.kernel_builder")
        # What the process before it answered late is no answer of this one.
        self._answers = asyncio.Queue()
        self._said = b""
        gpu = json.dumps(self._gpu.to_json())
        run = self._process.run(gpu, None, notices=self._read, stdout=self._hear, stderr=self._hear)
        self._running = asyncio.create_task(run, name="kernel builder")
        answer = await self._answer()
        if answer.kind == "refused":
            raise WorkerError(answer.text)
        return answer

    async def ask(self, request: BuildRequest) -> BuildAnswer:
        """Ask the builder for one thing. Raises what ``start`` raises. When cancelled, it kills the
        process.
        """
        try:
            await self.start()
            self._process.send(request.to_json())
            return await self._answer()
        except asyncio.CancelledError:
            self._process.kill()
            if self._running is not None:
                # The next request asks whether it is alive, which it must not be any more.
                await asyncio.wait({self._running})
            raise

    async def end(self) -> None:
        if self.is_alive and self._running is not None:
            await self._process.dismiss(BuildRequest(0, "quit").to_json(), QUIT_S)
            await asyncio.wait({self._running})

    async def _answer(self) -> BuildAnswer:
        assert self._running is not None
        answering = asyncio.ensure_future(self._answers.get())
        try:
            await asyncio.wait({answering, self._running}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                return answering.result()
            # It has answered and ended before the task that waits for the answer could run.
            if not self._answers.empty():
                return self._answers.get_nowait()
            raise BuilderDiedError(self._how_it_ended(self._running))
        finally:
            answering.cancel()

    def _how_it_ended(self, running: asyncio.Task[int]) -> str:
        if running.exception() is not None:
            return f"cannot start {self._python}: {running.exception()}. Choose a Python interpreter with --python."
        said = _telling_line(self._said.decode(errors="backslashreplace"))
        return how_it_ended(running.result()) + (f": {said}" if said else "")

    async def _read(self, notices: asyncio.StreamReader) -> None:
        while line := await next_line(notices):
            try:
                answer = BuildAnswer.from_json(line.decode())
            except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
                words = f"{self._python} answers as no Python does: choose another --python"
                answer = BuildAnswer(0, "refused", text=words)
            self._answers.put_nowait(answer)

    async def _hear(self, output: asyncio.StreamReader) -> None:
        while chunk := await output.read(65536):
            self._said = (self._said + chunk)[-LAST_WORDS:]


def how_it_ended(status: int) -> str:
    """Say how the builder ended: ``the compiler crashed (SIGABRT)``. ``status`` is an exit status,
    or minus a signal's number.
    """
    if status == -signal.SIGKILL:
        return "the compiler was killed (SIGKILL), as the system does when memory runs out"
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"the compiler crashed ({signal.Signals(-status).name})"
    return f"the builder ended by itself with exit status {status}"


def _telling_line(said: str) -> str:
    """Return what LLVM or Python said of it: the first line that speaks of an error, else the
    last.
    """
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = (line for line in lines if "error" in line.lower() or "assert" in line.lower())
    return next(telling, lines[-1] if lines else "")
