"""This module makes rows of what was noted of kernels on a real GPU (kernel_launches.py), how they
were built, timed and launched: KernelBuild, KernelLaunch, and the texts below the Triton source.

The notes (``NotedKernel``) are defined here, too. An autotuner knows the file it was loaded from,
and a Kernel its source: equal texts belong together. Where compilations share a source, the one
that torch says it was loaded for is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from fx_explorer.capture.inductor.built_texts import (
    file_named_in,
    machine_code_in,
    spilled_bytes,
    texts_in,
)
from fx_explorer.capture.recording.state import Recording
from fx_explorer.model import (
    Argument,
    Artifact,
    BuildOrigin,
    Compilation,
    Kernel,
    KernelBuild,
    KernelLaunch,
)
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.levels import add_level

Options = tuple[tuple[str, object], ...]


@dataclass
class NotedBuild:
    """A configuration as it was loaded onto the GPU."""

    options: dict[str, object]
    origin: BuildOrigin
    registers: int
    local_bytes: int
    shared_bytes: int
    folder: Path | None
    """The build's directory in Triton's cache; None when it was not built."""
    timing_s: float = 0.0


@dataclass
class NotedLaunch:
    count: int = 1
    grid: tuple[int, ...] = ()
    arguments: tuple[Argument, ...] = ()


@dataclass
class NotedKernel:
    """What one autotuner did. It keeps the autotuner alive, as the module that torch loaded it from
    does anyway.
    """

    autotuner: Any
    source: str
    """Text of the file it was loaded from; of a template, that torch knows no file of, the text of
    the function.
    """
    compilation: str
    is_backward: bool
    picked: Options = ()
    builds: dict[Options, NotedBuild] = field(default_factory=dict)
    launches: dict[tuple[int, ...], NotedLaunch] = field(default_factory=dict)

    @property
    def device(self) -> int:
        return int(self.autotuner.triton_meta.get("device") or 0)


# The rows.


def add_launch_rows(recording: Recording, notes: list[NotedKernel]) -> None:
    """Add rows for the kernels that the program launched. The others are candidates of a choice
    that was lost, and have rows already.
    """
    with SessionReader(recording.writer.path) as reader:
        finder = _KernelFinder(reader)
    launched = []
    for noted in notes:
        kernel = finder.kernel_of(noted) if noted.launches else None
        if kernel:
            launched.append((noted, kernel))
    rows = _LaunchRows(recording.writer, finder.choices)
    for noted, kernel in launched:
        with recording.noting(f"how {kernel.name} was launched", "kernel"):
            rows.add(noted, kernel)
    known = {id(noted) for noted, _ in launched}
    for noted in notes:
        if id(noted) not in known:  # to be timed, a template is launched like any other
            with recording.noting("a candidate that was not taken", "kernel"):
                rows.add_lost(noted)
    if launched:
        recording.saw("kernel")


@dataclass(frozen=True, slots=True)
class _TunedCandidate:
    """A candidate that was timed (autotuner_choices.py), as its row is so far."""

    row: KernelBuild
    kernel: Kernel
    source: str

    def is_like(self, options: dict[str, object]) -> bool:
        """Return whether what both say of their configuration agrees."""
        shared = self.row.options.keys() & options.keys()
        if not {"num_warps", "num_stages"} < shared:
            return False
        return all(str(self.row.options[name]) == str(options[name]) for name in shared)


def _choice(reader: SessionReader, row: KernelBuild) -> _TunedCandidate:
    source = _bare(reader.text(row.source)) if row.source else ""
    return _TunedCandidate(row, reader.get(Kernel, row.kernel), source)


def _bare(source: str) -> str:
    """Return the source without spaces at line ends: Triton keeps a function's text without the
    spaces on its empty lines.
    """
    return "\n".join(line.rstrip() for line in source.strip().splitlines())


class _KernelFinder:
    def __init__(self, reader: SessionReader) -> None:
        self._names = {row.id: row.name for row in reader.rows(Compilation)}
        self._by_source: dict[str, list[Kernel]] = {}
        for kernel in reader.rows(Kernel, language="triton"):
            source = reader.text(reader.get(Artifact, kernel.artifact).text)
            self._by_source.setdefault(_bare(source), []).append(kernel)

        self.choices = [_choice(reader, row) for row in reader.rows(KernelBuild)]

    def kernel_of(self, noted: NotedKernel) -> Kernel | None:
        source = _bare(noted.source)
        same = self._by_source.get(source) or self._with_function(source)
        return max(same, key=lambda kernel: self._likeness(kernel, noted), default=None)

    def _with_function(self, text: str) -> list[Kernel]:
        if not text:
            return []
        for source, kernels in self._by_source.items():
            if text in source:
                return kernels
        return []

    def _likeness(self, kernel: Kernel, noted: NotedKernel) -> int:
        is_same = self._names.get(kernel.compilation) == noted.compilation
        return 2 * is_same + ((kernel.direction == "backward") == noted.is_backward)


class _LaunchRows:
    def __init__(self, writer: SessionWriter, choices: list[_TunedCandidate]) -> None:
        self._writer = writer
        self._choices = choices
        self._launched: set[int] = set()
        """Rows of choices that are the ones that ran."""
        self._builds: dict[int, dict[Options, int]] = {}
        """Row of each configuration, by kernel: two autotuners of one kernel share them."""

    def add(self, noted: NotedKernel, kernel: Kernel) -> None:
        with self._writer.transaction():
            known = self._builds.setdefault(kernel.id, {})
            timed = [choice for choice in self._choices if choice.row.kernel == kernel.id]
            for key in noted.builds:
                if key not in known:
                    known[key] = self._add_launched(
                        noted, kernel, key, timed, len(timed) + len(known)
                    )
            for launch in noted.launches.values():
                build_id = known.get(noted.picked, 0)
                self._writer.add(
                    KernelLaunch(
                        0, kernel.id, build_id, launch.grid, launch.count, launch.arguments
                    )
                )

    def add_lost(self, noted: NotedKernel) -> None:
        """Add the resources and texts of a candidate that was only timed. It may be one of several
        equal operations. Warps and stages are kept apart too: they are not in the text of a
        template's function.
        """
        source = _bare(noted.source)
        for build in noted.builds.values():
            options = {**_written(noted), **build.options}
            for choice in self._choices:
                if (
                    source
                    and source in choice.source
                    and choice.row.id not in self._launched
                    and choice.is_like(options)
                ):
                    self._update_lost(noted, build, choice)

    def _update_lost(self, noted: NotedKernel, build: NotedBuild, choice: _TunedCandidate) -> None:
        with self._writer.transaction():
            row = self._build(noted, choice.kernel, build)
            if row.state == "built":
                # Its source is the whole text of its module.
                self._writer.update(replace(_of_choice(row, choice.row), lines_before=0))

    def _add_launched(
        self,
        noted: NotedKernel,
        kernel: Kernel,
        key: Options,
        timed: list[_TunedCandidate],
        position: int,
    ) -> int:
        """Add a row in place of the candidate that it was timed as, where there is one: the
        candidate was timed without what is fused into it.
        """
        row = replace(
            self._build(noted, kernel, noted.builds[key]),
            is_picked=key == noted.picked,
            position=position,
        )
        choice = next((candidate for candidate in timed if candidate.is_like(row.options)), None)
        if choice is None:
            return self._writer.add(row)
        self._launched.add(choice.row.id)
        levels = row.levels  # its source is the kernel's
        self._writer.update(replace(_of_choice(row, choice.row), source=0, name="", levels=levels))
        return choice.row.id

    def _build(self, noted: NotedKernel, kernel: Kernel, build: NotedBuild) -> KernelBuild:
        """Return the row of a build, without an id and a position."""
        texts = texts_in(build.folder) if build.folder else {}
        row = KernelBuild(
            id=0,
            kernel=kernel.id,
            position=0,
            options={**_written(noted), **build.options},
            gpu=torch.cuda.get_device_name(noted.device),
            state="built" if build.folder else "failed",
            origin=build.origin,
            toolchain=_toolchain(),
            file=Path(noted.autotuner.filename or "").name or file_named_in(texts.get("ttir", "")),
            lines_before=LINES_BEFORE,
            timing_s=build.timing_s,
        )
        if not build.folder:
            return replace(row, error=LEFT_OUT)
        levels = {}
        for level, text in texts.items():
            levels[str(level)] = add_level(self._writer, kernel, level, text)
        code = machine_code_in(build.folder)
        row = _with_resources(row, build, texts.get("ptx", ""))
        return replace(row, levels=levels, machine_code=self._writer.text(code) if code else 0)


def _of_choice(row: KernelBuild, choice: KernelBuild) -> KernelBuild:
    """Return the row of what was built, in the place of what was timed."""
    return replace(
        row,
        id=choice.id,
        kernel=choice.kernel,
        position=choice.position,
        options=choice.options,
        origin=choice.origin,
        source=choice.source,
        name=choice.name,
        levels={**choice.levels, **row.levels},
        timing_s=choice.timing_s or row.timing_s,
    )


LINES_BEFORE = 1
"""Inductor compiles a kernel together with the line feed that follows its quotes."""

LEFT_OUT = "Inductor left this configuration out: it could not be compiled or loaded on this GPU."


def _written(noted: NotedKernel) -> dict[str, object]:
    """Return the options that Inductor wrote into the source: a template has its block sizes there,
    not in its configuration.
    """
    return dict(noted.autotuner.inductor_meta.get("config_args") or {})


def _with_resources(row: KernelBuild, build: NotedBuild, ptx: str) -> KernelBuild:
    """Fill in the resources as the driver told torch. It does not report spills: without local
    memory there are none, else ptxas has to say.
    """
    warps = build.options["num_warps"]
    warp_size = torch.cuda.get_device_properties(0).warp_size
    return replace(
        row,
        threads=warps * warp_size if isinstance(warps, int) else row.threads,
        registers=build.registers,
        spill_bytes=spilled_bytes(ptx) if build.local_bytes > 0 else build.local_bytes,
        stack_bytes=build.local_bytes,
        shared_bytes=build.shared_bytes,
    )


def _toolchain() -> str:
    import triton

    return f"triton {triton.__version__}"
