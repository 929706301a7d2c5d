"""This module measures one kernel of a session on this machine's GPU, in a process of its own. It
compares the speed with the speed measured of the same card and with the estimate.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fx_explorer.client.worker_process import WorkerProcess, next_line
from fx_explorer.errors import UsageError, WorkerError
from fx_explorer.instruments.kernels.gpu_limits import microseconds, number_kind, roofline
from fx_explorer.model import (
    Artifact,
    BenchAnswer,
    BenchRequest,
    CardCeiling,
    Gpu,
    Kernel,
    KernelBuild,
    KernelLaunch,
    KernelTime,
)
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.ownership import is_own_session

TIMEOUT_S = 300.0

LAST_WORDS = 10
"""Maximum number of lines of the process's output that are quoted when it dies."""

Told = Callable[[str], object]
"""A function that receives messages about what the process is doing."""


async def measure_kernel(
    session: Path,
    kernel: int,
    tell: Told = lambda activity: None,
    python: str = sys.executable,
    timeout_s: float = TIMEOUT_S,
) -> KernelTime:
    """Measure a kernel and store the result in the session, with the card's own speed unless the
    session has it. Raises UsageError when it cannot be measured here, WorkerError when the process
    died, SessionWriteError.
    """
    asked = BenchRequest(
        str(session), kernel, ceilings=not _has_ceilings(session), is_own=is_own_session(session)
    )
    answers, printed = _Answers(tell), _Printed()
    process = WorkerProcess(python, job="instruments.kernels.measure.kernel_bench")
    try:
        ended = await process.run(
            asked.to_json(),
            timeout_s,
            notices=answers.read,
            stdout=printed.read,
            stderr=printed.read,
        )
    except OSError as error:
        raise WorkerError(
            f"{python} cannot be started: {error}. Choose another interpreter with --python."
        ) from error
    bench_answer = answers.last
    if bench_answer.refused:
        raise UsageError(bench_answer.text)
    if bench_answer.time is None:
        raise WorkerError(_how_it_died(ended, process.stopped, timeout_s, printed.lines))
    return _kept(session, bench_answer.time, bench_answer.ceilings)


class _Answers:
    def __init__(self, tell: Told) -> None:
        self._tell = tell
        self.last = BenchAnswer()

    async def read(self, pipe: asyncio.StreamReader) -> None:
        async for line in pipe:
            self.last = BenchAnswer.from_json(line.decode())
            if self.last.time is None and not self.last.refused:
                self._tell(self.last.text)


class _Printed:
    def __init__(self) -> None:
        self.lines: list[str] = []

    async def read(self, pipe: asyncio.StreamReader) -> None:
        while line := await next_line(pipe):
            self.lines = [*self.lines, line.decode(errors="backslashreplace").rstrip()][
                -LAST_WORDS:
            ]


def _has_ceilings(session: Path) -> bool:
    with SessionReader(session) as reader:
        return reader.count(CardCeiling) > 0


def _how_it_died(ended: int, stopped: str, timeout_s: float, printed: list[str]) -> str:
    if stopped == "timed_out":
        return (
            f"The kernel was not measured within {timeout_s:.0f} s. Allow more time with --timeout."
        )
    how = f"signal {-ended}" if ended < 0 else f"exit status {ended}"
    return "\n".join(
        [f"The process that measured the kernel died ({how}). Its last output:", *printed]
    )


def _kept(session: Path, time: KernelTime, ceilings: tuple[CardCeiling, ...]) -> KernelTime:
    with SessionWriter(session) as writer, writer.transaction():
        writer.add_all(ceilings)
        return replace(time, id=writer.add(time))


# The speed of a measured kernel.


NO_BYTES = "Inductor gave no estimate of the bytes it moves, so there are no GB/s."
ZEROS = (
    "Its integer inputs were zeros: all indices point to one place, which makes reads faster and "
    "atomic adds slower than usual."
)
BY_EVENTS = (
    "It was timed by CUDA events, which include a launch of a few µs, because torch's profiler "
    "recorded nothing here."
)
COLD = (
    "Caches were emptied before each run; in a program, results of the previous kernel may still "
    "be cached."
)
TOO_SHORT = "It takes hardly longer than an empty kernel: most of its time is the launch."

INDEX_TYPES = ("int64", "int32")

HARDLY = 1.5
"""A kernel is short if it takes less than this multiple of an empty kernel's time."""


