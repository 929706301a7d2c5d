"""This module builds kernels beside the app: it keeps some warm builders (kernel_builder.py), and
requests wait until one is free. It also disassembles a kernel whose machine code from a real GPU is
in the session.

Each request is a task of its own. To cancel it kills the builder that works on it, which starts
again with the next request; what was built before is in the session.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Container
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path

from fx_explorer.client.worker_process import WorkerProcess, next_line
from fx_explorer.errors import WorkerError
from fx_explorer.model import (
    NVDISASM_OPTIONS,
    BuildAnswer,
    BuildRequest,
    BuildTask,
    Gpu,
    Kernel,
    KernelBuild,
)
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.levels import add_level
from fx_explorer.session.ownership import is_own_session

MOST_BUILDERS = 2
"""Maximum number of builders. Each holds torch, which takes some 500 MB."""

ToldOf = Callable[[BuildAnswer], None]


class BuilderPool:
    """Builds kernels for one GPU. All methods must be called in the thread of the event loop."""

    def __init__(self, gpu: Gpu, python: str = sys.executable, builders: int = 0) -> None:
        """``builders`` is the largest number of processes, each started when it is first needed; 0
        lets us choose.
        """
        self.gpu = gpu
        self._numbers = count(1)
        self._builders = [
            Builder(gpu, python) for _ in range(builders or min(MOST_BUILDERS, os.cpu_count() or 1))
        ]
        # The one that was used last is warm.
        self._idle: asyncio.LifoQueue[Builder] = asyncio.LifoQueue()
        for builder in self._builders:
            self._idle.put_nowait(builder)
        self._tasks: set[asyncio.Task[BuildAnswer]] = set()

    async def warm_up(self) -> BuildAnswer:
        """Start one builder, so that the first request need not wait for it. Raises WorkerError
        when nothing can be built.
        """
        async with self._builder() as builder:
            return await builder.start()

    def ask(
        self, task: BuildTask, session: Path, kernel: int, position: int = 0
    ) -> asyncio.Task[BuildAnswer]:
        """Send a builder a request; cancel the task to stop it. If the builder dies, the answer is
        ``failed``.
        """
        request = BuildRequest(next(self._numbers), task, str(session), kernel, position)
        asked = asyncio.create_task(self._ask(request), name=f"{task} of kernel {kernel}")
        self._tasks.add(asked)
        asked.add_done_callback(self._tasks.discard)
        return asked

    async def build(self, session: Path, kernel: int, position: int = 0) -> KernelBuild:
        """Build one configuration, or take it from the session. Raises WorkerError when neither
        succeeds.
        """
        answer = await self.ask("build", session, kernel, position)
        return _row(session, answer)

    async def candidates(self, session: Path, kernel: int) -> list[KernelBuild]:
        """Return every configuration, built or not, in the order the autotuner would try them.
        Raises WorkerError.
        """
        answer = await self.ask("candidates", session, kernel)
        if answer.kind == "refused":
            raise WorkerError(answer.text)
        return rows_of(session, kernel, self.gpu.name)

    async def build_all(
        self, session: Path, kernel: int, tell: ToldOf = lambda answer: None
    ) -> list[KernelBuild]:
        """Build every configuration in parallel, for its resources; ``tell`` is called for each
        that ends. Configurations that Inductor adds after it has seen the registers of the first
        ones come last. SASS comes with ``build``. Raises WorkerError.
        """
        asked: set[int] = set()
        refused: list[str] = []
        while waiting := await self._positions_except(asked, session, kernel):
            asked.update(waiting)
            builds = [self.ask("resources", session, kernel, position) for position in waiting]
            for build in asyncio.as_completed(builds):
                answer = await build
                tell(answer)
                if answer.kind == "refused":
                    refused.append(answer.text)
            if refused:
                raise WorkerError(refused[0])
        return rows_of(session, kernel, self.gpu.name)

    async def _positions_except(
        self, asked: Container[int], session: Path, kernel: int
    ) -> list[int]:
        rows = await self.candidates(session, kernel)
        return [row.position for row in rows if row.position not in asked]

    async def passes(self, session: Path, kernel: int, position: int = 0) -> str:
        """Return the text that MLIR printed before each of its passes (``assembly/passes.py``).
        Raises WorkerError.
        """
        answer = await self.ask("passes", session, kernel, position)
        row = _row(session, answer)
        if answer.kind == "failed":
            raise WorkerError(answer.text)
        with SessionReader(session) as reader:
            return reader.text(row.passes)

    def cancel(self) -> None:
        """Stop all requests that have not finished."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """End every builder."""
        self.cancel()
        await asyncio.gather(*(builder.end() for builder in self._builders))

    async def __aenter__(self) -> BuilderPool:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @contextlib.asynccontextmanager
    async def _builder(self) -> AsyncIterator[Builder]:
        builder = await self._idle.get()
        try:
            yield builder
        finally:
            self._idle.put_nowait(builder)

    async def _ask(self, request: BuildRequest) -> BuildAnswer:
        async with self._builder() as builder:
            try:
                request = replace(
                    request, is_own=await asyncio.to_thread(is_own_session, Path(request.session))
                )
                return await builder.ask(request)
            except BuilderDiedError as error:
                return await asyncio.to_thread(_note_death, request, self.gpu, str(error))


def _note_death(request: BuildRequest, gpu: Gpu, how: str) -> BuildAnswer:
    """Write a row that says how a builder died. It leaves out the name of the toolchain, so that
    the next request tries the build again.
    """
    if request.task == "passes":
        return BuildAnswer(request.number, "refused", text=how)
    rows = rows_of(Path(request.session), request.kernel, gpu.name)
    rows = [row for row in rows if row.position == request.position]
    with SessionWriter(request.session) as writer:
        if rows:
            row = rows[0]
        else:
            row = KernelBuild(0, request.kernel, request.position, {}, gpu.name)
        row = replace(row, state="failed", error=how, toolchain="")
        if row.id:
            writer.update(row)
            return BuildAnswer(request.number, "failed", row.id, how)
        return BuildAnswer(request.number, "failed", writer.add(row), how)


def rows_of(session: Path, kernel: int, gpu: str) -> list[KernelBuild]:
    """Read the builds of a kernel in the order the autotuner would try them."""
    with SessionReader(session) as reader:
        return sorted(
            reader.rows(KernelBuild, kernel=kernel, gpu=gpu), key=lambda row: row.position
        )


def _row(session: Path, answer: BuildAnswer) -> KernelBuild:
    if not answer.build:
        raise WorkerError(answer.text)
    with SessionReader(session) as reader:
        return reader.get(KernelBuild, answer.build)


# One builder (instruments/kernels/measure/kernel_builder.py) from the outside: a process that is
# asked for one
# thing at a time.

QUIT_S = 1.0

LAST_WORDS = 4000
"""Number of bytes that are kept of a builder's last output."""


