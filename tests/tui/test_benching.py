"""These tests measure one kernel from the keyboard. The measurement is injected; a session of a
real GPU is written by hand.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import torch

from fx_explorer.errors import UsageError
from fx_explorer.model import KernelTime
from fx_explorer.session import SessionWriter
from fx_explorer.tui.controllers.measurements import Measurements, Progress
from tests.tui.conftest import OpenApp
from tests.tui.test_below_on_a_real_gpu import session
from tests.tui.test_stepping import messages

__all__ = ["session"]


async def test_a_kernel_is_measured_and_told(
    session: Path, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def measure(path: Path, kernel: int, tell: Progress, python: str) -> KernelTime:
        time = KernelTime(0, kernel, 1, {}, "NVIDIA H200", 2e-6, 1e-7, 400, 1e-6)
        with SessionWriter(path) as writer:
            writer.add(time)
        return time

    monkeypatch.setattr(Measurements, "measure_kernel", staticmethod(measure))
    async with open_app(session, size=(120, 40)) as driver:
        await driver.press("6", "x", "k")
        await driver.until(lambda: "2.00 µs (median of 400 runs" in messages(driver))
        await driver.press("i")
        await driver.until(lambda: "alone" in driver.screen)


async def test_escape_stops_it(
    session: Path, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled = asyncio.Event()

    async def measure(path: Path, kernel: int, tell: Progress, python: str) -> KernelTime:
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            cancelled.set()

    monkeypatch.setattr(Measurements, "measure_kernel", staticmethod(measure))
    async with open_app(session, size=(120, 40)) as driver:
        await driver.press("6", "x", "k")
        await driver.until(lambda: "esc stops it" in driver.header)
        await driver.press("escape")
        assert not cancelled.is_set()
        await driver.press("y")
        await driver.until(lambda: cancelled.is_set())
        await driver.until(lambda: "Stopped: the kernel was not measured." in messages(driver))


async def test_why_it_is_refused_is_told(
    session: Path, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def measure(path: Path, kernel: int, tell: Progress, python: str) -> KernelTime:
        raise UsageError("finds no GPU here can use")

    monkeypatch.setattr(Measurements, "measure_kernel", staticmethod(measure))
    async with open_app(session, size=(80, 24)) as driver:
        await driver.press("6", "x", "k")
        await driver.until(lambda: "finds no GPU here" in messages(driver))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, so nothing is refused")
async def test_without_a_gpu_there_is_nothing_to_measure_on(
    session: Path, open_app: OpenApp
) -> None:
    async with open_app(session, size=(80, 24)) as driver:
        await driver.press("6", "x", "k")
        await driver.until(lambda: "not measured" in driver.screen)
