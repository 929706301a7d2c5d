"""These tests open an ExportedProgram in the app: it is loaded only when the user has agreed."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from fx_explorer.cli import main
from fx_explorer.tui.app import ExplorerApp
from tests.exhaustive import with_others
from tests.pt2.programs import save_relu
from tests.sessions import write_training_step
from tests.tui.conftest import Driver, OpenApp
from tests.tui.test_live_capture import FakeCapture

SIZES = with_others([(80, 24)], [(120, 40)])


class Made:
    """Makes captures, and counts them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.captures: list[FakeCapture] = []

    def __call__(self) -> FakeCapture:
        self.captures.append(
            FakeCapture(self._folder / f"{len(self.captures)}.fxs", write_training_step)
        )
        return self.captures[-1]


def words(driver: Driver) -> str:
    return " ".join(driver.screen.replace("│", " ").split())


def asks(driver: Driver) -> bool:
    return "Load this program?" in driver.screen


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("key", with_others(["n"], ["enter", "escape"]))
async def test_nothing_is_loaded_before_the_user_agrees(
    open_app: OpenApp, tmp_path: Path, key: str, size: tuple[int, int]
) -> None:
    made = Made(tmp_path)
    program = Path("models") / "net.pt2"
    async with open_app(
        size=size,
        make_capture=made,
        target=str(program),
        asks_to_load=program,
        trusts_sessions=False,
    ) as driver:
        await driver.until(lambda: asks(driver))
        assert (
            "models/net.pt2 is an ExportedProgram. Loading an ExportedProgram can run code from "
            "its author"
        ) in words(driver)
        assert "y yes" in driver.screen
        await driver.until(lambda: driver.header.endswith("waits for your answer"))
        await driver.press(key)
        await driver.until(
            lambda: (
                not asks(driver)
                and "You did not allow loading net.pt2. r asks again" in driver.header
            )
        )
        assert "Starting" not in driver.screen
        assert not made.captures

        await driver.press("r")
        await driver.until(lambda: asks(driver))
        await driver.press("y")
        await driver.until(lambda: made.captures)
        made.captures[0].end()
        await driver.until(lambda: "✓ captured" in driver.header)


async def test_who_agreed_is_not_asked_again(open_app: OpenApp, tmp_path: Path) -> None:
    made = Made(tmp_path)
    async with open_app(
        make_capture=made, target="net.pt2", asks_to_load=Path("net.pt2"), trusts_sessions=False
    ) as driver:
        await driver.until(lambda: asks(driver))
        await driver.press("y")
        await driver.until(lambda: made.captures)
        made.captures[0].end()
        await driver.until(lambda: "✓ captured" in driver.header)
        await driver.press("r")
        await driver.until(lambda: len(made.captures) == 2)
        assert not asks(driver)
        made.captures[1].end()
        await driver.until(lambda: "✓ captured" in driver.header)


@pytest.mark.parametrize("trusts", [False, True])
def test_on_a_terminal_the_app_asks_and_with_trust_it_does_not(
    trusts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the app is given, and the request of the capture that it would make."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown: list[ExplorerApp] = []
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setattr("sys.__stderr__", Terminal())
    monkeypatch.setattr(ExplorerApp, "run", lambda app: shown.append(app))
    program = save_relu(tmp_path / "net.bin")
    assert main([str(program), *(["--trust"] if trusts else [])]) == 0
    (app,) = shown
    assert app.controllers.capturing.asks_to_load == (None if trusts else program)
    capture = app.captures._make_capture
    assert capture is not None
    assert capture().request.trusts_target  # type: ignore[attr-defined]