@dataclass(frozen=True, slots=True)
class KernelSpeed:
    kernel: Kernel
    time: KernelTime
    kind: str
    """The number type that its matrix units compute with; ``fp32`` when it does not use them."""
    ceilings: Mapping[str, CardCeiling]
    """Kind → ceiling of the card that it was measured on."""
    has_integers: bool = False
    """Whether integer tensors were among its arguments. They are zeros during the measurement."""

    @property
    def bytes_per_s(self) -> float:
        """Return the bytes moved per second; 0 when their number is not known."""
        return max(0, self.kernel.estimated_bytes) / self.time.median_s

    @property
    def flops_per_s(self) -> float:
        """Return the operations per second; 0 when no operations are counted."""
        return max(0, self.kernel.estimated_flops) / self.time.median_s

    @property
    def is_short(self) -> bool:
        return self.time.median_s < HARDLY * self.time.empty_s


def kernel_speed(reader: SessionReader, kernel: Kernel) -> KernelSpeed | None:
    """Return the measured speed of a kernel; None when it was never measured."""
    times = reader.rows(KernelTime, kernel=kernel.id)
    if not times:
        return None
    ceilings: dict[str, CardCeiling] = {
        row.kind: row for row in reader.rows(CardCeiling, device=times[-1].device)
    }
    launch = reader.get(KernelLaunch, times[-1].launch)
    has_integers = any(str(argument.get("dtype")) in INDEX_TYPES for argument in launch.arguments)
    return KernelSpeed(kernel, times[-1], _kind(reader, launch), ceilings, has_integers)


def _kind(reader: SessionReader, launch: KernelLaunch) -> str:
    if launch.build:
        level = reader.get(KernelBuild, launch.build).levels
    else:
        level = {}
    assembly = level.get("ptx") or level.get("amdgcn")
    if assembly:
        return number_kind(reader.text(reader.get(Artifact, assembly).text))
    return "fp32"


def describe_speed(speed: KernelSpeed, gpu: Gpu | None = None) -> list[str]:
    """Return one sentence per fact. ``gpu`` is the data sheet of the card it ran on, for the
    estimate.
    """
    time = speed.time
    lines = [
        f"{speed.kernel.name} on {time.device}: {microseconds(time.median_s)} (median of "
        f"{time.runs:,} runs, the middle half within {microseconds(time.iqr_s)})"
    ]
    if speed.bytes_per_s:
        share = _of_ceiling(speed, "memory", speed.bytes_per_s)
        lines.append(f"memory: {speed.bytes_per_s / 1e9:,.0f} GB/s{share}")
    else:
        lines.append(NO_BYTES)
    if speed.flops_per_s:
        share = _of_ceiling(speed, speed.kind, speed.flops_per_s)
        lines.append(f"arithmetic: {speed.flops_per_s / 1e12:,.1f} TFLOP/s{share}")
    if gpu and gpu.memory_bandwidth and speed.bytes_per_s:
        lines.append(_estimate(speed, gpu))
    if speed.is_short:
        lines.append(f"{TOO_SHORT} ({microseconds(time.empty_s)})")
    lines.append(COLD)
    if speed.has_integers:
        lines.append(ZEROS)
    if time.clock == "events":
        lines.append(BY_EVENTS)
    return lines


def _estimate(speed: KernelSpeed, gpu: Gpu) -> str:
    """Return the estimated time, and the measured time as a multiple of it."""
    kernel = speed.kernel
    bound = roofline(gpu, kernel.estimated_bytes, kernel.estimated_flops, speed.kind)
    if speed.is_short:
        ratio = ""
    else:
        ratio = f"; measured: {speed.time.median_s / bound.estimated_s:.2f} times that"
    if gpu.peak_flops:
        source = "the data sheet"
    else:
        source = "clock and bus of its memory"
    return f"estimate from {source}: {microseconds(bound.estimated_s)}{ratio}"


def _of_ceiling(speed: KernelSpeed, kind: str, rate: float) -> str:
    ceiling = speed.ceilings.get(kind)
    if ceiling is None:
        return ""
    if kind == "memory":
        most = f"{ceiling.rate / 1e9:,.0f} GB/s"
    else:
        most = f"{ceiling.rate / 1e12:,.1f} TFLOP/s of {kind}"
    return (
        f", {rate / ceiling.rate:.0%} of the {most} measured on this card ({ceiling.how})".replace(
            "%", " %", 1
        )
    )
