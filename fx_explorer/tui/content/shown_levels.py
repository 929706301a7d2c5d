"""This module decides what the panes below a kernel show: the levels of one kernel in one
configuration, or why they are missing. It has no widgets.
"""

from __future__ import annotations

from dataclasses import replace

from textual.message import Message

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place
from fx_explorer.analysis.kernel_documents import (
    build_of_document,
    builds_here,
    distinguishing_options,
    is_of_a_library,
    kernel_of,
    session_gpu,
    source_here,
)
from fx_explorer.analysis.whole_session import NOT_BELOW, is_log
from fx_explorer.analysis.words import listed
from fx_explorer.model import KernelBuild, Level
from fx_explorer.session import SessionReader

LEVEL_TITLES: dict[Level, str] = {
    "ttir": "TTIR",
    "ttgir": "TTGIR",
    "llir": "LLVM IR",
    "ptx": "PTX",
    "amdgcn": "AMDGCN",
    "sass": "SASS",
}

NOT_TRITON = (
    "Only Triton kernels have levels below them: this one is {language}. Capture with --gpu h100, "
    "for example."
)
NO_KERNEL = (
    "No Triton kernel belongs to the selection: go to a kernel, or to a line or node that one "
    "computes."
)
SEVERAL_KERNELS = (
    "{count} kernels compute the selection; this is one of them. The kernel table (6) lists all."
)
FIRST_KERNEL = "No Triton kernel belongs to the selection: this is the first one, {name}."
DISASSEMBLING = "Disassembling the machine code …"
NOT_BUILT = (
    "This kernel was not built, and the capture was not for a virtual GPU: --build builds it, "
    "--gpu h100 shows its levels."
)
NOT_IN_LOG = "The log has no {level} of this kernel. There are {others}."
NO_SUCH_LEVEL = "On this GPU there is no {level}. There are {others}."
INSIDE_A_LIBRARY = "A library call: the library chooses its kernel on the GPU."
NOTHING_YET = (
    "No level below a kernel is shown yet: go to a line or node that a Triton kernel computes."
)


class BuildWanted(Message):
    """Posted when a pane needs a configuration of a kernel that is not compiled yet."""

    def __init__(self, kernel: int, position: int) -> None:
        super().__init__()
        self.kernel = kernel
        self.position = position


class CandidatesWanted(Message):
    """The view of a kernel's configurations was opened."""

    def __init__(self, kernel: model.Kernel) -> None:
        super().__init__()
        self.kernel = kernel


