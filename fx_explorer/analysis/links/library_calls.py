"""The library call under the cursor. It has no code of its own, only a line of the output code that
makes the call.
"""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.links.selection import nodes_at
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import kernels_of
from fx_explorer.session.queries.links import descendants


def library_at(reader: SessionReader, place: Place) -> model.Kernel | None:
    """Return the library call that a line makes, else the first one that computes what is
    selected.
    """
    nodes = sorted(descendants(reader, nodes_at(reader, place)))
    found = [kernel for kernel in kernels_of(reader, nodes) if kernel.language == "extern"]
    return next(
        (kernel for kernel in found if is_call_of(kernel, place)), found[0] if found else None
    )


def is_call_of(kernel: model.Kernel, place: Place) -> bool:
    """Return whether this is the line of the output code that calls ``kernel``."""
    is_there = place.document.kind == "artifact" and place.document.id == kernel.output_code
    return is_there and place.line + 1 == kernel.first_line
