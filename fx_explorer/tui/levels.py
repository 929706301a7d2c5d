"""What panes below a kernel show: the levels of one kernel in one configuration, or why they are not there. No widget."""

from __future__ import annotations

from dataclasses import replace

from textual.message import Message

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place, document_of, lines_of
from fx_explorer.analysis.words import listed
from fx_explorer.model import Gpu, KernelBuild, Level
from fx_explorer.session import SessionReader

# What reads the levels (analysis.below) is imported where it is used: 20 ms that the first paint does not need.

LEVEL_TITLES: dict[Level, str] = {
    "ttir": "TTIR",
    "ttgir": "TTGIR",
    "llir": "LLVM IR",
    "ptx": "PTX",
    "amdgcn": "AMDGCN",
    "sass": "SASS",
}

NOT_TRITON = "Levels below a kernel are those of Triton kernels: this one is {language}. Capture with --gpu h100, for example."
NO_KERNEL = "No Triton kernel belongs to what is selected: go to a kernel, or to a line or node that one computes."
FIRST_KERNEL = "No Triton kernel belongs to what was selected: this is the first one, {name}."
DISASSEMBLING = "Disassembling the machine's code …"
NOT_BUILT = "This kernel was not built, and the capture was not for a virtual GPU: --build builds it, --gpu h100 shows it."
NO_SUCH_LEVEL = "On this GPU there is no {level}. There are {others}."
OTHER_SOURCE = (
    "This configuration has a Triton source of its own, and this session of an earlier version cannot show it: its levels are "
    "linked to each other, not to the code beside. Capture it again."
)
INSIDE_A_LIBRARY = "A library call: what it looks like inside is decided on the GPU."
NOTHING_YET = "Nothing is shown below the kernel yet: go to a line or node that a Triton kernel computes."


class BuildWanted(Message):
    """A pane has nothing to show until this configuration of a kernel is compiled."""

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
    """The kernel that the panes below it follow, and the configuration the user chose for each."""

    def __init__(self) -> None:
        self.kernel: model.Kernel | None = None
        self._positions: dict[int, int] = {}
        self._given_up: dict[tuple[int, int], str] = {}
        """(kernel, position) → why nothing came of it."""
        self.news = ""
        """What is being done about a level that is not there, or why it cannot be."""

    def forget(self) -> None:
        """Another session: ids mean something else."""
        self.kernel, self._positions, self._given_up, self.news = None, {}, {}, ""

    def choose(self, kernel: model.Kernel, position: int | None = None) -> None:
        """The user asks for this kernel; ``position``: in this configuration. What was given up is tried again."""
        if position is not None:
            self._positions[kernel.id] = position
        self._given_up = {key: why for key, why in self._given_up.items() if key[0] != kernel.id}
        self._turn_to(kernel)

    def give_up(self, kernel: int, position: int, why: str) -> None:
        """Nothing came of compiling it: moving the cursor does not try again."""
        self._given_up[kernel, position] = why

    def _turn_to(self, kernel: model.Kernel) -> None:
        if self.kernel is None or kernel.id != self.kernel.id:
            self.news = ""
        self.kernel = kernel

    def follow(self, reader: SessionReader, place: Place, kernel_document: Document | None) -> None:
        """Turn to the kernel of the selection; ``kernel_document``: what a pane for kernels shows of it."""
        build = build_of_document(reader, place.document)
        if build:
            self._positions[build.kernel] = build.position
            self._turn_to(reader.get(model.Kernel, build.kernel))
        elif kernel_document and (kernel := kernel_of(reader, kernel_document)) and kernel.language == "triton":
            self._turn_to(kernel)
            if (place.document.kind, place.document.id) == ("artifact", kernel.artifact):
                self._back_to_its_own(reader, kernel)

    def _back_to_its_own(self, reader: SessionReader, kernel: model.Kernel) -> None:
        """The cursor is in the kernel's own code: a configuration that has another source is not what it is about."""
        build = self._build_of(reader, kernel)
        if build and build.source:
            del self._positions[kernel.id]

    def position(self, reader: SessionReader) -> int:
        """The configuration that is shown: the user's choice, the one that ran, the first."""
        return self._position_of(reader, self.kernel) if self.kernel else 0

    def _position_of(self, reader: SessionReader, kernel: model.Kernel) -> int:
        picked = next((row.position for row in builds_here(reader, kernel) if row.is_picked), 0)
        return self._positions.get(kernel.id, picked)

    def build(self, reader: SessionReader) -> KernelBuild | None:
        """None while nobody has asked for it."""
        return self._build_of(reader, self.kernel) if self.kernel else None

    def _build_of(self, reader: SessionReader, kernel: model.Kernel) -> KernelBuild | None:
        wanted = self._position_of(reader, kernel)
        return next((row for row in builds_here(reader, kernel) if row.position == wanted), None)

    def in_configuration(self, reader: SessionReader, document: Document) -> Document:
        """A kernel's code as it is in the configuration that is shown of it; a template writes each anew. Any other: itself."""
        kernel = kernel_of(reader, document) if document.stage == "kernel" else None
        build = self._build_of(reader, kernel) if kernel else None
        return source_here(reader, build) or document if build else document

    def document(self, reader: SessionReader, level: Level) -> Document | None:
        from fx_explorer.analysis.below.candidates import level_document

        build = self.build(reader)
        document = level_document(reader, build, level) if build else None
        if build is None or document is None:
            return None
        return replace(document, title=f"{LEVEL_TITLES[level]} · {options_apart(reader, build)}".removesuffix(" · "))

    def is_wanting(self, reader: SessionReader) -> bool:
        """Whether the configuration could be compiled and is not, or was compiled and could be disassembled."""
        build = self.build(reader)
        if self.kernel is None or (self.kernel.id, self.position(reader)) in self._given_up:
            return False
        if build is None and self.kernel.language != "triton":
            return False
        if build and build.is_undisassembled:
            return True
        is_open = build is None or build.state == "candidate" or lacks_sass(build)
        return gpu_of(reader) is not None and is_open

    def still_lacks(self, reader: SessionReader, wanted: BuildWanted) -> bool:
        """Whether what was asked for is not there, although it was answered."""
        row = next(iter(reader.rows(KernelBuild, kernel=wanted.kernel, position=wanted.position)), None)
        return row is None or row.state == "candidate" or lacks_sass(row)

    def words(self, reader: SessionReader, level: Level) -> str:
        """Why there is no such level."""
        from fx_explorer.analysis.below.candidates import levels_of

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
        if build and lacks_sass(build) and level == "sass":
            return self.news or DISASSEMBLING
        if build and build.state == "built":
            others = listed((LEVEL_TITLES[one] for one in levels_of(build)), len(LEVEL_TITLES))
            return NO_SUCH_LEVEL.format(level=LEVEL_TITLES[level], others=others)
        return self.news or ("" if gpu_of(reader) else NOT_BUILT)


