"""These tests try another choice at a decision from the app. What the trial came to is injected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.client.session_files import copy_session, session_file
from fx_explorer.instruments.decisions.other_choices import OtherChoice
from fx_explorer.instruments.diff.screen import CompareScreen
from fx_explorer.model import CaptureRequest, Outcome
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.ownership import remember_session
from fx_explorer.trials import Told, TrialWorker
from fx_explorer.tui.controllers.variants import Variants
from fx_explorer.tui.dialogs.choose import Chooser
from fx_explorer.variant_trials import VariantTrial
from tests.tui.conftest import Driver, OpenApp
from tests.tui.test_stepping import messages

CHOOSING = Path(__file__).parents[1] / "decisions" / "choosing_cpu.py"

SAME = "Inductor wrote the same code with it."


class FakeTrials:
    """Compiles nothing: a trial came to a variant, or to the same code."""

    def __init__(self, session: Path, *, is_same: bool = False) -> None:
        self._session = session
        self._is_same = is_same
        self.asked: list[OtherChoice] = []

    async def __call__(
        self,
        request: CaptureRequest,
        kernel: tuple[str, model.Direction],
        choice: OtherChoice,
        worker: TrialWorker,
        *,
        tell: Told,
        folder: Path,
    ) -> VariantTrial:
        self.asked.append(choice)
        path = folder / "again.fxs"
        copy_session(self._session, session_file(path))
        with SessionReader(path) as reader:
            (original,) = reader.rows(model.Compilation)
        variant = replace(
            original,
            id=0,
            name=f"{original.name}~1",
            variant_of=original.name,
            variant_from="post_grad",
            changes=choice.changes.to_json(),
        )
        with SessionWriter(path) as writer:
            writer.add(variant)
        refused = SAME if self._is_same else ""
        outcome = Outcome("finished")
        return VariantTrial(
            outcome, refused, None, None, "", 1.0, path, original.name, variant.name
        )


@pytest.fixture
def session(captured, tmp_path: Path) -> Path:
    copy = tmp_path / "s.fxs"
    copy_session(captured(f"{CHOOSING}:convolved"), session_file(copy))
    remember_session(copy)
    return copy


async def ask_at_row(driver: Driver, words: str) -> None:
    """Ask for another choice at the first decision with these words."""
    await driver.press("v", "z")
    await driver.until(lambda: words in driver.screen)
    rows = [line for line in driver.screen.splitlines() if " cpp_" in line or " extern_" in line]
    for _ in range(next(i for i, row in enumerate(rows) if words in row)):
        await driver.press("down")
    await driver.press("c", "z")


async def test_another_layout_is_tried_and_compared(
    session: Path, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = FakeTrials(session)
    monkeypatch.setattr(Variants, "try_choice", staticmethod(trials))
    async with open_app(session, size=(160, 50)) as driver:
        await ask_at_row(driver, "copied")
        await driver.until(lambda: isinstance(driver.app.screen, Chooser))
        assert "x in channels_last" in driver.screen, "the user's name of the input"
        assert "layout_optimization = False" in driver.screen
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, CompareScreen))
        await driver.until(lambda: "in channels_last" in driver.screen)
        assert trials.asked[0].changes.layouts[0].order == (3, 0, 2, 1)
        await driver.press("escape")
        await driver.until(lambda: driver.app.screen is driver.explorer)


async def test_the_same_code_is_told(
    session: Path, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Variants, "try_choice", staticmethod(FakeTrials(session, is_same=True)))
    async with open_app(session, size=(160, 50)) as driver:
        await ask_at_row(driver, "copied")
        await driver.until(lambda: isinstance(driver.app.screen, Chooser))
        await driver.press("enter")
        await driver.until(lambda: SAME in messages(driver))
        assert driver.app.screen is driver.explorer


async def test_where_there_is_no_other_candidate_it_is_said(
    session: Path, open_app: OpenApp
) -> None:
    async with open_app(session, size=(160, 50)) as driver:
        await ask_at_row(driver, "autotuning off")
        await driver.until(lambda: "no other candidate on this CPU" in messages(driver))
