"""This module finds the documents that show a kernel (its Triton source, a configuration's source,
its levels), and the kernel of a document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place, document_of, lines_of
from fx_explorer.model import Gpu, KernelBuild, Level
from fx_explorer.session import SessionReader, answered_once
from fx_explorer.session.queries.kernels import build_with_level, build_with_source
from fx_explorer.session.queries.links import linked_lines


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
