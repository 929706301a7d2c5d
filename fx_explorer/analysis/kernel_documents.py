"""The documents that show a kernel (its Triton source, a configuration's source, its levels), and
the kernel of a document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place, document_of, lines_of
from fx_explorer.model import Gpu, KernelBuild, Level
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import build_with_level, build_with_source
from fx_explorer.session.queries.links import linked_lines


def build_of_level(reader: SessionReader, document: Document) -> KernelBuild | None:
    """Return the configuration that a document is a level of; None for any other document."""
    return build_with_level(reader, document.id) if is_level(document) else None


def build_of_document(reader: SessionReader, document: Document) -> KernelBuild | None:
    """Return the configuration that a document is a level or the own source of; None for any other
    document.
    """
    if is_level(document) or document.kind != "artifact" or document.stage != "kernel":
        return build_of_level(reader, document)
    return build_with_source(reader, document.compilation, document.id)


def is_of_a_library(kernel: model.Kernel, build: KernelBuild | None) -> bool:
    return build.origin == "library" if build else kernel.language == "extern"


def builds_here(reader: SessionReader, kernel: model.Kernel) -> list[KernelBuild]:
    """Return the builds of a kernel in the order the autotuner tries them. In a session of a
    virtual GPU, only those for that GPU are returned.
    """
    gpu = session_gpu(reader)
    rows = [
        row
        for row in reader.rows(KernelBuild, kernel=kernel.id)
        if gpu is None or row.gpu == gpu.name
    ]
    return sorted(rows, key=lambda row: row.position)


def kernel_of(reader: SessionReader, document: Document) -> model.Kernel | None:
    """Return the kernel whose code, or a level of it, this document is."""
    if document.kind != "artifact":
        return None
    own = reader.rows(model.Kernel, artifact=document.id, limit=1)
    if own:
        return own[0]
    build = build_of_document(reader, document)
    return reader.get(model.Kernel, build.kernel) if build else None


def kernel_document(reader: SessionReader, kernel: model.Kernel) -> Document:
    return document_of(reader, "artifact", kernel.artifact)


def source_here(reader: SessionReader, build: KernelBuild) -> Document | None:
    """Return the Triton source of a configuration; None where there is none to show. Its title
    names the configuration unless it is the kernel's own source.
    """
    document = source_document(reader, build)
    if document is None or not build.source:
        return document
    return replace(document, title=f"{document.title} · {options_apart(reader, build)}")


def options_apart(reader: SessionReader, build: KernelBuild) -> str:
    """Return the options that tell a configuration from the others of its kernel; all options of a
    single one.
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
    telling = (
        next((line for line in lines if call in text[line]), None)
        for call in ("tl.load", "tl.", "")
    )
    return Place(document, next((line for line in telling if line is not None), 0))


def is_level(document: Document) -> bool:
    is_published = document.stage == "backend"  # a backend's own text, of whatever language
    return document.kind == "artifact" and document.language in model.LEVELS and not is_published


def session_gpu(reader: SessionReader) -> Gpu | None:
    """Return the virtual GPU that the session was captured for; None without one."""
    fields = (reader.meta("request") or {}).get("gpu")
    return Gpu.from_json(fields) if fields else None


def levels_of(build: KernelBuild) -> list[Level]:
    """Return the levels that a build has, from the top down."""
    return [level for level in model.LEVELS if level in build.levels]


def level_document(reader: SessionReader, build: KernelBuild, level: Level) -> Document | None:
    """Return the document that a pane shows for a level; None for a level that this build lacks."""
    return document_of(reader, "artifact", build.levels[level]) if level in build.levels else None


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
    """Return that source as a document; None for a library, and for a configuration of a library
    call that is known by its times alone.
    """
    if build.origin == "library":
        return None
    artifact = build.source_artifact or reader.get(model.Kernel, build.kernel).artifact
    return document_of(reader, "artifact", artifact) if artifact else None


def options_that_differ(rows: Sequence[KernelBuild]) -> list[str]:
    """Return the names of the options in which the configurations differ, in the order they are
    written; empty for a single one.

    A library has none of the options and is shown by its name.
    """
    generated = [row for row in rows if row.origin != "library"]
    names = dict.fromkeys(name for row in generated for name in row.options)
    apart = [name for name in names if len({str(row.options.get(name)) for row in generated}) > 1]
    return [*apart, "library"] if len(generated) < len(rows) else apart
