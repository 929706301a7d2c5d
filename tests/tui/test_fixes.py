"""These tests check fixes of a graph break in the app: listed, shown, tried by a fake trial,
written to a real file.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.whole_session import SessionFigures
from fx_explorer.errors import SessionWriteError
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.screen import FixScreen, measured, why_not_written
from fx_explorer.instruments.fixes.trial import Trial, Verdict
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionWriter
from fx_explorer.tui.widgets.code_view import DiffView
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.figures import figures
from tests.fixes import after
from tests.fixing.test_dynamic_marks import VARYING
from tests.tui.conftest import Driver, OpenApp
from tests.tui.test_stepping import messages

SOURCE = "import torch\n\n\ndef f(x):\n    print(x)\n    return x * 2\n"
WITHOUT_PRINT = "import torch\n\n\ndef f(x):\n    return x * 2\n"

FIGURES = figures(graph_breaks=1, graph_break_hits=1, graphs=2, operations=3, compile_s=1.0)
BETTER = replace(FIGURES, graph_breaks=0, graph_break_hits=0, graphs=1, compile_s=0.5)

TAKE_OUT = "move the print out"


def write_session(
    folder: Path,
    source: str = SOURCE,
    *,
    registry_id: str = "GB0059",
    request: bool = True,
    outcome: bool = True,
    hints: tuple[str, ...] = ("look at it",),
) -> Path:
    """A break at line 5 of ``m.py``, which is on disk too."""
    file = folder / "m.py"
    file.write_text(source)
    with SessionWriter(folder / "s.fxs") as writer:
        if request:
            writer.set_meta(
                "request",
                dataclasses.asdict(CaptureRequest(f"{file}:f", "", inputs="torch.ones(2)")),
            )
        if outcome:
            writer.set_meta("outcome", model.Outcome("finished").to_json())
        writer.add(model.SourceFile(0, str(file), writer.text(source), 6))
        writer.add(model.Compilation(0, "0/0", 0, 0, "f", str(file), 4, status="ok"))
        code = source.splitlines()[4].strip()
        writer.add(
            model.GraphBreak(0, 1, registry_id, "torch's reason", "", hints, str(file), 5, code)
        )
    return folder / "s.fxs"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return write_session(tmp_path)


class FakeTrials:
    """Ends each trial when the test says so."""

    def __init__(self) -> None:
        self.tried: list[tuple[CaptureRequest, Fix]] = []
        self.ending: asyncio.Future[tuple[Verdict, str]] = (
            asyncio.get_running_loop().create_future()
        )
        self.was_cancelled = False

    async def __call__(
        self, request: CaptureRequest, fix: Fix, before: SessionFigures, *_: object
    ) -> Trial:
        self.tried.append((request, fix))
        try:
            verdict, reason = await self.ending
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return Trial(fix, verdict, reason, FIGURES, BETTER, None, 3.0)


def ends_as(
    verdict: Verdict, reason: str
) -> Callable[[CaptureRequest, Fix, SessionFigures], Awaitable[Trial]]:
    async def trial(request: CaptureRequest, fix: Fix, before: SessionFigures, *_: object) -> Trial:
        return Trial(fix, verdict, reason, FIGURES, BETTER, None, 3.0)

    return trial


async def open_fixes(driver: Driver, title: str = "") -> FixScreen:
    """The screen of the fixes, with the cursor on the one with this title."""
    await driver.press("4", "x", "x")
    await driver.until(lambda: isinstance(driver.app.screen, FixScreen))
    screen = driver.app.screen
    assert isinstance(screen, FixScreen)
    await driver.settle()
    for _ in range(len(screen._fixes)):
        if title in screen._fix.title:
            break
        await driver.press("j")
    assert title in screen._fix.title
    return screen


@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40)]))
async def test_the_fixes_of_a_break_are_listed_with_the_diff_of_the_one_under_the_cursor(
    open_app: OpenApp, session: Path, size: tuple[int, int]
) -> None:
    async with open_app(session, size=size) as driver:
        screen = await open_fixes(driver, TAKE_OUT)
        assert "Fixes · m.py:5" in driver.screen
        assert driver.screen.count("not tried") == len(screen._offer.fixes)
        assert "-    print(x)" in driver.screen
        diff = screen.query_one(DiffView)
        removed = diff.text.splitlines().index("-    print(x)")
        assert removed in diff.marks
        assert next(iter(diff.line_tokens(removed))) == ("-", "bad")
        await driver.until(lambda: "r tries it" in driver.screen)
        await driver.press("escape")
        assert driver.explorer.view == "breaks"


async def test_a_good_fix_is_written_after_asking_and_the_old_file_is_kept(
    open_app: OpenApp, session: Path
) -> None:
    file = session.with_name("m.py")
    async with open_app(
        session, try_fix=ends_as("good", "1 break → 0; equal in 7 calls")
    ) as driver:
        await open_fixes(driver, TAKE_OUT)
        await driver.press("r")
        await driver.until(lambda: "✓ good: 1 break → 0; equal in 7 calls" in driver.screen)
        assert (
            "breaks 1 → 0 · graphs 2 → 1 · tried in 3 s · compiling 1.00 s → 0.50 s, one timing each"
            in driver.screen
        )
        await driver.press("s", "n")
        assert "Not written." in messages(driver)
        await driver.press("s", "enter")
        assert file.read_text() == SOURCE
        await driver.press("s", "y")
        assert file.read_text() == WITHOUT_PRINT
        assert file.with_name("m.py.orig").read_text() == SOURCE
        assert "backup of the original" in messages(driver)
        await driver.press("s", "y")
        assert "m.py has changed since it was captured" in messages(driver)
        assert not file.with_name("m.py.orig2").exists()
        await driver.press("escape", "x", "u")
        assert "Undo the fix in m.py?" in driver.screen
        await driver.press("y")
        assert file.read_text() == SOURCE
        assert not file.with_name("m.py.orig").exists()
        await driver.press("x", "u")
        assert "No fix has been written" in messages(driver)


async def test_a_fix_is_not_undone_in_a_file_that_was_edited_since(
    open_app: OpenApp, session: Path
) -> None:
    file = session.with_name("m.py")
    async with open_app(session, try_fix=ends_as("good", "1 break → 0")) as driver:
        await open_fixes(driver, TAKE_OUT)
        await driver.press("r")
        await driver.until(lambda: "✓ good" in driver.screen)
        await driver.press("s", "y")
        edited = file.read_text() + "# mine\n"
        file.write_text(edited)
        await driver.press("escape", "x", "u", "y")
        assert "has changed since the fix was written" in messages(driver)
        assert file.read_text() == edited
        assert file.with_name("m.py.orig").read_text() == SOURCE


async def test_what_prints_otherwise_is_written_only_when_the_user_takes_that(
    open_app: OpenApp, session: Path
) -> None:
    async with open_app(
        session, try_fix=ends_as("prints differ", "no longer printed: '1'")
    ) as driver:
        await open_fixes(driver, TAKE_OUT)
        await driver.press("r")
        await driver.until(lambda: "▲ prints differ: no longer printed: '1'" in driver.screen)
        await driver.press("s")
        assert "Prints differ. Write it to m.py:5?" in driver.screen
        await driver.press("y")
        assert session.with_name("m.py").read_text() == WITHOUT_PRINT


async def test_on_a_small_terminal_a_long_verdict_and_the_key_that_answers_can_be_read(
    open_app: OpenApp, session: Path
) -> None:
    reason = f"no longer printed: {'a number of words ' * 20}, to the last of them"
    async with open_app(session, try_fix=ends_as("prints differ", reason), size=(80, 24)) as driver:
        await open_fixes(driver, TAKE_OUT)
        await driver.press("r")
        await driver.until(lambda: "▲ prints differ: no longer" in driver.screen)
        assert "last of them" in " ".join(driver.screen.replace("│", " ").split())
        await driver.press("s")
        assert "y yes · n no" in driver.screen
        assert "is kept next to it (.orig)" in driver.screen


@in_exhaustive_runs
async def test_on_a_small_terminal_the_key_that_stops_a_trial_is_not_cut(
    open_app: OpenApp, session: Path
) -> None:
    async with open_app(session, try_fix=FakeTrials(), size=(80, 24)) as driver:
        await open_fixes(driver, TAKE_OUT)
        await driver.press("r")
        await driver.until(lambda: "esc stops the trial" in driver.screen)
        assert "tab diff" in driver.screen
        assert re.search(r"trying · \d+ s", driver.screen)
        await driver.press("escape", "y")
        await driver.until(lambda: "esc closes" in driver.screen)


@in_exhaustive_runs
async def test_the_key_that_writes_is_named_when_there_is_something_to_write(
    open_app: OpenApp, session: Path
) -> None:
    trials = FakeTrials()
    async with open_app(session, try_fix=trials) as driver:
        await open_fixes(driver, TAKE_OUT)
        await driver.until(lambda: "r tries it" in driver.screen)
        assert "s writes it" not in driver.screen
        await driver.press("r", "s")
        await driver.until(lambda: "It is being tried" in messages(driver))
        assert "s writes it" not in driver.screen
        trials.ending.set_result(("good", "1 break → 0"))
        await driver.until(lambda: "s writes it" in driver.screen)


@pytest.mark.parametrize("verdict", with_others(["refused"], ["not compared", "timed out"]))
async def test_what_was_refused_or_not_compared_or_not_tried_is_not_written(
    open_app: OpenApp, session: Path, verdict: Verdict
) -> None:
    async with open_app(session, try_fix=ends_as(verdict, "results differ: the output")) as driver:
        await open_fixes(driver, TAKE_OUT)
        await driver.press("s")
        assert "It has not been tried" in messages(driver)
        await driver.press("r")
        await driver.until(lambda: f"{verdict}: results differ: the output" in driver.screen)
        await driver.press("s")
        assert f"Not written: {verdict}, results differ: the output." in messages(driver)
        assert isinstance(driver.app.screen, FixScreen)
        assert session.with_name("m.py").read_text() == SOURCE


async def test_a_trial_is_told_while_it_runs_and_stopped_by_escape(
    open_app: OpenApp, session: Path
) -> None:
    trials = FakeTrials()
    async with open_app(session, try_fix=trials) as driver:
        await open_fixes(driver, TAKE_OUT)
        await driver.press("r")
        await driver.until(lambda: "being tried" in driver.screen)
        await driver.press("r")
        assert len(trials.tried) == 1
        assert after(trials.tried[0][1]) == WITHOUT_PRINT
        assert "A fix is being tried" in messages(driver)
        await driver.press("escape")
        assert "Stop the trial?" in driver.screen
        await driver.press("n")
        assert not trials.was_cancelled
        await driver.press("escape", "y")
        assert trials.was_cancelled
        assert "being tried" not in driver.screen.replace("A fix is being tried", "")
        assert isinstance(driver.app.screen, FixScreen)
        await driver.press("escape")
        assert not isinstance(driver.app.screen, FixScreen)


@in_exhaustive_runs
async def test_the_cursor_moves_while_a_trial_runs_and_the_verdict_goes_to_the_fix_it_is_of(
    open_app: OpenApp, session: Path
) -> None:
    trials = FakeTrials()
    async with open_app(session, try_fix=trials) as driver:
        screen = await open_fixes(driver, TAKE_OUT)
        row = screen._list.cursor
        await driver.press("r", "g")
        assert screen._list.cursor == 0 != row
        trials.ending.set_result(("good", "all is well"))
        await driver.until(lambda: "✓ good" in driver.screen)
        assert "all is well" not in driver.screen
        assert screen._list.cursor == 0
        await driver.press(*"j" * row)
        assert "✓ good: all is well" in driver.screen


async def test_all_good_fixes_are_tried_and_written_as_one(
    open_app: OpenApp, tmp_path: Path
) -> None:
    source = SOURCE.replace("    return", "    print(x.shape)\n    return")
    session = write_session(tmp_path, source)
    with SessionWriter(session) as writer:
        file = str(tmp_path / "m.py")
        writer.add(
            model.GraphBreak(0, 1, "GB0059", "torch's reason", "", (), file, 6, "print(x.shape)")
        )
    async with open_app(session, try_fix=ends_as("good", "all is well")) as driver:
        screen = await open_fixes(driver, "all good fixes together")
        assert "One good fix for each of the 2 breaks" in driver.screen
        await driver.press("r")
        await driver.until(lambda: "In one go:" in driver.screen)
        titles = [trial.fix.title for trial in screen._trials]
        assert titles == ["let torch do the print after the graph"] * 2 + [
            "all good fixes together"
        ]
        assert "Trying first: let torch do the print after the graph (line 6)" in messages(driver)
        await driver.press("s", "y")
        written = (tmp_path / "m.py").read_text()
        assert written.count("reorderable_logging_functions.add(print)") == 1
        assert "print(str(x.shape))" in written


async def test_a_function_that_was_left_to_python_has_its_fixes_too(
    open_app: OpenApp, tmp_path: Path
) -> None:
    session = write_session(tmp_path)
    with SessionWriter(session) as writer:
        file = str(tmp_path / "m.py")
        writer.add(model.Fallback(0, 0, "skipped", "f", file, 5, "GB0059", "it prints"))
        writer.add(
            model.Fallback(
                0, 0, "skipped", "f", file, 6, "GB0000", "nobody knows", "", ("look there",)
            )
        )
    async with open_app(session) as driver:
        await driver.press("4", "j", "x", "x")
        await driver.until(lambda: isinstance(driver.app.screen, FixScreen))
        await driver.until(lambda: "move the print out" in driver.screen)
        await driver.press("escape", "j", "x", "x")
        await driver.until(
            lambda: "No fix is known for this. torch suggests: look there" in messages(driver)
        )


@in_exhaustive_runs
async def test_a_mark_changes_no_file(
    open_app: OpenApp, captured: Callable[..., Path], tmp_path: Path
) -> None:
    file = tmp_path / "varying.py"
    file.write_text(VARYING.format(condition="False"))
    async with open_app(
        captured(file), try_fix=ends_as("good", "tried, 4 compilations → 3")
    ) as driver:
        await driver.press("4", "x", "x")
        await driver.until(lambda: isinstance(driver.app.screen, FixScreen))
        await driver.until(lambda: "mark all changing sizes as dynamic" in driver.screen)
        assert "+torch._dynamo.mark_dynamic(x, 0)" in driver.screen
        await driver.press("r")
        await driver.until(lambda: "✓ good: tried, 4 compilations → 3" in driver.screen)
        await driver.press("s")
        assert "This changes no file: mark it in your program" in messages(driver)


async def test_a_single_break_has_no_row_for_all(open_app: OpenApp, session: Path) -> None:
    async with open_app(session) as driver:
        screen = await open_fixes(driver)
        assert "all good fixes together" not in driver.screen
        assert len(screen._fixes) == len(screen._offer.fixes)


@in_exhaustive_runs
async def test_a_verdict_is_still_there_when_the_fixes_are_opened_again(
    open_app: OpenApp, session: Path
) -> None:
    async with open_app(session, try_fix=ends_as("good", "all is well")) as driver:
        await open_fixes(driver, TAKE_OUT)
        await driver.press("r")
        await driver.until(lambda: "✓ good" in driver.screen)
        await driver.press("q")
        await open_fixes(driver, TAKE_OUT)
        assert "✓ good: all is well" in driver.screen
        assert driver.screen.count("✓ good") == 2  # in its row, and told


@in_exhaustive_runs
async def test_a_trial_that_cannot_be_made_says_why_and_can_be_made_again(
    open_app: OpenApp, session: Path
) -> None:
    async def no_room(
        request: CaptureRequest, fix: Fix, before: SessionFigures, *_: object
    ) -> Trial:
        raise SessionWriteError("no space left on the disk")

    async with open_app(session, try_fix=no_room) as driver:
        await open_fixes(driver)
        await driver.press("r")
        await driver.until(lambda: "no space left on the disk" in messages(driver))
        assert "being tried" not in driver.screen


async def test_options_are_shown_and_copied_as_lines_and_change_no_file(
    open_app: OpenApp, tmp_path: Path, copied: list[str]
) -> None:
    session = write_session(
        tmp_path, SOURCE.replace("print(x)", "s = x.sum().item()"), registry_id="GB0124"
    )
    async with open_app(session, try_fix=ends_as("good", "fewer")) as driver:
        screen = await open_fixes(driver, "put the number into the graph")
        assert "+torch._dynamo.config.capture_scalar_outputs = True" in driver.screen
        await driver.press("y", "r", "s")
        assert copied == [screen._fix.instruction]
        assert "This fix changes no file" in messages(driver)
        await driver.press("g", "y")
        assert copied[1] == screen._fix.diff != ""


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        ({"request": False}, "does not record how it was captured"),
        ({"outcome": False}, "The capture has not ended"),
    ],
)
async def test_a_session_that_cannot_be_tried_shows_its_fixes_and_says_why(
    open_app: OpenApp, tmp_path: Path, lacks: dict[str, bool], said: str
) -> None:
    async with open_app(write_session(tmp_path, **lacks), try_fix=ends_as("good", "")) as driver:
        await open_fixes(driver, TAKE_OUT)
        assert "-    print(x)" in driver.screen
        await driver.press("r")
        assert said in messages(driver)
        assert "✓ good" not in driver.screen


@in_exhaustive_runs
async def test_a_saved_session_without_its_target_says_so_when_a_fix_is_tried(
    open_app: OpenApp, session: Path
) -> None:
    session.with_name("m.py").unlink()
    async with open_app(session, try_fix=ends_as("good", "")) as driver:
        await open_fixes(driver, TAKE_OUT)
        await driver.press("r")
        assert "m.py is not here" in messages(driver)


async def test_a_session_with_another_variant_is_not_tried_as_its_breaks_count_twice(
    open_app: OpenApp, session: Path
) -> None:
    with SessionWriter(session) as writer:
        writer.add(
            model.Compilation(0, "0/0~1", 0, 0, "f", "m.py", 4, status="ok", variant_of="0/0")
        )
    async with open_app(session, try_fix=ends_as("good", "")) as driver:
        await open_fixes(driver)
        await driver.press("r")
        assert "whose breaks count twice" in messages(driver)


async def test_a_break_without_a_fix_and_a_view_without_a_break_say_why(
    open_app: OpenApp, tmp_path: Path, session: Path
) -> None:
    with SessionWriter(tmp_path / "none.fxs") as writer:
        writer.add(model.GraphBreak(0, 0, "", "why", "", (), "<string>", 1, "x"))
    async with open_app(tmp_path / "none.fxs") as driver:
        await driver.press("x", "x")
        await driver.until(lambda: "code created with exec: no file to edit" in messages(driver))
        assert driver.explorer.view == "breaks"
    with SessionWriter(tmp_path / "whole.fxs") as writer:
        writer.set_meta("outcome", model.Outcome("finished").to_json())
    async with open_app(tmp_path / "whole.fxs") as driver:
        await driver.press("x", "x")
        await driver.until(lambda: "There are no graph breaks to fix" in messages(driver))


def test_a_trial_that_did_not_get_through_has_no_figures_after() -> None:
    trial = Trial(Fix("t", "w"), "refused", "it raises", FIGURES, None, None, 2.0)
    assert measured(trial) == "tried in 2 s"
    assert (
        why_not_written(trial.fix, trial)
        == "Not written: refused, it raises. The diff can be copied."
    )


WITH_ITEM = "import torch\n\n\ndef f(x):\n    n = x.sum().item()\n    return x * n\n"
SCALARS_HINT = "Set torch._dynamo.config.capture_scalar_outputs = True."


@in_exhaustive_runs
async def test_a_hint_of_torchs_says_how_the_trial_of_its_option_ended(
    open_app: OpenApp, tmp_path: Path
) -> None:
    session = write_session(tmp_path, WITH_ITEM, registry_id="GB0124", hints=(SCALARS_HINT, "Look"))
    refused = ends_as("refused", "the break stays")
    async with open_app(session, try_fix=refused) as driver:
        await driver.press("4")
        assert "torch's hints" in driver.screen
        assert "Tried here" not in driver.screen
        await open_fixes(driver, "put the number into the graph")
        await driver.press("r")
        await driver.until(lambda: "refused" in driver.screen)
        await driver.press("escape")
        lines = driver.screen.splitlines()
        at = next(row for row, line in enumerate(lines) if "capture_scalar_outputs = True" in line)
        tried = "Tried here with capture_scalar_outputs: ✗ refused: the break stays"
        assert tried in lines[at + 1]
        assert "Look" in lines[at + 2]


@in_exhaustive_runs
async def test_the_step_of_a_trials_worker_is_shown_while_it_runs(
    open_app: OpenApp, session: Path
) -> None:
    goes_on = asyncio.Event()

    async def trial(
        request: CaptureRequest, fix: Fix, before: SessionFigures, tell: Callable[[str], object]
    ) -> Trial:
        tell("importing torch")
        await goes_on.wait()
        tell("Inductor is fusing [0/0]")
        await asyncio.Event().wait()
        raise AssertionError

    async with open_app(session, try_fix=trial) as driver:
        await open_fixes(driver, TAKE_OUT)
        await driver.press("r")
        await driver.until(lambda: "importing torch" in driver.screen)
        goes_on.set()
        await driver.until(lambda: "Inductor is fusing [0/0]" in driver.screen)


@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40), (200, 50)]))
async def test_nothing_of_the_screen_behind_is_seen_beside_the_dialog(
    open_app: OpenApp, session: Path, size: tuple[int, int]
) -> None:
    async with open_app(session, size=size) as driver:
        await open_fixes(driver)
        rows = [row for row in driver.screen.splitlines() if row.lstrip().startswith("│")]
        assert len(rows) > 10
        assert all(row.startswith("│") and row.endswith("│") for row in rows), driver.screen


async def test_a_trial_shows_its_planned_step_and_how_long_earlier_ones_took(
    open_app: OpenApp, session: Path
) -> None:
    ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def trial(
        request: CaptureRequest, fix: Fix, before: SessionFigures, tell: Callable[[str], object]
    ) -> Trial:
        tell("step 4 of 4 · building kernel 3 of 19")
        await ending
        return Trial(fix, "refused", "the break stays", FIGURES, BETTER, None, 65.0)

    async with open_app(session, try_fix=trial, size=(80, 24)) as driver:
        await open_fixes(driver, TAKE_OUT)
        await driver.press("r")
        await driver.until(lambda: "step 4 of 4 · building kernel 3 of 19" in driver.screen)
        assert "earlier ones took" not in driver.screen
        assert "tab diff" in driver.screen
        ending.set_result(None)
        await driver.until(lambda: "✗ refused" in driver.screen)
        assert "building kernel" not in driver.screen
        ending = asyncio.get_running_loop().create_future()
        await driver.press("r")
        await driver.until(lambda: "earlier ones took 1:05" in driver.screen)
        ending.set_result(None)


async def test_a_fix_that_works_where_it_was_compared_is_no_warning(
    open_app: OpenApp, session: Path
) -> None:
    """What was not compared stands in a line of its own, below the verdict."""
    reason = "1 break → 0; equal in 7 calls; not compared: open files; not tried: other dtypes"
    async with open_app(session, try_fix=ends_as("good where compared", reason)) as driver:
        await open_fixes(driver, TAKE_OUT)
        await driver.press("r")
        await driver.until(lambda: "✓ good where compared" in driver.screen)
        lines = [line.strip(" │") for line in driver.screen.splitlines()]
        assert "✓ good where compared: 1 break → 0; equal in 7 calls" in lines
        assert "Not compared: open files" in lines
        assert "Not tried: other dtypes" in lines
        await driver.press("s")
        assert "All that could be compared is equal. Write it" in driver.screen
