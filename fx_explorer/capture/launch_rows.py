"""What was noted of launches (kernel_launches.py) as rows: KernelBuild, KernelLaunch, and the texts below the Triton source.

An autotuner knows the file it was loaded from, and a Kernel its source: equal texts belong together. Where compilations share a
source, the one that torch says it was loaded for is taken.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from fx_explorer.capture.built_texts import file_named_in, machine_code_in, spilled_bytes, texts_in
from fx_explorer.capture.kernel_launches import NotedBuild, NotedKernel, Options
from fx_explorer.capture.recording import Recording
from fx_explorer.model import Artifact, Compilation, Kernel, KernelBuild, KernelLaunch
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.levels import add_level


def add_launch_rows(recording: Recording, notes: list[NotedKernel]) -> None:
    """Only kernels that the program launched: others are candidates of a choice that was lost."""
    with SessionReader(recording.writer.path) as reader:
        found = _KernelFinder(reader)
    launched = [(noted, kernel) for noted in notes if noted.launches and (kernel := found.kernel_of(noted))]
    rows = _Rows(recording.writer)
    for noted, kernel in launched:
        with recording.noting(f"how {kernel.name} was launched", "kernel"):
            rows.add(noted, kernel)
    if launched:
        recording.saw("kernel")


class _KernelFinder:
    def __init__(self, reader: SessionReader) -> None:
        self._names = {row.id: row.name for row in reader.rows(Compilation)}
        self._by_source: dict[str, list[Kernel]] = {}
        for kernel in reader.rows(Kernel, language="triton"):
            source = reader.text(reader.get(Artifact, kernel.artifact).text)
            self._by_source.setdefault(source.strip(), []).append(kernel)

    def kernel_of(self, noted: NotedKernel) -> Kernel | None:
        source = noted.source.strip()
        same = self._by_source.get(source) or self._with_function(source)
        return max(same, key=lambda kernel: self._likeness(kernel, noted), default=None)

    def _with_function(self, text: str) -> list[Kernel]:
        return next((kernels for source, kernels in self._by_source.items() if text and text in source), [])

    def _likeness(self, kernel: Kernel, noted: NotedKernel) -> int:
        is_same = self._names.get(kernel.compilation) == noted.compilation
        return 2 * is_same + ((kernel.direction == "backward") == noted.is_backward)


class _Rows:
    def __init__(self, writer: SessionWriter) -> None:
        self._writer = writer
        self._builds: dict[int, dict[Options, int]] = {}
        """Row of each configuration, by kernel: two autotuners of one kernel share them."""

    def add(self, noted: NotedKernel, kernel: Kernel) -> None:
        with self._writer.transaction():
            known = self._builds.setdefault(kernel.id, {})
            for key, build in noted.builds.items():
                if key not in known:
                    known[key] = self._add_build(noted, kernel, build, len(known), key == noted.picked)
            for launch in noted.launches.values():
                build_id = known.get(noted.picked, 0)
                self._writer.add(KernelLaunch(0, kernel.id, build_id, launch.grid, launch.count, launch.arguments))

    def _add_build(self, noted: NotedKernel, kernel: Kernel, build: NotedBuild, position: int, is_picked: bool) -> int:
        texts = texts_in(build.folder) if build.folder else {}
        row = KernelBuild(
            id=0,
            kernel=kernel.id,
            position=position,
            options={**_written(noted), **build.options},
            gpu=torch.cuda.get_device_name(noted.device),
            state="built" if build.folder else "failed",
            origin=build.origin,
            toolchain=_toolchain(),
            file=Path(noted.autotuner.filename or "").name or file_named_in(texts.get("ttir", "")),
            lines_before=LINES_BEFORE,
            timing_s=build.timing_s,
            is_picked=is_picked,
        )
        if not build.folder:
            return self._writer.add(replace(row, error=LEFT_OUT))
        levels = {str(level): add_level(self._writer, kernel, level, text) for level, text in texts.items()}
        code = machine_code_in(build.folder)
        row = _with_resources(row, build, texts.get("ptx", ""))
        return self._writer.add(replace(row, levels=levels, machine_code=self._writer.text(code) if code else 0))


LINES_BEFORE = 1
"""Inductor compiles a kernel together with the line feed that follows its quotes."""

LEFT_OUT = "Inductor left this configuration out: it could not be compiled or loaded on this GPU."


def _written(noted: NotedKernel) -> dict[str, object]:
    """A template has its block sizes in its source, not in its configuration."""
    return dict(noted.autotuner.inductor_meta.get("config_args") or {})


def _with_resources(row: KernelBuild, build: NotedBuild, ptx: str) -> KernelBuild:
    """As the driver told torch, but for spills: without local memory there are none, else ptxas has to say."""
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
