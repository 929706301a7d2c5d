"""This module finds the highlighted lines when panes show levels below a kernel: user line ↔ node ↔
Triton line ↔ TTGIR ↔ PTX ↔ SASS, both ways.

Links from a Triton line upwards are those of the session (``linked_lines.py``). Links downwards are
read from the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place
from fx_explorer.analysis.kernel_documents import (
    build_of_level,
    kernel_document,
    source_document,
    source_here,
    text_of_level,
)
from fx_explorer.analysis.kernel_lines import (
    KernelFile,
    LineMap,
    assembly_lines,
    callers,
    inverted,
    kernel_file,
    llvm_lines,
    mlir_lines,
    sass_lines,
)
from fx_explorer.analysis.linked_lines import Selection
from fx_explorer.model import KernelBuild, Level
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.links import lines_with_nodes

# The line of Triton source that each line of a level was made from.

_READERS: dict[Level, Callable[[str, KernelFile], LineMap]] = {
    "ttir": mlir_lines,
    "ttgir": mlir_lines,
    "llir": llvm_lines,
    "ptx": assembly_lines,
    "amdgcn": assembly_lines,
}


def lines_of_level(level: Level, text: str, file: KernelFile, assembly: str = "") -> LineMap:
    """Map the lines of a level. ``assembly`` is the PTX from which SASS was made: only it has the
    callers of an inlined helper.

    All of it is what the compilers wrote themselves: MLIR's ``loc``, LLVM's ``!dbg``, the
    assemblers' ``.loc`` and nvdisasm's ``//## File``. Code of an inlined helper (``tl.sum``,
    ``triton_helpers.max2``) counts for the kernel's line that called it; if the helper is in the
    same source, it counts for its own line too. What a compiler marked as its own (line 0,
    ``unknown``) belongs to no line.
    """
    if level == "sass":
        return sass_lines(text, file, callers(assembly, file))
    return _READERS[level](text, file)


# The chain from a place of one document to the lines of the others.

Lines = frozenset[int]
"""Lines of a document, from 0."""


def linked_with_levels(selection: Selection, shown: Iterable[Document]) -> dict[Document, Lines]:
    """Return linked lines like ``Selection.linked`` if some of the documents, or the selected one,
    are levels below a kernel.
    """
    reader, place = selection.reader, selection.place
    documents = list(shown)
    builds = {}
    for document in {*documents, place.document}:
        build = build_of_level(reader, document)
        if build:
            builds[document] = build
    above = [document for document in documents if document not in builds]
    if place.document in builds:
        linked = _from_level(selection, builds[place.document], above)
        lines = triton_lines(reader, builds[place.document], place)
    else:
        linked = selection.linked(above)
        lines = None
    for document in documents:
        if document in builds:
            build = builds[document]
            if lines is not None:
                wanted = lines
            else:
                wanted = _lines_of_kernel(selection, build)
            # A template has a source for each configuration: lines of one say nothing about
            # another.
            if lines is not None and not _same_source(build, builds[place.document]):
                wanted = frozenset()
            if document == place.document:
                selected = frozenset([place.line])
            else:
                selected = frozenset()
            linked[document] = selected | lines_in_level(reader, build, document, wanted)
    return linked


def triton_lines(reader: SessionReader, build: KernelBuild, place: Place) -> Lines:
    """Return the lines of the Triton source from which a line of a level was compiled."""
    sources = level_lines(reader, build, _level(place.document)).get(place.line + 1, ())
    return frozenset(line - 1 for line in sources)


def lines_in_level(
    reader: SessionReader, build: KernelBuild, document: Document, triton: Lines
) -> Lines:
    """Return the lines of a level that were compiled from these lines of the Triton source."""
    made = _inverted(*_parts(reader, build, _level(document)))
    lines: set[int] = set()
    for source in triton:
        lines.update(line - 1 for line in made.get(source + 1, ()))
    return frozenset(lines)


def level_lines(reader: SessionReader, build: KernelBuild, level: Level) -> LineMap:
    """Return line of a level → lines of the Triton source, all from 1. The texts looked at last are
    remembered.
    """
    return _lines(*_parts(reader, build, level))


def _parts(
    reader: SessionReader, build: KernelBuild, level: Level
) -> tuple[Level, str, KernelFile, str]:
    if level == "sass":
        assembly = text_of_level(reader, build, "ptx")
    else:
        assembly = ""
    return level, text_of_level(reader, build, level), kernel_file(build), assembly


_lines = lru_cache(maxsize=32)(lines_of_level)


@lru_cache(maxsize=32)
def _inverted(level: Level, text: str, file: KernelFile, assembly: str) -> LineMap:
    return inverted(_lines(level, text, file, assembly))


def _level(document: Document) -> Level:
    return next(level for level in model.LEVELS if level == document.language)


def _same_source(build: KernelBuild, other: KernelBuild) -> bool:
    return (build.kernel, build.source) == (other.kernel, other.source)


def _lines_of_kernel(selection: Selection, build: KernelBuild) -> Lines:
    """Return the lines of the Triton source that are linked to a selection above it."""
    reader, place = selection.reader, selection.place
    kernel = source_document(reader, build)
    if kernel is None:
        return frozenset()
    if place.document == kernel:
        return frozenset([place.line])
    lines = selection.lines_in(kernel)
    if build.origin == "template" and lines == {0}:
        return _of_no_node(reader, kernel)
    return lines


def _of_no_node(reader: SessionReader, kernel: Document) -> Lines:
    """Return the lines of a template without those of nodes fused into it: together they compute
    the template's own node.
    """
    with_nodes = {line - 1 for line in lines_with_nodes(reader, kernel.id)}
    return frozenset(range(kernel.line_count)) - with_nodes


def _from_level(
    selection: Selection, build: KernelBuild, above: list[Document]
) -> dict[Document, Lines]:
    """Return the lines linked to the Triton lines of the selected line; in the Triton source, these
    lines alone.
    """
    reader = selection.reader
    linked: dict[Document, Lines] = dict.fromkeys(above, frozenset())
    kernel = source_document(reader, build)
    if kernel is None:
        return linked
    lines = triton_lines(reader, build, selection.place)
    others = [document for document in above if document != kernel]
    for line in lines:
        of_line = selection.of(Place(kernel, line)).linked(others)
        for document, lines_of_document in of_line.items():
            linked[document] |= lines_of_document
    if kernel in linked:
        linked[kernel] = lines
    return linked


def triton_place(reader: SessionReader, place: Place) -> Place:
    """Return the line of Triton source from which a line of a level was compiled, or its first
    line. Any other place is returned unchanged.
    """
    build = build_of_level(reader, place.document)
    if build is None:
        return place

    document = source_here(reader, build)
    if document:
        return Place(document, min(triton_lines(reader, build, place), default=0))
    kernel = reader.get(model.Kernel, build.kernel)
    if not kernel.artifact:
        return place
    return Place(kernel_document(reader, kernel))
