"""These tests check that a session of a real GPU has every level except SASS, which is made when a
pane shows it.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from fx_explorer.errors import WorkerError
from fx_explorer.instruments.kernels import builder_pool
from fx_explorer.model import CaptureRequest, KernelBuild, KernelLaunch
from fx_explorer.session import SessionReader, SessionWriter
from tests.analysis.kernel_ir.built_sessions import write_kernel
from tests.analysis.kernel_ir.samples import sample
from tests.tui.conftest import Driver, OpenApp

CUBIN = "Y3ViaW4="


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "real.fxs"
    written = write_kernel(path, sample("h100_softmax"))
    with SessionReader(path) as reader, SessionWriter(path) as writer:
        [row] = reader.rows(KernelBuild)
        levels = {level: artifact for level, artifact in row.levels.items() if level != "sass"}
        code = writer.text(CUBIN)
        writer.update(
            replace(
                row,
                gpu="NVIDIA H200",
                levels=levels,
                is_picked=True,
                timing_s=1e-5,
                machine_code=code,
            )
        )
        writer.add(KernelLaunch(0, written.kernel, row.id, (64, 1, 1), 1, ()))
        writer.set_meta("request", asdict(CaptureRequest("m.py", "", build=True)))
    return path


def shown(driver: Driver, slot: str) -> str:
    return next(pane.body.text for pane in driver.panes if pane.slot == slot)


async def test_sass_is_made_when_it_is_looked_at(
    session: Path, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    def disassembled(cubin: bytes, python: str) -> str:
        asked.append(cubin)
        return sample("h100_softmax").levels["sass"]

    monkeypatch.setattr(builder_pool, "disassembled", disassembled)
    async with open_app(session, size=(240, 50)) as driver:
        await driver.press("6", "p", "k")
        await driver.until(lambda: "HFMA2" in shown(driver, "sass"))
        assert "ld.global" in shown(driver, "ptx")
    assert asked == [b"cubin"]
    with SessionReader(session) as reader:
        assert "sass" in reader.rows(KernelBuild)[0].levels, "kept for the next time"


async def test_why_there_is_no_sass_is_told_in_its_pane(
    session: Path, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    def disassembled(cubin: bytes, python: str) -> str:
        asked.append(cubin)
        raise WorkerError("SASS needs nvdisasm")

    monkeypatch.setattr(builder_pool, "disassembled", disassembled)
    async with open_app(session, size=(240, 50)) as driver:
        await driver.press("6", "p", "k")
        await driver.until(lambda: asked)
        await driver.settle()
        assert "ld.global" in shown(driver, "ptx")
        await driver.until(lambda: "SASS needs nvdisasm" in driver.screen)
        assert len(asked) < 5, "not again and again"