class Levels:
    """Tracks which kernel the panes of levels (Triton … SASS) show, in which configuration, and why
    a level is missing.
    """

    def __init__(self) -> None:
        self.kernel: model.Kernel | None = None
        self.listed: model.Kernel | None = None
        """The kernel whose configurations are listed. It does not follow the selection."""
        self._positions: dict[int, int] = {}
        self._given_up: dict[tuple[int, int], str] = {}
        """(kernel, position) → why the configuration could not be built."""
        self.news = ""
        """Progress of building a missing level, or why it cannot be built."""

    def forget(self) -> None:
        """Forget everything, because ids have another meaning in another session."""
        self.kernel, self.listed, self._positions, self._given_up, self.news = (
            None,
            None,
            {},
            {},
            "",
        )

    def choose(self, kernel: model.Kernel, position: int | None = None) -> None:
        """Show this kernel, in configuration ``position`` if given. A build that was given up is
        tried again.
        """
        if position is not None:
            self._positions[kernel.id] = position
        self._given_up = {key: why for key, why in self._given_up.items() if key[0] != kernel.id}
        self._turn_to(kernel)

    def give_up(self, kernel: int, position: int, why: str) -> None:
        """Note that building it has failed, so that moving the cursor does not try again."""
        self._given_up[kernel, position] = why

    def _turn_to(self, kernel: model.Kernel) -> None:
        if self.kernel is None or kernel.id != self.kernel.id:
            self.news = ""
        self.kernel = kernel

    def follow(self, reader: SessionReader, place: Place, kernel_document: Document | None) -> None:
        """Change to the kernel of the selection. ``kernel_document`` is its document in a pane for
        kernels.
        """
        build = build_of_document(reader, place.document)
        if build:
            self._positions[build.kernel] = build.position
            self._turn_to(reader.get(model.Kernel, build.kernel))
        elif (
            kernel_document
            and (kernel := kernel_of(reader, kernel_document))
            and kernel.language == "triton"
        ):
            self._turn_to(kernel)
            if (place.document.kind, place.document.id) == ("artifact", kernel.artifact):
                self._back_to_own_build(reader, kernel)

    def _back_to_own_build(self, reader: SessionReader, kernel: model.Kernel) -> None:
        """Return to a kernel's own configuration when the cursor is in the kernel's own code,
        unless the chosen configuration has the same source.
        """
        build = self._build_of(reader, kernel)
        if build and build.source_artifact:
            self._positions.pop(kernel.id, None)

    def position(self, reader: SessionReader) -> int:
        """Return the configuration to show: the user's choice, else the one that ran, else the
        first.
        """
        if self.kernel:
            return self._position_of(reader, self.kernel)
        return 0

    def _position_of(self, reader: SessionReader, kernel: model.Kernel) -> int:
        picked = next((row.position for row in builds_here(reader, kernel) if row.is_picked), 0)
        return self._positions.get(kernel.id, picked)

    def build(self, reader: SessionReader) -> KernelBuild | None:
        """Return the build to show; None until it was requested."""
        if self.kernel:
            return self._build_of(reader, self.kernel)
        return None

    def _build_of(self, reader: SessionReader, kernel: model.Kernel) -> KernelBuild | None:
        wanted = self._position_of(reader, kernel)
        return next((row for row in builds_here(reader, kernel) if row.position == wanted), None)

    def in_configuration(self, reader: SessionReader, document: Document) -> Document:
        """Return a kernel's code in the shown configuration, since each configuration of a template
        has its own; any other document unchanged.
        """
        if document.stage == "kernel":
            kernel = kernel_of(reader, document)
        else:
            kernel = None
        build = self._build_of(reader, kernel) if kernel else None
        if build:
            return source_here(reader, build) or document
        return document

    def document(self, reader: SessionReader, level: Level) -> Document | None:
        from fx_explorer.analysis.kernel_documents import level_document

        build = self.build(reader)
        document = level_document(reader, build, level) if build else None
        if build is None or document is None:
            return None
        return replace(
            document,
            title=f"{LEVEL_TITLES[level]} · {distinguishing_options(reader, build)}".removesuffix(
                " · "
            ),
        )

    def is_wanting(self, reader: SessionReader) -> bool:
        """Return whether the configuration could be compiled and is not, or was compiled and could
        be disassembled.
        """
        build = self.build(reader)
        if self.kernel is None or (self.kernel.id, self.position(reader)) in self._given_up:
            return False
        if build is None and self.kernel.language != "triton":
            return False
        if build and build.is_undisassembled:
            return True
        is_open = build is None or build.state == "candidate" or lacks_sass(build)
        return session_gpu(reader) is not None and is_open

    def still_lacks(self, reader: SessionReader, wanted: BuildWanted) -> bool:
        """Return whether the wanted build is still missing from the session, although the builder
        has answered.
        """
        row = next(
            iter(reader.rows(KernelBuild, kernel=wanted.kernel, position=wanted.position)), None
        )
        return row is None or row.state == "candidate" or lacks_sass(row)

    def words(self, reader: SessionReader, level: Level) -> str:
        """Return why a level is missing."""
        from fx_explorer.analysis.kernel_documents import levels_of

        build = self.build(reader)
        if self.kernel is None:
            return NOTHING_YET
        if is_of_a_library(self.kernel, build):
            return INSIDE_A_LIBRARY
        if build and build.state == "failed":
            options = f" with {build.shown_options}" if build.options else ""
            return f"{self.kernel.name}{options} could not be compiled:\n\n{build.error}"
        if given_up := self._given_up.get((self.kernel.id, self.position(reader))):
            return given_up
        if (
            build
            and lacks_sass(build)
            and level == "sass"
            and (session_gpu(reader) or build.machine_code)
        ):
            return self.news or DISASSEMBLING
        if build and build.state == "built":
            others = listed((LEVEL_TITLES[level] for level in levels_of(build)), len(LEVEL_TITLES))
            sentence = NOT_IN_LOG if is_log(reader) else NO_SUCH_LEVEL
            return sentence.format(level=LEVEL_TITLES[level], others=others)
        if self.news or session_gpu(reader):
            return self.news
        return NOT_BELOW if is_log(reader) else NOT_BUILT


def lacks_sass(build: KernelBuild) -> bool:
    """Return whether a configuration was built without SASS. Its resources come first: nvdisasm
    takes longer than most compiles.
    """
    return build.state == "built" and "ptx" in build.levels and "sass" not in build.levels