class BuilderDiedError(WorkerError):
    """The process ended before it answered."""


class Builder:
    """One builder process, started at the first request, and again when it has ended."""

    def __init__(self, gpu: Gpu, python: str) -> None:
        self._gpu = gpu
        self._python = python
        self._process = WorkerProcess(python, job="instruments.kernels.measure.kernel_builder")
        self._running: asyncio.Task[int] | None = None
        self._answers: asyncio.Queue[BuildAnswer] = asyncio.Queue()
        self._last_output = b""

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
        self._process = WorkerProcess(
            self._python, job="instruments.kernels.measure.kernel_builder"
        )
        # What the process before it answered late is no answer of this one.
        self._answers = asyncio.Queue()
        self._last_output = b""
        gpu = json.dumps(self._gpu.to_json())
        run = self._process.run(gpu, None, notices=self._read, stdout=self._hear, stderr=self._hear)
        self._running = asyncio.create_task(run, name="kernel builder")
        answer = await self._answer()
        if answer.kind == "refused":
            raise WorkerError(answer.text)
        return answer

    async def ask(self, request: BuildRequest) -> BuildAnswer:
        """Send the builder a request and return its answer. Raises what ``start`` raises. When
        cancelled, it kills the process.
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
            return (
                f"cannot start {self._python}: {running.exception()}. Choose a Python "
                "interpreter with --python."
            )
        ended = how_it_ended(running.result())
        line = _telling_line(self._last_output.decode(errors="backslashreplace"))
        if line:
            return f"{ended}: {line}"
        return ended

    async def _read(self, notices: asyncio.StreamReader) -> None:
        while line := await next_line(notices):
            try:
                answer = BuildAnswer.from_json(line.decode())
            except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
                words = (
                    f"{self._python} does not answer like a Python interpreter: choose another "
                    "--python"
                )
                answer = BuildAnswer(0, "refused", text=words)
            self._answers.put_nowait(answer)

    async def _hear(self, output: asyncio.StreamReader) -> None:
        while chunk := await output.read(65536):
            self._last_output = (self._last_output + chunk)[-LAST_WORDS:]


def how_it_ended(status: int) -> str:
    """Say how the builder ended: ``the compiler crashed (SIGABRT)``. ``status`` is an exit status,
    or minus a signal's number.
    """
    if status == -signal.SIGKILL:
        return "the compiler was killed (SIGKILL), as happens when memory runs out"
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"the compiler crashed ({signal.Signals(-status).name})"
    return f"the builder exited with status {status}"


def _telling_line(output: str) -> str:
    """Return the most useful line of LLVM's or Python's output: the first that mentions an error,
    else the last.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for line in lines:
        if "error" in line.lower() or "assert" in line.lower():
            return line
    return lines[-1] if lines else ""


