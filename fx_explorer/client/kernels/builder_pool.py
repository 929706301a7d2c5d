"""Some warm builders (kernel_builder.py), and requests that wait for one to be free.

Each request is a task of its own. To cancel it kills the builder that works on it, which starts
anew with the next request; what was built before is in the session.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

from fx_explorer.client.kernels.kernel_builder import Builder, BuilderDiedError
from fx_explorer.client.trust import is_own
from fx_explorer.errors import WorkerError
from fx_explorer.model import BuildAnswer, BuildRequest, BuildTask, Gpu, KernelBuild
from fx_explorer.session import SessionReader, SessionWriter

MOST_BUILDERS = 2
"""Each holds torch, some 500 MB."""

ToldOf = Callable[[BuildAnswer], None]


class BuilderPool:
    """Builds kernels for one GPU. All methods are for the thread of the event loop."""

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
        """Ask for something; cancel the task to stop it. A builder that dies of it is an answer
        too: ``failed``.
        """
        request = BuildRequest(next(self._numbers), task, str(session), kernel, position)
        asked = asyncio.create_task(self._ask(request), name=f"{task} of kernel {kernel}")
        self._tasks.add(asked)
        asked.add_done_callback(self._tasks.discard)
        return asked

    async def build(self, session: Path, kernel: int, position: int = 0) -> KernelBuild:
        """Build one configuration, or take it from the session when it is there. Raises WorkerError
        when nothing could be done.
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
        """Build every configuration in parallel, for its resources; ``tell`` hears of each as it
        ends. Those that Inductor adds once it has seen the registers of the first ones come last.
        SASS comes with ``build``. Raises WorkerError.
        """
        asked: set[int] = set()
        refused: list[str] = []
        while waiting := [
            row.position
            for row in await self.candidates(session, kernel)
            if row.position not in asked
        ]:
            asked.update(waiting)
            for answer in asyncio.as_completed(
                [self.ask("resources", session, kernel, position) for position in waiting]
            ):
                done = await answer
                tell(done)
                refused += [done.text] * (done.kind == "refused")
            if refused:
                raise WorkerError(refused[0])
        return rows_of(session, kernel, self.gpu.name)

    async def passes(self, session: Path, kernel: int, position: int = 0) -> str:
        """Return what MLIR printed before each of its passes (``analysis.below.passes``). Raises
        WorkerError.
        """
        answer = await self.ask("passes", session, kernel, position)
        row = _row(session, answer)
        if answer.kind == "failed":
            raise WorkerError(answer.text)
        with SessionReader(session) as reader:
            return reader.text(row.passes)

    def cancel(self) -> None:
        """Stop everything that was asked for and has not ended."""
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
                    request, is_own=await asyncio.to_thread(is_own, Path(request.session))
                )
                return await builder.ask(request)
            except BuilderDiedError as error:
                return await asyncio.to_thread(_note_death, request, self.gpu, str(error))


def _note_death(request: BuildRequest, gpu: Gpu, how: str) -> BuildAnswer:
    """Write a row that says what happened to a builder. The name of the toolchain is left out, so
    that the build is tried again when somebody asks.
    """
    if request.task == "passes":
        return BuildAnswer(request.number, "refused", text=how)
    rows = [
        row
        for row in rows_of(Path(request.session), request.kernel, gpu.name)
        if row.position == request.position
    ]
    with SessionWriter(request.session) as writer:
        row = rows[0] if rows else KernelBuild(0, request.kernel, request.position, {}, gpu.name)
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
