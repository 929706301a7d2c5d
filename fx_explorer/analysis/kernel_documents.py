"""This module finds the documents that show a kernel (its Triton source, a configuration's source,
its levels), the kernel of a document, and the highlighted lines when panes show levels below a
kernel: user line ↔ node ↔ Triton line ↔ TTGIR ↔ PTX ↔ SASS, both ways.

Links from a Triton line upwards are those of the session (``linked_lines.py``). Links downwards are
read from the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place, document_of, lines_of
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
from fx_explorer.model import Gpu, KernelBuild, Level
from fx_explorer.session import SessionReader, answered_once
from fx_explorer.session.queries.kernels import build_with_level, build_with_source
from fx_explorer.session.queries.links import lines_with_nodes, linked_lines


def build_of_level(reader: SessionReader, document: Document) -> KernelBuild | None:
    """Return the configuration with this document as a level; None for any other document."""
    if not document.is_level:
        return None
    return build_with_level(reader, document.id)


def build_of_document(reader: SessionReader, document: Document) -> KernelBuild | None:
    """Return the configuration with this document as a level or as its own source; None for any
    other document.
    """
    if document.is_level or document.kind != "artifact" or document.stage != "kernel":
        return build_of_level(reader, document)
    return build_with_source(reader, document.compilation, document.id)


def is_of_a_library(kernel: model.Kernel, build: KernelBuild | None) -> bool:
    """Return whether a library has the kernel's code; ``build`` is its configuration, if known."""
    if build:
        return build.origin == "library"
    return kernel.language == "extern"


def builds_here(reader: SessionReader, kernel: model.Kernel) -> list[KernelBuild]:
    """Return the builds of a kernel in the order the autotuner tries them. In a session of a
    virtual GPU, only those for that GPU are returned.
    """
    return list(_builds_of(reader, kernel.id))


@answered_once
def _builds_of(reader: SessionReader, kernel: int) -> list[KernelBuild]:
    gpu = session_gpu(reader)
    rows = reader.rows(KernelBuild, kernel=kernel)
    if gpu is not None:
        rows = [row for row in rows if row.gpu == gpu.name]
    return sorted(rows, key=lambda row: row.position)


@answered_once
def kernel_of(reader: SessionReader, document: Document) -> model.Kernel | None:
    """Return the kernel of a document, by its code or the text of a level; None for any other
    document.
    """
    if document.kind != "artifact":
        return None
    kernels = reader.rows(model.Kernel, artifact=document.id, limit=1)
    if kernels:
        return kernels[0]
    build = build_of_document(reader, document)
    if build is None:
        return None
    return reader.get(model.Kernel, build.kernel)


def kernel_document(reader: SessionReader, kernel: model.Kernel) -> Document:
    return document_of(reader, "artifact", kernel.artifact)


def source_here(reader: SessionReader, build: KernelBuild) -> Document | None:
    """Return the Triton source of a configuration; None without one. Its title names the
    configuration unless it is the kernel's own source.
    """
    document = source_document(reader, build)
    if document is None or not build.source:
        return document
    return replace(document, title=f"{document.title} · {distinguishing_options(reader, build)}")


def distinguishing_options(reader: SessionReader, build: KernelBuild) -> str:
    """Return the options that distinguish a configuration from the others of its kernel; all
    options if it is the only one.
    """

    names = options_that_differ(builds_here(reader, reader.get(model.Kernel, build.kernel)))
    options = {name: build.options[name] for name in names if name in build.options}
    return replace(build, options=options or build.options).shown_options


def first_statement(reader: SessionReader, document: Document) -> Place:
    """Return the first line of a kernel that computes something: the lines above are the same in
    every kernel.
    """
    lines = [line - 1 for line in linked_lines(reader, document.id)]
    text = lines_of(reader, document)
    if not lines:  # in a template, only the lines of what is fused into it are known
        lines = [line for line in range(len(text)) if "tl.dot(" in text[line]]
    for call in ("tl.load", "tl.", ""):
        for line in lines:
            if call in text[line]:
                return Place(document, line)
    return Place(document, 0)


@answered_once
def session_gpu(reader: SessionReader) -> Gpu | None:
    """Return the virtual GPU that the session was captured for; None without one."""
    fields = (reader.meta("request") or {}).get("gpu")
    if not fields:
        return None
    return Gpu.from_json(fields)


def levels_of(build: KernelBuild) -> list[Level]:
    """Return the levels that a build has, from the top down."""
    return [level for level in model.LEVELS if level in build.levels]


def level_document(reader: SessionReader, build: KernelBuild, level: Level) -> Document | None:
    """Return the document that a pane shows for a level; None for a level that this build lacks."""
    if level not in build.levels:
        return None
    return document_of(reader, "artifact", build.levels[level])


def text_of_level(reader: SessionReader, build: KernelBuild | None, level: Level) -> str:
    """Return the text of a level; empty for a level that this build lacks."""
    if build is None or level not in build.levels:
        return ""
    return reader.text(reader.get(model.Artifact, build.levels[level]).text)


def source_of(reader: SessionReader, kernel: model.Kernel, build: KernelBuild) -> str:
    """Return the Triton source that was compiled: the kernel's, or a template's own for this
    configuration.
    """
    return reader.text(build.source or reader.get(model.Artifact, kernel.artifact).text)


def source_document(reader: SessionReader, build: KernelBuild) -> Document | None:
    """Return that source as a document; None for a library call, or a configuration of which only
    the time is known.
    """
    if build.origin == "library":
        return None
    artifact = build.source_artifact or reader.get(model.Kernel, build.kernel).artifact
    if not artifact:
        return None
    return document_of(reader, "artifact", artifact)


def options_that_differ(rows: Sequence[KernelBuild]) -> list[str]:
    """Return the names of the options in which the configurations differ, in their order; empty for
    a single one.

    A library has none of the options and is shown by its name.
    """
    generated = [row for row in rows if row.origin != "library"]
    names: dict[str, None] = {}
    for row in generated:
        names |= dict.fromkeys(row.options)
    apart = []
    for name in names:
        values = {str(row.options.get(name)) for row in generated}
        if len(values) > 1:
            apart.append(name)
    if len(generated) < len(rows):
        apart.append("library")
    return apart


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
