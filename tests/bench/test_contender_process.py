"""These tests check how the client of a bench uses the messages from the process of a cell."""

from __future__ import annotations

import asyncio
import sys

import pytest

from fx_explorer.client.worker_process import WorkerProcess
from fx_explorer.instruments.bench.contender_process import CellFailed, ContenderProcess
from fx_explorer.model import BenchNews


async def answered(*lines: bytes) -> BenchNews:
    """Return the news of a process that has printed these lines, and is still running."""
    contender = ContenderProcess(
        WorkerProcess(sys.executable, {}), timeout_s=20, tell=lambda doing: None
    )
    contender._ended = asyncio.create_task(asyncio.sleep(60, result=0))
    pipe = asyncio.StreamReader()
    pipe.feed_data(b"".join(lines))
    pipe.feed_eof()
    try:
        await contender._read(pipe)
        return await contender.answer()
    finally:
        contender._ended.cancel()


async def test_an_answer_is_read() -> None:
    said = BenchNews("work", work_s=1e-6)
    assert await answered(said.to_json().encode() + b"\n") == said


@pytest.mark.parametrize(
    "line",
    [b'{"kind": "work", "work_s": "soon"}\n', b"no JSON\n", b'{"kind": "work", "unknown": 1}\n'],
)
async def test_an_answer_that_cannot_be_read_ends_the_cell_and_is_not_waited_for(
    line: bytes,
) -> None:
    with pytest.raises(CellFailed, match="its answer cannot be read"):
        await answered(line)
