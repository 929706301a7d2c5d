"""This module collects the facts about one kernel on one GPU, in plain words first: its least time,
its resources, its instructions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.words import counted, listed, seconds, size
from fx_explorer.instruments.kernels.candidates import estimate, instruction_mix, occupancy_of
from fx_explorer.instruments.kernels.gpu_limits import (
    UNKNOWN_RUN_TIME,
    Roofline,
    describe_bound,
    describe_occupancy,
    microseconds,
)
from fx_explorer.instruments.kernels.instructions import COUNTED_ONCE, InstructionMix, describe_mix
from fx_explorer.model import Gpu, KernelBuild
from fx_explorer.session import SessionReader

CACHED = "taken from the cache on disk"
ESTIMATED = "The minimum time that the GPU allows, next to the measured time."


@dataclass(frozen=True, slots=True)
class KernelFact:
    label: str
    text: str
    note: str = ""
    """Where the fact comes from, or a limit of it."""


def kernel_facts(
    reader: SessionReader, kernel: model.Kernel, gpu: Gpu, build: KernelBuild | None
) -> list[KernelFact]:
    """Return the facts about a kernel. ``build`` is one configuration; with None, facts that need a
    build are left out.
    """
    note = ESTIMATED if build and build.timing_s else UNKNOWN_RUN_TIME
    facts = [*_time(gpu, kernel, estimate(reader, kernel, gpu, build), note)]
    if build is None:
        return facts
    if build.timing_s:
        facts.append(
            KernelFact(
                "measured", microseconds(build.timing_s), "by Inductor's autotuner, on the GPU"
            )
        )
    if build.has_resources:
        facts += _resources(gpu, build)
        found = instruction_mix(reader, build)
        facts += _instructions(found) if found else []
        facts.append(KernelFact("compiled", _compiled(build)))
    return facts


def in_short(
    reader: SessionReader, kernel: model.Kernel, gpu: Gpu, build: KernelBuild | None
) -> list[str]:
    """Return the facts in short for one line: ``at least 0.15 µs a call (estimate)``, ``24
    registers``, ``100 % occupancy``.
    """
    roofline = estimate(reader, kernel, gpu, build)
    if roofline.estimated_s:
        least = microseconds(roofline.estimated_s)
        parts = [f"at least {least} a call (estimate){_bound_in_short(roofline)}"]
    else:
        parts = []
    if build is None or not build.has_resources:
        return parts
    room = occupancy_of(build, gpu)
    occupancy = f"{100 * room.share:.0f} % occupancy" if room else ""
    return [*parts, counted(build.registers, "register"), _spills(build), occupancy]


def _bound_in_short(roofline: Roofline) -> str:
    if roofline.bound == "unknown":
        return ""
    return f", {describe_bound(roofline)}"


def _time(gpu: Gpu, kernel: model.Kernel, roofline: Roofline, note: str) -> Iterator[KernelFact]:
    if not roofline.estimated_s:
        yield KernelFact("time", roofline.notes[0])
        return
    at = f"{microseconds(roofline.memory_s)} at {_rate(gpu.memory_bandwidth)}B/s"
    moved = f"reads and writes {size(kernel.estimated_bytes)}: {at}"
    computed = ""
    if roofline.arithmetic_s:
        peak = gpu.peak_flops[roofline.kind]
        computed = (
            f"; computes {_rate(kernel.estimated_flops)}FLOP: "
            f"{microseconds(roofline.arithmetic_s)} at "
        )
        computed += f"{_rate(peak)}FLOP/s of {roofline.kind}"
    yield KernelFact("time", f"{moved}{computed}, an estimate{_bound(roofline)}", note)
    if roofline.intensity and roofline.ridge:
        text = (
            f"{roofline.intensity:,.1f} operations a byte; from {roofline.ridge:,.0f} on, "
            "arithmetic is the limit"
        )
        yield KernelFact("intensity", text, roofline.notes[-1])


def _bound(roofline: Roofline) -> str:
    if roofline.bound == "unknown":
        return f". {roofline.notes[1]}"
    return f"; {describe_bound(roofline)}"


def _rate(number: float) -> str:
    """Return ``3.35 T``, ``989 T`` or ``12.6 G``."""
    for scale, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if number >= scale:
            return f"{number / scale:.3g} {unit}"
    return f"{number:,.0f} "


def _resources(gpu: Gpu, build: KernelBuild) -> Iterator[KernelFact]:
    if build.registers >= 0:
        registers = f"{counted(build.registers, 'register')} of {gpu.registers_per_thread} a thread"
    else:
        registers = ""
    if build.shared_bytes > 0:
        shared = f"{size(build.shared_bytes)} of shared memory a block"
    else:
        shared = "no shared memory"
    threads = f"{counted(build.threads, 'thread')} a block"
    yield KernelFact(
        "resources",
        ", ".join(part for part in (registers, _spills(build), shared, threads) if part),
    )
    room = occupancy_of(build, gpu)
    if room:
        yield KernelFact(
            "occupancy",
            describe_occupancy(room),
            "computed from registers, shared memory and warps",
        )


def _spills(build: KernelBuild) -> str:
    if build.spill_bytes < 0:
        return ""
    if build.spill_bytes:
        return f"{size(build.spill_bytes)} of registers spilled"
    return "no spills"


def _instructions(counts: InstructionMix) -> Iterator[KernelFact]:
    yield KernelFact("instructions", describe_mix(counts), COUNTED_ONCE)
    kinds = [
        f"{count} {kind} ({listed(counts.names[kind], 2)})"
        for kind, count in counts.by_kind.items()
    ]
    yield KernelFact("kinds", ", ".join(kinds))


def _compiled(build: KernelBuild) -> str:
    if build.duration_s < 0:  # nobody says
        return f"by {build.toolchain or 'Triton'}"
    took = f"in {seconds(build.duration_s)}" if build.duration_s else CACHED
    if build.toolchain:
        return f"by {build.toolchain}, {took}"
    return took
