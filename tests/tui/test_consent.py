"""These tests open in the app a session that this user did not capture here: before any of its code
is run, the user is asked once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer import model
from tests.analysis.kernel_ir.built_sessions import write_kernel
from tests.analysis.kernel_ir.samples import Sample, sample
from tests.tui.conftest import Driver, OpenApp
from tests.tui.test_below import FakeBuilds


class Started(FakeBuilds):
    """Knows for which GPUs it was started."""

    def __init__(self, one: Sample) -> None:
        super().__init__(one)
        self.made: list[str] = []


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    return write_kernel(tmp_path / "s.fxs", sample("h100_softmax"), built=False, own=False).path


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Started:
    fake = Started(sample("h100_softmax"))
    fake.gate.set()

    def make(gpu: model.Gpu, python: str) -> FakeBuilds:
        fake.made.append(gpu.name)
        return fake

    monkeypatch.setattr(
        "fx_explorer.tui.controllers.kernel_builds.KernelBuilds.make_builds",
        staticmethod(make),
    )
    return fake


def is_asked(driver: Driver) -> bool:
    return "You did not capture this session" in driver.screen


def shows(driver: Driver, text: str) -> Callable[[], bool]:
    return lambda: text in driver.screen


async def test_a_strangers_kernel_is_compiled_only_after_asking(
    open_app: OpenApp, stranger: Path, builds: Started
) -> None:
    async with open_app(stranger, size=(200, 50), trusts_sessions=False) as driver:
        assert not builds.made, "opening starts no compiler"
        await driver.press("p", "k")
        await driver.until(lambda: is_asked(driver))
        assert "no Python from the session runs" in " ".join(
            driver.screen.replace("│", " ").split()
        )
        await driver.press("enter")
        await driver.until(shows(driver, "You did not allow"))
        assert not builds.asked
        assert not builds.made
        await driver.press("p", "k")
        await driver.until(lambda: is_asked(driver))
        await driver.press("y")
        await driver.until(lambda: builds.answered)
        await driver.until(lambda: not is_asked(driver))


async def test_ones_own_session_is_not_asked_about(
    open_app: OpenApp, tmp_path: Path, builds: Started
) -> None:
    own = write_kernel(tmp_path / "own.fxs", sample("h100_softmax"), built=False).path
    async with open_app(own, size=(200, 50), trusts_sessions=False) as driver:
        await driver.until(lambda: builds.made)
        await driver.press("p", "k")
        await driver.until(lambda: builds.answered)
        assert not is_asked(driver)
