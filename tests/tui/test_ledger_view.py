"""Where the time of a call goes, on the screen. What measures is injected; its rows are read from the session."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fx_explorer.client.trust import remember_own
from fx_explorer.errors import UsageError
from fx_explorer.model import CaptureRequest, LedgerOperator, LedgerStep, Outcome
from fx_explorer.session import SessionWriter
from fx_explorer.trials.ledger import Ledger
from fx_explorer.tui.controllers.call_ledger import CallLedger
from tests.ledger.test_ledger_rows import CALL, US
from tests.sessions import write_training_step
from tests.tui.conftest import OpenApp

STEPS = (
    LedgerStep(0, 1, 0, "entry", "", "0/0", "", 0, "", 0, 60 * US, US),
    LedgerStep(0, 1, 1, "library", "extern_kernels.addmm", "0/0", "forward", 9, "", 0, 38 * US, US),
)

LEDGER = Ledger(CALL, STEPS, (LedgerOperator(0, 1, 0, "aten::linear", "forward", "/p/mlp.py", 7, 5 * US),), ())


def session_of(tmp_path: Path, ledger: Ledger | None = None, *, as_script: bool = False) -> Path:
    path = tmp_path / "s.fxs"
    write_training_step(path)
    with SessionWriter(path) as writer:
        writer.set_meta("request", dataclasses.asdict(CaptureRequest("mlp.py", "", as_script=as_script)))
        writer.set_meta("outcome", Outcome("finished").to_json())
        if ledger:
            writer.add(ledger.call)
            writer.add_all(ledger.steps)
            writer.add_all(ledger.operators)
    remember_own(path)
    return path


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_the_view_begins_with_the_answer_and_goes_down_to_every_step(
    open_app: OpenApp, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with open_app(session_of(tmp_path, LEDGER), size=size) as driver:
        await driver.press("0")
        await driver.until(lambda: "A call of Net takes 100 µs" in driver.screen)
        assert "entering torch.compile" in driver.screen
        await driver.press("end")
        await driver.until(lambda: "extern_kernels.addmm" in driver.screen)


async def test_a_view_without_a_ledger_says_how_to_make_one(open_app: OpenApp, tmp_path: Path) -> None:
    async with open_app(session_of(tmp_path), size=(80, 24)) as driver:
        await driver.press("0")
        await driver.until(lambda: "Press Q: the program is built" in driver.screen)


async def test_a_key_measures_and_the_ledger_comes_into_the_session(
    open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[CaptureRequest] = []

    async def account(request: CaptureRequest, tell: object) -> Ledger:
        asked.append(request)
        return LEDGER

    monkeypatch.setattr(CallLedger, "account", staticmethod(account))
    async with open_app(session_of(tmp_path), size=(120, 40)) as driver:
        await driver.press("Q")
        await driver.until(lambda: "A call of Net takes 100 µs" in driver.screen)
        assert [request.target for request in asked] == ["mlp.py"]


async def test_why_nothing_was_measured_is_told(open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def account(request: CaptureRequest, tell: object) -> Ledger:
        raise UsageError("the program raised: no such file")

    monkeypatch.setattr(CallLedger, "account", staticmethod(account))
    async with open_app(session_of(tmp_path), size=(120, 40)) as driver:
        await driver.press("Q")
        await driver.until(lambda: "the program raised: no such file" in driver.screen)


async def test_a_script_is_not_called_again(open_app: OpenApp, tmp_path: Path) -> None:
    async with open_app(session_of(tmp_path, as_script=True), size=(120, 40)) as driver:
        await driver.press("Q")
        await driver.until(lambda: "A script cannot be called again and again" in driver.screen)
