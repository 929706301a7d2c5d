"""The kernel of what the cursor is on. Where there is none, the user is told."""

from __future__ import annotations

from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.kernel_documents import kernel_of
from fx_explorer.analysis.links.library_calls import is_call_of, library_at
from fx_explorer.analysis.links.linked import Selection
from fx_explorer.model import Kernel
from fx_explorer.session import SessionReader
from fx_explorer.tui.inspector.levels import FIRST_KERNEL, INSIDE_A_LIBRARY, NO_KERNEL, NOT_TRITON
from fx_explorer.tui.screens.explorer import Explorer


def kernel_here(explorer: Explorer) -> Kernel | None:
    """Return the Triton kernel of what the cursor is on. Where there is none, tell the user."""
    place = explorer.cursor.place_or_selection
    if explorer.reader is None:
        return None
    kernel = library_here(explorer) or (
        explorer.linked_selection.kernel_at(place) if place else None
    )
    if kernel is None:
        explorer.notify(NO_KERNEL)
    elif kernel.language != "triton":
        explorer.notify(
            INSIDE_A_LIBRARY
            if kernel.language == "extern"
            else NOT_TRITON.format(language=kernel.language)
        )
        return None
    return kernel


def library_here(explorer: Explorer) -> Kernel | None:
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


def kernel_or_first(explorer: Explorer) -> Kernel | None:
    """Return ``kernel_here``; if nothing selected says which kernel, the session's first one,
    and tell the user.
    """
    place = explorer.cursor.place_or_selection
    if explorer.reader is None or (place and explorer.linked_selection.kernel_at(place)):
        return kernel_here(explorer)
    from fx_explorer.instruments.kernels.first_kernel import first_triton_kernel, why_no_triton

    kernel = first_triton_kernel(explorer.reader, place.document.compilation if place else 0)
    explorer.notify(
        FIRST_KERNEL.format(name=kernel.name) if kernel else why_no_triton(explorer.reader)
    )
    return kernel


def kernels_of(reader: SessionReader, place: Place, shown: Kernel) -> int:
    """Count the kernels of ``shown``'s compilation that compute what is at a place; 0 in the code
    of a kernel, which is its own, and where another place's kernel is shown.
    """
    if kernel_of(reader, place.document):
        return 0
    computing = Selection(reader, place).computing
    if shown.artifact not in computing:
        return 0
    return sum(
        one.artifact in computing for one in reader.rows(Kernel, compilation=shown.compilation)
    )
