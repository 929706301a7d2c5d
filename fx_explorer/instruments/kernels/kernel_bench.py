"""One kernel of a session measured on the GPU of this machine, by a process of its own that ends
when it is through.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fx_explorer.client.process import WorkerProcess, next_line
from fx_explorer.client.trust import is_own
from fx_explorer.errors import UsageError, WorkerError
from fx_explorer.model import BenchAnswer, BenchRequest, CardCeiling, KernelTime
from fx_explorer.session import SessionReader, SessionWriter

TIMEOUT_S = 300.0

LAST_WORDS = 10
"""Lines of its output that are told when it dies."""

Told = Callable[[str], object]
"""Hears what the process is doing."""


async def measure_kernel(
    session: Path,
    kernel: int,
    tell: Told = lambda activity: None,
    python: str = sys.executable,
    timeout_s: float = TIMEOUT_S,
) -> KernelTime:
    """Measure a kernel and keep the result in the session, with what was measured of the card
    unless it is there already. Raises UsageError when it cannot be measured here, WorkerError when
    the process died, SessionWriteError.
    """
    asked = BenchRequest(
        str(session), kernel, ceilings=not _has_ceilings(session), is_own=is_own(session)
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
            f"The kernel was not measured within {timeout_s:.0f} s. Give it longer with --timeout."
        )
    how = f"signal {-ended}" if ended < 0 else f"exit status {ended}"
    return "\n".join(
        [f"The process that measured the kernel died ({how}). The last it said:", *printed]
    )


def _kept(session: Path, time: KernelTime, ceilings: tuple[CardCeiling, ...]) -> KernelTime:
    with SessionWriter(session) as writer, writer.transaction():
        writer.add_all(ceilings)
        return replace(time, id=writer.add(time))