def lacks_sass(build: KernelBuild) -> bool:
    """Resources come without it: nvdisasm takes longer than most compiles."""
    return build.state == "built" and "ptx" in build.levels and "sass" not in build.levels


def gpu_of(reader: SessionReader) -> Gpu | None:
    """The virtual GPU that the session was captured for."""
    if not (reader.meta("request") or {}).get("gpu"):
        return None
    from fx_explorer.analysis.below.candidates import session_gpu

    return session_gpu(reader)


def build_of_level(reader: SessionReader, document: Document) -> KernelBuild | None:
    """The configuration that a document is a level of; None for any other document."""
    if not is_level(document):
        return None
    from fx_explorer.analysis.below.chain import build_of

    return build_of(reader, document)


def build_of_document(reader: SessionReader, document: Document) -> KernelBuild | None:
    """The configuration that a document is a level of, or the source of its own; None for any other document."""
    if is_level(document) or document.kind != "artifact" or document.stage != "kernel":
        return build_of_level(reader, document)
    from fx_explorer.analysis.below.candidates import build_of_source

    return build_of_source(reader, document)


def is_of_a_library(kernel: model.Kernel, build: KernelBuild | None) -> bool:
    return build.origin == "library" if build else kernel.language == "extern"


def builds_here(reader: SessionReader, kernel: model.Kernel) -> list[KernelBuild]:
    """In the order the autotuner tries them. Of a session of a virtual GPU only those for it."""
    gpu = gpu_of(reader)
    rows = [row for row in reader.rows(KernelBuild, kernel=kernel.id) if gpu is None or row.gpu == gpu.name]
    return sorted(rows, key=lambda row: row.position)


def kernel_of(reader: SessionReader, document: Document) -> model.Kernel | None:
    """The kernel whose code, or a level of it, this document is."""
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
    """The Triton source of a configuration, which says in its title of which one when it is not the kernel's; None where there
    is none to show."""
    from fx_explorer.analysis.below.candidates import source_document

    document = source_document(reader, build)
    if document is None or not build.source:
        return document
    return replace(document, title=f"{document.title} · {options_apart(reader, build)}")


def options_apart(reader: SessionReader, build: KernelBuild) -> str:
    """The options that tell a configuration from the others of its kernel; all of a single one."""
    from fx_explorer.analysis.below.candidates import options_that_differ

    names = options_that_differ(builds_here(reader, reader.get(model.Kernel, build.kernel)))
    options = {name: build.options[name] for name in names if name in build.options}
    return replace(build, options=options or build.options).shown_options


def above(reader: SessionReader, place: Place) -> Place:
    """The line of the Triton source that a line of a level was made from, or its first line; any other place itself."""
    build = build_of_level(reader, place.document)
    if build is None:
        return place
    from fx_explorer.analysis.below.chain import triton_lines

    document = source_here(reader, build)
    if document:
        return Place(document, min(triton_lines(reader, build, place), default=0))
    kernel = reader.get(model.Kernel, build.kernel)
    return Place(kernel_document(reader, kernel)) if kernel.artifact else place


def first_statement(reader: SessionReader, document: Document) -> Place:
    """The first line of a kernel that computes something: what stands above it is the same in every kernel, and has no code."""
    found = reader.query(
        "SELECT line FROM line_node WHERE artifact=? AND line UNION SELECT line FROM line_source WHERE artifact=? ORDER BY 1",
        (document.id,) * 2,
    )
    lines = [line - 1 for (line,) in found]
    text = lines_of(reader, document)
    if not lines:  # of a template, nothing is known line by line but what is fused into it
        lines = [line for line in range(len(text)) if "tl.dot(" in text[line]]
    telling = (next((line for line in lines if call in text[line]), None) for call in ("tl.load", "tl.", ""))
    return Place(document, next((line for line in telling if line is not None), 0))


def is_level(document: Document) -> bool:
    return document.kind == "artifact" and document.language in model.LEVELS
