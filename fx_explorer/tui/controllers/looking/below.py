"""What is below a kernel's source: its levels beside each other, and the configurations it could
have had.
"""

from __future__ import annotations

from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.kernel_documents import (
    first_statement,
    is_of_a_library,
    kernel_document,
    session_gpu,
    source_here,
)
from fx_explorer.model import Kernel
from fx_explorer.session import SessionReader
from fx_explorer.tui.controllers.looking.kernel_here import (
    kernel_here,
    kernel_or_first,
    kernels_of,
    library_here,
)
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.inspector.levels import (
    INSIDE_A_LIBRARY,
    SEVERAL_KERNELS,
    CandidatesWanted,
)
from fx_explorer.tui.tasks.turn_lock import in_turn


class Below:
    """Shows the levels of a kernel, or its configurations."""

    def __init__(self, services: Services) -> None:
        self._explorer = services.explorer
        self._app = services.app
        self.turn = services.explorer.turn

    @in_turn
    async def candidates(self) -> None:
        """Show all configurations of the kernel that the cursor is on, or all choices for a library
        call.
        """
        explorer = self._explorer
        kernel = library_here(explorer) or kernel_here(explorer)
        if kernel is None:
            return
        explorer.remember()
        explorer.linked_selection.levels.choose(kernel)
        explorer.linked_selection.levels.listed = kernel
        explorer.show_progress("")
        await explorer.show_view("candidates")
        self._app.post_message(CandidatesWanted(kernel))
        explorer.remember()

    @in_turn
    async def show(self) -> None:
        """Show what is below the kernel of what the cursor is on, or below the configuration that
        it is on.
        """
        explorer, reader = self._explorer, self._explorer.reader
        levels = explorer.linked_selection.levels
        chosen = explorer.cursor.candidate(reader) if reader else None
        kernel = kernel_or_first(explorer) if chosen is None else levels.listed
        if reader is None or kernel is None:
            return
        place = explorer.cursor.place_or_selection
        levels.choose(kernel, chosen)
        count = kernels_of(reader, place, kernel) if place and chosen is None else 0
        own = self._source_below(reader, kernel, place)
        if own is None:
            explorer.notify(INSIDE_A_LIBRARY)
            return
        explorer.remember()
        gpu = session_gpu(reader)
        await explorer.show_view("source")
        # What was selected before may be in the kernel's own code, and would select the kernel's
        # own configuration.
        explorer.linked_selection.selection = own
        await explorer.linked_selection.show_preset(
            "below_amd" if gpu and gpu.vendor == "amd" else "below"
        )
        pane = await explorer.linked_selection.go(own)
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
        """Return where the cursor goes in the Triton source of the configuration; None for a
        library call.
        """
        build = self._explorer.linked_selection.levels.build(reader)
        if is_of_a_library(kernel, build):
            return None
        document = (source_here(reader, build) if build else None) or kernel_document(
            reader, kernel
        )
        if place and place.line and place.document == document:
            return place
        return first_statement(reader, document)
