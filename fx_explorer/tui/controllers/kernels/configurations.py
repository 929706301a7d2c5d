"""Everything about one kernel that has to be compiled for it: all of its configurations, and MLIR
pass by pass.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial

from fx_explorer import model
from fx_explorer.analysis.kernel_documents import builds_here, session_gpu
from fx_explorer.errors import FxExplorerError, WorkerError
from fx_explorer.model import BuildAnswer
from fx_explorer.tui.controllers.kernels.kernel_builds import KernelBuilds
from fx_explorer.tui.controllers.looking.kernel_here import kernel_here
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.inspector.levels import NOT_BUILT, CandidatesWanted
from fx_explorer.tui.tasks.conversation import ask, conversation

AT_ONCE = 2
"""Compiled beside each other; more would let a pane wait for them all."""

Asked = set[asyncio.Task[BuildAnswer]]


class Configurations:
    """Compiles all configurations of the kernel that its view shows, and dumps the passes of
    one.
    """

    def __init__(self, services: Services, builds: KernelBuilds) -> None:
        self._services = services
        self._builds = builds
        self.app = services.app
        self._all_asked: Asked | None = None
        """What is being done; None when nothing is."""

    def want(self, event: CandidatesWanted) -> None:
        reader = self._services.explorer.reader
        if reader and session_gpu(reader) and event.kernel.language == "triton":
            work = partial(self._build_all, event.kernel)
            self._services.begin(
                work,
                "build all",
                "build all",
                "compile every configuration of a kernel",
                exclusive=True,
            )

    async def _build_all(self, kernel: model.Kernel) -> None:
        """Build every configuration, and make the view again as each one ends. Those that Inductor
        adds when it has seen the registers come last.
        """
        waiting_for = self._all_asked = set()
        began = time.monotonic()
        asked: set[int] = set()
        try:
            if not self._rows(kernel):
                self._services.explorer.show_progress(
                    "Listing them … (the first time a builder has to start)"
                )
                await self._asked_quietly("candidates", kernel, 0, waiting_for)
            self._tell_how_far(kernel, began)
            while waiting := [
                row
                for row in self._rows(kernel)
                if row.position not in asked and row.state == "candidate"
            ]:
                asked.update(row.position for row in waiting)
                gate = asyncio.Semaphore(AT_ONCE)
                await asyncio.gather(
                    *(
                        self._one_of(kernel, row.position, gate, began, waiting_for)
                        for row in waiting
                    )
                )
            self._services.explorer.show_progress("")
        except asyncio.CancelledError:
            if self._all_asked is waiting_for:  # or another kernel was asked for meanwhile
                self._services.explorer.show_progress(
                    "Cancelled: the rest is compiled when you look at it."
                )
        except FxExplorerError as error:
            self._services.explorer.show_progress(f"{error}")
        finally:
            if self._all_asked is waiting_for:
                self._all_asked = None

    async def _one_of(
        self,
        kernel: model.Kernel,
        position: int,
        gate: asyncio.Semaphore,
        began: float,
        among: Asked,
    ) -> None:
        async with gate:
            await self._asked_quietly("resources", kernel, position, among)
            self._tell_how_far(kernel, began)

    def _tell_how_far(self, kernel: model.Kernel, began: float) -> None:
        rows = [row for row in self._rows(kernel) if row.origin != "library"]
        done = sum(row.state != "candidate" for row in rows)
        took = f"{time.monotonic() - began:.0f} s"
        if done < len(rows):
            words = f"{done} of {len(rows)} configurations are compiled … {took}, esc cancels."
        else:
            words = ""
        self._services.explorer.show_progress(words)

    async def _asked_quietly(
        self, task: model.BuildTask, kernel: model.Kernel, position: int, among: Asked
    ) -> BuildAnswer:
        """Ask a builder without a message; ``among`` says what Escape stops. Raises WorkerError
        when nothing could be done; a compiler's refusal is kept.
        """
        from fx_explorer.client.trust import COMPILES  # not needed for the first paint

        reader = await self._builds.writable(COMPILES)
        asked = asyncio.create_task(self._builds.ask_builder(reader, task, kernel, position))
        among.add(asked)
        try:
            answer = await asked
        finally:
            among.discard(asked)
        if answer.kind == "refused":
            raise WorkerError(answer.text)
        return answer

    def _rows(self, kernel: model.Kernel) -> list[model.KernelBuild]:
        if self._services.explorer.reader:
            return builds_here(self._services.explorer.reader, kernel)
        return []

    def stop(self) -> bool:
        """Stop on Escape. Returns whether there was something to stop."""
        running = list(self._all_asked or ())
        for asked in running:
            asked.cancel()
        return bool(running)

    # pass by pass

    @conversation("passes", "show what each MLIR pass did")
    async def passes(self) -> None:
        """Show what each MLIR pass did to the selected kernel, in the configuration that is
        shown.
        """
        from fx_explorer.tui.screens.passes import PassesScreen  # not needed for the first paint

        explorer = self._services.explorer
        kernel = kernel_here(explorer)
        if kernel is None or explorer.reader is None:
            return
        explorer.linked_selection.levels.choose(kernel, explorer.cursor.candidate(explorer.reader))
        build = explorer.linked_selection.levels.build(explorer.reader)
        if session_gpu(explorer.reader) is None and not (build and build.passes):
            self._services.notify(NOT_BUILT)
            return
        position = explorer.linked_selection.levels.position(explorer.reader)

        async def dump() -> str:
            return await self._dump(kernel, position)

        title = f"MLIR pass by pass · {kernel.name}" + (
            f" · {build.shown_options}" if build else ""
        )
        await ask(self.app, PassesScreen(title, dump, explorer.keymap))

    async def _dump(self, kernel: model.Kernel, position: int) -> str:
        """Return what MLIR printed, from the session when it is there. Raises WorkerError, with the
        compiler's message.
        """
        row = next((row for row in self._rows(kernel) if row.position == position), None)
        if row is None or not row.passes:
            answer = await self._asked_quietly("passes", kernel, position, set())
            if answer.kind == "failed":
                raise WorkerError(answer.text)
            row = next(row for row in self._rows(kernel) if row.position == position)
        assert self._services.explorer.reader is not None
        return self._services.explorer.reader.text(row.passes)
