"""The documents that show a kernel (its Triton source, a configuration's source, its levels), and
the kernel of a document.
"""

from __future__ import annotations

from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place, document_of, lines_of
from fx_explorer.model import Gpu, KernelBuild
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernel.kernels import build_with_level, build_with_source
from fx_explorer.session.queries.kernel.lines import linked_lines

# What reads the levels (candidates.py) is imported where it is used: 20 ms that the first paint
# does not need.


def gpu_of(reader: SessionReader) -> Gpu | None:
    """Return the virtual GPU that the session was captured for."""
    if not (reader.meta("request") or {}).get("gpu"):
        return None
    from fx_explorer.analysis.kernels.candidates import session_gpu

    return session_gpu(reader)


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
    gpu = gpu_of(reader)
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
    from fx_explorer.analysis.kernels.candidates import source_document

    document = source_document(reader, build)
    if document is None or not build.source:
        return document
    return replace(document, title=f"{document.title} · {options_apart(reader, build)}")


def options_apart(reader: SessionReader, build: KernelBuild) -> str:
    """Return the options that tell a configuration from the others of its kernel; all options of a
    single one.
    """
    from fx_explorer.analysis.kernels.candidates import options_that_differ

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
