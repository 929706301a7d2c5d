"""This module shows what is below a kernel's source: its levels side by side, its possible
configurations, and MLIR pass by pass.

Where the cursor is on no kernel, the user is told.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial

from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.kernel_documents import (
    builds_here,
    first_statement,
    is_of_a_library,
    kernel_document,
    kernel_of,
    session_gpu,
    source_here,
)
from fx_explorer.analysis.linked_lines import Selection
from fx_explorer.analysis.selected_nodes import is_call_of, library_at
from fx_explorer.analysis.words import counted, language_name
from fx_explorer.errors import FxExplorerError, WorkerError
from fx_explorer.model import BuildAnswer, BuildTask, Kernel, KernelBuild
from fx_explorer.session import SessionReader
from fx_explorer.tui.content.shown_levels import (
    FIRST_KERNEL,
    INSIDE_A_LIBRARY,
    NO_KERNEL,
    NOT_BUILT,
    NOT_TRITON,
    SEVERAL_KERNELS,
    CandidatesWanted,
)
from fx_explorer.tui.controllers.kernel_builds import KernelBuilds
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.conversation import ask, conversation, in_turn
from fx_explorer.tui.screens.explorer import Explorer

AT_ONCE = 2
"""Maximum number of kernels that are compiled at the same time. More would keep a pane waiting for
all of them.
"""

Asked = set[asyncio.Task[BuildAnswer]]


class KernelLevels:
    """Shows the levels and the configurations of the kernel under the cursor, and compiles missing
    ones.
    """

    def __init__(self, services: Services, builds: KernelBuilds) -> None:
        self._services = services
        self._explorer = services.explorer
        self._builds = builds
        self.app = services.app
        self.turn = services.explorer.turn
        self._all_asked: Asked | None = None
        """The running compilation of all configurations; None without one."""

    # levels

    @in_turn
    async def show_levels(self) -> None:
        """Show the levels of the kernel, or the configuration, under the cursor."""
        explorer, reader = self._explorer, self._explorer.reader
        levels = explorer.linked_selection.levels
        chosen = explorer.cursor.candidate(reader) if reader else None
        kernel = _kernel_or_first(explorer) if chosen is None else levels.listed
        if reader is None or kernel is None:
            return
        place = explorer.cursor.place_or_selection
        levels.choose(kernel, chosen)
        if place and chosen is None:
            count = _kernels_of(reader, place, kernel)
        else:
            count = 0
        place_below = self._source_below(reader, kernel, place)
        if place_below is None:
            explorer.notify(INSIDE_A_LIBRARY)
            return
        explorer.remember()
        gpu = session_gpu(reader)
        await explorer.show_view("source")
        # What was selected before may be in the kernel's own code, and would select the kernel's
        # own configuration.
        explorer.linked_selection.selection = place_below
        preset = "below_amd" if gpu and gpu.vendor == "amd" else "below"
        await explorer.linked_selection.show_preset(preset)
        pane = await explorer.linked_selection.go(place_below)
        explorer.show_outline()
        if pane:
            explorer.linked.begin_with(pane)
        if count > 1:
            explorer.notify(SEVERAL_KERNELS.format(count=count))
        explorer.show_inspector()
        explorer.remember()

    def _source_below(
        self, reader: SessionReader, kernel: Kernel, place: Place | None
    ) -> Place | None:
        """Return the place of the cursor in the Triton source of the configuration; None for a
        library call.
        """
        build = self._explorer.linked_selection.levels.build(reader)
        if is_of_a_library(kernel, build):
            return None
        source_of_build = source_here(reader, build) if build else None
        document = source_of_build or kernel_document(reader, kernel)
        if place and place.line and place.document == document:
            return place
        return first_statement(reader, document)

    # configurations

    @in_turn
    async def show_configurations(self) -> None:
        """Show all configurations of the kernel that the cursor is on, or all choices for a library
        call.
        """
        explorer = self._explorer
        kernel = _library_here(explorer) or kernel_here(explorer)
        if kernel is None:
            return
        explorer.remember()
        explorer.linked_selection.levels.choose(kernel)
        explorer.linked_selection.levels.listed = kernel
        explorer.show_progress("")
        await explorer.show_view("candidates")
        self.app.post_message(CandidatesWanted(kernel))
        explorer.remember()

    def compile_configurations(self, event: CandidatesWanted) -> None:
        reader = self._explorer.reader
        if reader and session_gpu(reader) and event.kernel.language == "triton":
            work = partial(self._build_all, event.kernel)
            self._services.begin(
                work,
                "build all",
                "build all",
                "compile every configuration of a kernel",
                exclusive=True,
            )

    async def _build_all(self, kernel: Kernel) -> None:
        """Build every configuration, and refresh the view when each ends. Those that Inductor adds
        when it has seen the registers come last.
        """
        waiting_for = self._all_asked = set()
        began = time.monotonic()
        asked: set[int] = set()
        try:
            if not self._rows(kernel):
                self._explorer.show_progress(
                    "Listing them … (the first time, a builder process has to start)"
                )
                await self._ask_quietly("candidates", kernel, 0, waiting_for)
            self._notify_progress(kernel, began)
            while waiting := self._positions_to_build(kernel) - asked:
                asked |= waiting
                gate = asyncio.Semaphore(AT_ONCE)
                await asyncio.gather(
                    *(
                        self._build_kernel(kernel, position, gate, began, waiting_for)
                        for position in sorted(waiting)
                    )
                )
            self._explorer.show_progress("")
        except asyncio.CancelledError:
            if self._all_asked is waiting_for:  # or another kernel was asked for meanwhile
                self._explorer.show_progress("Cancelled: the rest is compiled when you look at it.")
        except FxExplorerError as error:
            self._explorer.show_progress(f"{error}")
        finally:
            if self._all_asked is waiting_for:
                self._all_asked = None

    async def _build_kernel(
        self,
        kernel: Kernel,
        position: int,
        gate: asyncio.Semaphore,
        began: float,
        among: Asked,
    ) -> None:
        async with gate:
            await self._ask_quietly("resources", kernel, position, among)
            self._notify_progress(kernel, began)

    def _notify_progress(self, kernel: Kernel, began: float) -> None:
        rows = [row for row in self._rows(kernel) if row.origin != "library"]
        done = sum(row.state != "candidate" for row in rows)
        took = f"{time.monotonic() - began:.0f} s"
        if done < len(rows):
            configurations = counted(len(rows), "configuration")
            words = f"{done} of {configurations} compiled … {took}, esc cancels."
        else:
            words = ""
        self._explorer.show_progress(words)

    async def _ask_quietly(
        self, task: BuildTask, kernel: Kernel, position: int, among: Asked
    ) -> BuildAnswer:
        """Ask a builder without a message; ``among`` is the work that Escape stops. Raises
        WorkerError if it failed; a compiler's refusal is stored.
        """
        from fx_explorer.session.ownership import COMPILES  # not needed for the first paint

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

    def _positions_to_build(self, kernel: Kernel) -> set[int]:
        return {row.position for row in self._rows(kernel) if row.state == "candidate"}

    def _rows(self, kernel: Kernel) -> list[KernelBuild]:
        if self._explorer.reader:
            return builds_here(self._explorer.reader, kernel)
        return []

    def stop(self) -> bool:
        """Stop compiling levels of kernels, on Escape. Returns whether there was something to
        stop.
        """
        was_compiling = self._builds.stop()
        running = list(self._all_asked or ())
        for asked in running:
            asked.cancel()
        return was_compiling or bool(running)

    # pass by pass

    @conversation("passes", "show what each MLIR pass did")
    async def show_passes(self) -> None:
        """Show the effect of each MLIR pass on the selected kernel, in the shown configuration."""
        from fx_explorer.tui.screens.difference_screens import (
            PassesScreen,  # not needed for the first paint
        )

        explorer = self._explorer
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

        title = f"MLIR pass by pass · {kernel.name}"
        if build:
            title += f" · {build.shown_options}"
        await ask(self.app, PassesScreen(title, dump, explorer.keymap))

    async def _dump(self, kernel: Kernel, position: int) -> str:
        """Return MLIR's output, from the session if it has it. Raises WorkerError, with the
        compiler's message.
        """
        row = next((row for row in self._rows(kernel) if row.position == position), None)
        if row is None or not row.passes:
            answer = await self._ask_quietly("passes", kernel, position, set())
            if answer.kind == "failed":
                raise WorkerError(answer.text)
            row = next(row for row in self._rows(kernel) if row.position == position)
        assert self._explorer.reader is not None
        return self._explorer.reader.text(row.passes)


# The kernel of what the cursor is on.


def kernel_here(explorer: Explorer) -> Kernel | None:
    """Return the Triton kernel under the cursor. If there is none, tell the user."""
    place = explorer.cursor.place_or_selection
    if explorer.reader is None:
        return None
    kernel = _library_here(explorer)
    if kernel is None and place:
        kernel = explorer.linked_selection.kernel_at(place)
    if kernel is None:
        explorer.notify(NO_KERNEL)
        return None
    if kernel.language == "triton":
        return kernel
    if kernel.language == "extern":
        explorer.notify(INSIDE_A_LIBRARY)
    else:
        explorer.notify(NOT_TRITON.format(language=language_name(kernel.language)))
    return None


def _library_here(explorer: Explorer) -> Kernel | None:
    """Return the library call that the cursor is on, unless a Triton kernel belongs there
    too.
    """
    place = explorer.cursor.place_or_selection
    if explorer.reader is None or place is None:
        return None
    library = library_at(explorer.reader, place)
    is_alone = library and (
        is_call_of(library, place) or explorer.linked_selection.kernel_at(place) is None
    )
    return library if is_alone else None


def _kernel_or_first(explorer: Explorer) -> Kernel | None:
    """Return ``kernel_here``; if the selection has no kernel, the session's first one, and tell the
    user.
    """
    place = explorer.cursor.place_or_selection
    if explorer.reader is None or (place and explorer.linked_selection.kernel_at(place)):
        return kernel_here(explorer)
    from fx_explorer.instruments.kernels.candidates import first_triton_kernel, why_no_triton

    compilation = place.document.compilation if place else 0
    kernel = first_triton_kernel(explorer.reader, compilation)
    if kernel:
        explorer.notify(FIRST_KERNEL.format(name=kernel.name))
    else:
        explorer.notify(why_no_triton(explorer.reader))
    return kernel


def _kernels_of(reader: SessionReader, place: Place, shown: Kernel) -> int:
    """Count the kernels of ``shown``'s compilation that compute a place; 0 in the code of a kernel,
    which is its own, and if another place's kernel is shown.
    """
    if kernel_of(reader, place.document):
        return 0
    computing = Selection(reader, place).computing
    if shown.artifact not in computing:
        return 0
    kernels = reader.rows(Kernel, compilation=shown.compilation)
    return sum(kernel.artifact in computing for kernel in kernels)
