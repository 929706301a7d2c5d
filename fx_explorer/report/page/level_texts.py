"""The texts of the page below a kernel: PTX and SASS, or AMDGCN, of one configuration of each, with
the lines of the kernel's Triton source that each line was compiled from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.kernel_documents import (
    builds_here,
    kernel_of,
    level_document,
    level_lines,
    source_document,
)
from fx_explorer.model import KernelBuild, Level
from fx_explorer.session import SessionReader

SHOWN_LEVELS: Sequence[Level] = ("ptx", "amdgcn", "sass")
"""Levels that the page has: what a GPU runs, and the text it is made from."""


@dataclass(frozen=True, slots=True)
class LevelOfKernel:
    """A text below a kernel."""

    document: Document
    kernel: Document
    """The Triton source."""
    sources: dict[int, tuple[int, ...]]
    """Line of the text → lines of the source, all from 0."""


def levels_of_kernels(
    reader: SessionReader, kernels: Sequence[Document]
) -> Iterator[LevelOfKernel]:
    """Yield the texts below these kernels, where the session has some: those of the configuration
    that was picked, else of the first that was built.
    """
    for document in kernels:
        kernel = kernel_of(reader, document) if document.language == "triton" else None
        if kernel is None:
            continue
        build = _shown_build(reader, kernel, document)
        if build:
            yield from _levels(reader, build, document)


def _shown_build(
    reader: SessionReader, kernel: model.Kernel, document: Document
) -> KernelBuild | None:
    """Return the configuration whose texts are shown; None where none was built from this very
    source.
    """
    built = [build for build in builds_here(reader, kernel) if set(SHOWN_LEVELS) & {*build.levels}]
    of_source = [build for build in built if source_document(reader, build) == document]
    picked = [build for build in of_source if build.is_picked]
    return next(iter(picked or of_source), None)


def _levels(reader: SessionReader, build: KernelBuild, kernel: Document) -> Iterator[LevelOfKernel]:
    for level in SHOWN_LEVELS:
        document = level_document(reader, build, level)
        if document is None:
            continue
        sources = {}
        for line, lines in level_lines(reader, build, level).items():
            sources[line - 1] = tuple(source - 1 for source in lines)
        yield LevelOfKernel(document, kernel, sources)
