"""What is noted of the builds, timings and launches of a kernel (kernel_launches.py), and the rows
that are made of it when the recording ends.
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
    """A configuration of a kernel that was loaded onto the GPU, with its resources."""

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
    """Builds, timings and launches of one autotuner. It keeps the autotuner alive, as the module
    from which torch loaded it does anyway.
    """

    autotuner: Any
    source: str
    """Text of the file from which the autotuner was loaded; for a template, whose file torch does
    not know, the text of the function.
    """
    compilation: str
    is_backward: bool
    picked: Options = ()
    builds: dict[Options, NotedBuild] = field(default_factory=dict)
    launches: dict[tuple[int, ...], NotedLaunch] = field(default_factory=dict)

    @property
    def device(self) -> int:
        return int(self.autotuner.triton_meta.get("device") or 0)


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
            with recording.noting("a candidate that was not chosen", "kernel"):
                rows.add_lost(noted)
    if launched:
        recording.saw("kernel")


@dataclass(frozen=True, slots=True)
class _TunedCandidate:
    """A candidate that the autotuner timed (autotuner_choices.py), with its row so far."""

    row: KernelBuild
    kernel: Kernel
    source: str

    def is_like(self, options: dict[str, object]) -> bool:
        """Return whether the options that both configurations have are equal."""
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
        """Rows of choices that were launched."""
        self._builds: dict[int, dict[Options, int]] = {}
        """Row of each configuration, by kernel. Two autotuners of one kernel share them."""

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
        """Add the resources and texts of a candidate that was only timed. It may belong to several
        equal operations. Warps and stages are compared too, because they are not in the text of a
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
        """Replace the candidate's row, if there is one, by the row of the launched kernel: the
        candidate was timed without the operations fused into it.
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
        file = Path(noted.autotuner.filename or "").name
        row = KernelBuild(
            id=0,
            kernel=kernel.id,
            position=0,
            options={**_written(noted), **build.options},
            gpu=torch.cuda.get_device_name(noted.device),
            state="built",
            origin=build.origin,
            toolchain=_toolchain(),
            file=file or file_named_in(texts.get("ttir", "")),
            lines_before=LINES_BEFORE,
            timing_s=build.timing_s,
        )
        if not build.folder:
            return replace(row, state="failed", error=LEFT_OUT)
        levels = {}
        for level, text in texts.items():
            levels[str(level)] = add_level(self._writer, kernel, level, text)
        row = _with_resources(row, build, texts.get("ptx", ""))
        code = machine_code_in(build.folder)
        machine_code = self._writer.text(code) if code else 0
        return replace(row, levels=levels, machine_code=machine_code)


def _of_choice(row: KernelBuild, choice: KernelBuild) -> KernelBuild:
    """Return ``row``, a configuration that was built, under the id, name and source of the choice
    that was timed.
    """
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
"""Number of lines before the source: Inductor compiles a kernel together with the line feed that
follows its opening quotes.
"""

LEFT_OUT = "Inductor dropped this configuration: it could not be compiled or loaded on this GPU."


def _written(noted: NotedKernel) -> dict[str, object]:
    """Return the options that Inductor wrote into the source: a template has its block sizes there,
    not in its configuration.
    """
    return dict(noted.autotuner.inductor_meta.get("config_args") or {})


def _with_resources(row: KernelBuild, build: NotedBuild, ptx: str) -> KernelBuild:
    """Fill in the resources as the driver reports them to torch. It does not report spills: without
    local memory there are none, otherwise ptxas computes them.
    """
    warps = build.options["num_warps"]
    warp_size = torch.cuda.get_device_properties(0).warp_size
    threads = warps * warp_size if isinstance(warps, int) else row.threads
    spill_bytes = build.local_bytes
    if spill_bytes > 0:
        spill_bytes = spilled_bytes(ptx)
    return replace(
        row,
        threads=threads,
        registers=build.registers,
        spill_bytes=spill_bytes,
        stack_bytes=build.local_bytes,
        shared_bytes=build.shared_bytes,
    )


def _toolchain() -> str:
    import triton

    return f"triton {triton.__version__}"
