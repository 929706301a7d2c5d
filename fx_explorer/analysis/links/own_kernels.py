"""The user's own Triton kernels: a line where it is written, and the lines of the kernels that
torch copied it into.
"""

from __future__ import annotations

from collections.abc import Iterable

from fx_explorer import model
from fx_explorer.analysis.documents import Place, document_of, place_of_source
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.links import kernel_around


def own_lines_at(reader: SessionReader, place: Place) -> list[model.LineSource]:
    """Return where a line of the user's file was copied to, or where a line of a kernel was copied
    from, also when the kernel stands in output code. Empty anywhere else.
    """
    document, line = place.document, place.line + 1
    if document.kind == "source":
        return reader.rows(model.LineSource, file=document.id, source_line=line, how="copied")
    if document.kind != "artifact":
        return []
    if document.stage == "output_code" and (kernel := kernel_around(reader, document.id, line)):
        return reader.rows(
            model.LineSource,
            artifact=kernel.artifact,
            line=line - kernel.first_line + 1,
            how="copied",
        )
    return reader.rows(model.LineSource, artifact=document.id, line=line, how="copied")


def callers(reader: SessionReader, lines: Iterable[model.LineSource]) -> list[int]:
    """Return the ids of the nodes that call the kernels of these lines."""
    artifacts = dict.fromkeys(line.artifact for line in lines)
    return sorted({row.node for artifact in artifacts for row in reader.nodes_of_line(artifact, 0)})


def source_of_own(reader: SessionReader, lines: Iterable[model.LineSource]) -> Place | None:
    """Return where the first of these lines is written."""
    first = next(iter(lines), None)
    return place_of_source(reader, first.file, first.source_line) if first else None


def definition(reader: SessionReader, artifact: int) -> Place | None:
    """Return where a kernel of the user's is written: its ``def``. None for a kernel that torch
    made.
    """
    return source_of_own(
        reader, reader.rows(model.LineSource, artifact=artifact, how="copied", limit=1)
    )


def copies(
    reader: SessionReader, lines: Iterable[model.LineSource]
) -> list[tuple[model.Kernel, Place]]:
    """Return the kernels that contain these lines, and where."""
    return [
        (kernel, Place(document_of(reader, "artifact", line.artifact), line.line - 1))
        for line in lines
        for kernel in reader.rows(model.Kernel, artifact=line.artifact, limit=1)
    ]
