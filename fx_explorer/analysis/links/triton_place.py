"""The way up from a level below a kernel: the line of Triton source that a line of it was made
from.
"""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.kernel_documents import build_of_level, kernel_document, source_here
from fx_explorer.session import SessionReader


def triton_place(reader: SessionReader, place: Place) -> Place:
    """Return the line of Triton source that a line of a level was made from, or its first line. Any
    other place is returned as it is.
    """
    build = build_of_level(reader, place.document)
    if build is None:
        return place
    from fx_explorer.analysis.links.chain import (
        triton_lines,
    )  # 20 ms that the first paint does not need

    document = source_here(reader, build)
    if document:
        return Place(document, min(triton_lines(reader, build, place), default=0))
    kernel = reader.get(model.Kernel, build.kernel)
    return Place(kernel_document(reader, kernel)) if kernel.artifact else place