WHERE_TRITON_IS = (
    "import importlib.util as u; s = u.find_spec('triton'); print(s.submodule_search_locations[0] "
    "if s else '')"
)
"""Python code that prints the folder of Triton without importing it."""

NO_TOOL = (
    "SASS needs nvdisasm, which is part of Triton: {python} has no triton. Install triton there, "
    "choose another interpreter with --python, or set TRITON_NVDISASM_PATH to the tool."
)


def with_sass(session: Path, build: KernelBuild, python: str = sys.executable) -> KernelBuild:
    """Return the row with its SASS, which is stored in the session. A row that has SASS, or no
    machine code, is returned unchanged. Takes half a second. Raises WorkerError without a tool, or
    when the tool cannot read the code.
    """
    if not build.is_undisassembled:
        return build
    with SessionReader(session) as reader:
        kernel = reader.get(Kernel, build.kernel)
        text = disassembled(base64.b64decode(reader.text(build.machine_code)), python)
    with SessionReader(session) as reader, SessionWriter(session) as writer, writer.transaction():
        now = reader.get(KernelBuild, build.id)
        if not now.is_undisassembled:  # somebody else was first
            return now
        kernel_build = replace(
            now, levels={**now.levels, "sass": add_level(writer, kernel, "sass", text)}
        )
        writer.update(kernel_build)
    return kernel_build


def disassembled(cubin: bytes, python: str = sys.executable) -> str:
    """Disassemble as a builder does (capture/virtual_gpu/building.py). Raises WorkerError."""
    tool = nvdisasm(python)
    if not tool:
        raise WorkerError(NO_TOOL.format(python=python))
    with tempfile.NamedTemporaryFile(suffix=".cubin", prefix="fx-explorer-") as file:
        file.write(cubin)
        file.flush()
        try:
            ended = subprocess.run(
                [tool, *NVDISASM_OPTIONS, file.name], capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise WorkerError(f"{tool} cannot be started: {error}") from error
    if ended.returncode:
        raise WorkerError(f"{tool} cannot read the machine code: {ended.stderr.strip()}")
    return ended.stdout


@cache
def nvdisasm(python: str) -> str:
    """Return the path of the nvdisasm that TRITON_NVDISASM_PATH names, or of the one in the
    interpreter's Triton; empty without either.
    """
    if named := os.environ.get("TRITON_NVDISASM_PATH"):
        return named
    try:
        folder = subprocess.run(
            [python, "-c", WHERE_TRITON_IS], capture_output=True, text=True, check=False
        ).stdout.strip()
    except OSError:
        return ""
    tool = Path(folder) / "backends" / "nvidia" / "bin" / "nvdisasm"
    return str(tool) if folder and tool.is_file() else ""
