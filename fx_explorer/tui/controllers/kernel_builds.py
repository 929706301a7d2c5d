"""This module compiles kernels below their source: levels that a pane lacks are compiled in the
background, and Escape stops that.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from fx_explorer import model
from fx_explorer.analysis.kernel_documents import builds_here, session_gpu
from fx_explorer.errors import FxExplorerError
from fx_explorer.model import BuildAnswer, BuildTask, Gpu
from fx_explorer.session import SessionReader
from fx_explorer.tui.commands import by_id
from fx_explorer.tui.content.shown_levels import BuildWanted
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.keys import first_key

TELL_S = 0.25
"""Seconds between two updates of how long a build has taken."""

STARTING = "Starting a process that compiles kernels: some seconds, the first time only"
STARTS = "start a process that builds kernels"
"""Describes the thread that starts a builder. An error in it is shown where the kernel is
requested.
"""

CANCELLED = "Cancelled. Press {key} to compile it."


class BuilderPoolLike(Protocol):
    """The interface of ``BuilderPool`` (instruments/kernels/builder_pool.py) that the app uses;
    tests inject their own.
    """

    async def warm_up(self) -> BuildAnswer: ...

    def ask(
        self, task: BuildTask, session: Path, kernel: int, position: int = 0
    ) -> asyncio.Task[BuildAnswer]: ...

    async def close(self) -> None: ...


def real_builds(gpu: Gpu, python: str) -> BuilderPoolLike:
    from fx_explorer.instruments.kernels.builder_pool import BuilderPool  # not for the first paint

    return BuilderPool(gpu, python)


class KernelBuilds:
    """Has builders for the virtual GPU of the session on screen, started as soon as it has a kernel
    to build.
    """

    make_builds: Callable[[Gpu, str], BuilderPoolLike] = staticmethod(real_builds)

    def __init__(self, services: Services) -> None:
        self._services = services
        self._builds: BuilderPoolLike | None = None
        self._gpu = ""
        """Name of the GPU for which ``_builds`` compiles."""
        self._asked: asyncio.Task[BuildAnswer] | None = None
        self._wanted: BuildWanted | None = None
        self._is_warm = asyncio.Event()
        """A second builder that starts at the same time would only make both slower."""

    def prepare(self) -> None:
        """Start a builder early, because starting takes some seconds."""
        reader = self._services.explorer.reader
        if (
            reader
            and self._builds is None
            and session_gpu(reader)
            and reader.count(model.Kernel, language="triton")
        ):
            self._services.begin(
                partial(self._prepare, reader), "prepare builds", "warm up", STARTS, may_fail=True
            )

    async def _prepare(self, reader: SessionReader) -> None:
        """Start builders for a session that may be built without asking; for another user's
        session, none are started.
        """
        from fx_explorer.session.ownership import COMPILES

        may_build = await asyncio.to_thread(
            self._services.consents.is_needless, reader.path, COMPILES
        )
        if may_build and reader is self._services.explorer.reader:
            self._builds_for(reader)

    async def _warm_up(self, builds: BuilderPoolLike) -> None:
        try:
            with contextlib.suppress(FxExplorerError):  # whoever asks for a kernel is told
                await builds.warm_up()
        finally:
            self._is_warm.set()

    def _builds_for(self, reader: SessionReader) -> BuilderPoolLike:
        gpu = session_gpu(reader)
        assert gpu is not None
        if self._builds is None or gpu.name != self._gpu:
            self._builds, self._gpu = (
                self.make_builds(gpu, self._services.trial_worker.python),
                gpu.name,
            )
            self._is_warm = asyncio.Event()
            self._services.begin(
                partial(self._warm_up, self._builds), "warm up", "warm up", STARTS, may_fail=True
            )
        return self._builds

    async def close(self) -> None:
        if self._builds:
            await self._builds.close()

    # one configuration, for the panes

    def want(self, event: BuildWanted) -> None:
        """Build what a pane lacks. The last request counts, since the cursor may pass over many
        kernels. A running build is not stopped: it ends soon, and stopping it would cost the start
        of another process.
        """
        is_busy = self._wanted is not None
        self._wanted = event
        if not is_busy:
            self._services.begin(self._build_wanted, "build", "build", "compile a kernel")

    async def _build_wanted(self) -> None:
        """Build until no request is left. A failed build is given up, so that moving the cursor
        does not repeat it.
        """
        try:
            while self._wanted:
                wanted = self._wanted
                trouble = await self._build(wanted)
                reader = self._services.explorer.reader
                if self._wanted is wanted or trouble:
                    self._wanted = None
                levels = self._services.explorer.linked_selection.levels
                if trouble or (reader and levels.still_lacks(reader, wanted)):
                    levels.give_up(wanted.kernel, wanted.position, trouble)
                if reader and not trouble:
                    self._services.explorer.linked_selection.refresh_levels()
                    self._services.explorer.show_inspector()
                self._services.explorer.linked_selection.show_news("")
        finally:
            self._wanted = None

    async def _build(self, wanted: BuildWanted) -> str:
        """Build a configuration. Returns the error if nothing was built; the compilers' output is
        in the session.
        """
        reader = self._services.explorer.reader
        if reader is None:
            return ""
        kernel = reader.get(model.Kernel, wanted.kernel)
        rows = [row for row in builds_here(reader, kernel) if row.position == wanted.position]
        if rows and rows[0].is_undisassembled:
            return await self._disassemble(rows[0])
        options = f" with {rows[0].shown_options}" if rows else ""
        try:
            answer = await self._ask(
                "build", kernel, wanted.position, f"Compiling {kernel.name}{options}"
            )
        except asyncio.CancelledError:
            return CANCELLED.format(
                key=first_key(by_id("preset.below"), self._services.explorer.keymap)
            )
        except FxExplorerError as error:
            return str(error)
        return answer.text if answer.kind == "refused" else ""

    async def _disassemble(self, build: model.KernelBuild) -> str:
        """Add SASS, the one level that a session of a real GPU lacks. Returns the error, if any."""
        from fx_explorer.instruments.kernels.builder_pool import with_sass
        from fx_explorer.session.ownership import DISASSEMBLES

        try:
            reader = await self.writable(DISASSEMBLES)
            await asyncio.to_thread(
                with_sass, reader.path, build, self._services.trial_worker.python
            )
        except FxExplorerError as error:
            return str(error)
        return ""

    async def _ask(
        self, task: BuildTask, kernel: model.Kernel, position: int, doing: str
    ) -> BuildAnswer:
        """Ask a builder, telling the panes for how long it takes. Raises CancelledError after
        Escape.
        """
        from fx_explorer.session.ownership import COMPILES

        reader = await self.writable(COMPILES)
        gpu = session_gpu(reader)
        gpu_title = gpu.title if gpu else "the GPU"
        began = time.monotonic()
        self._builds_for(reader)
        asked = self._asked = asyncio.create_task(self.ask_builder(reader, task, kernel, position))
        try:
            while not asked.done():
                took = time.monotonic() - began
                if self._is_warm.is_set():
                    now = f"{doing} for {gpu_title}"
                else:
                    now = STARTING
                self._services.explorer.linked_selection.show_news(
                    f"{now} … {took:.0f} s\n\nesc cancels it."
                )
                await asyncio.wait({asked}, timeout=TELL_S)
            return asked.result()
        finally:
            self._asked = None

    async def ask_builder(
        self, reader: SessionReader, task: BuildTask, kernel: model.Kernel, position: int
    ) -> BuildAnswer:
        builds = self._builds_for(reader)
        await self._is_warm.wait()
        return await builds.ask(task, reader.path, kernel.id, position)

    async def writable(self, consequence: str) -> SessionReader:
        """Return the shown session in writable form, for the results of compiling; if it cannot be
        written to, a copy replaces it on screen. ``consequence`` describes the coming action; for
        another user's session the user is asked first. Raises UsageError.
        """
        from fx_explorer.client.session_files import writable_session

        reader = self._services.explorer.reader
        assert reader is not None
        await self._services.consents.ask(reader, consequence)
        path = await asyncio.to_thread(writable_session, reader.path)
        if path != reader.path:
            self._services.notify(
                f"{reader.path} is read-only: compiled kernels are kept in {path}.",
                timeout=10,
            )
            self._services.consents.note(path, consequence)
            self._services.explorer.open(SessionReader(path))
        assert self._services.explorer.reader is not None
        return self._services.explorer.reader

    def stop(self) -> bool:
        """Stop on Escape. Returns whether there was something to stop."""
        self._wanted = None
        if self._asked is None or self._asked.done():
            return False
        self._asked.cancel()
        return True
