"""These tests check marks as a diff on screen: what is shown, copied and written. The source of the
diff is that of tests/sessions.py.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from fx_explorer import model
from fx_explorer.model import Changes, Mark, Notice
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.tui.screens.source_edit import SourceEditScreen
from fx_explorer.tui.widgets.code_view import DiffView
from tests.exhaustive import in_exhaustive_runs
from tests.sessions import SOURCE, write_training_step
from tests.tui.conftest import OpenApp
from tests.tui.test_live_capture import FakeCapture, step
from tests.tui.test_stepping import AT_DYNAMO, messages

LINE = "        h = F.gelu(self.fc1(x))"


def marked(path: Path, *marks: Mark) -> Path:
    """A session with another variant, for which these regions were marked."""
    write_training_step(path)
    with SessionReader(path) as reader, SessionWriter(path) as writer:
        (first,) = reader.rows(model.Compilation)
        fields = {name: getattr(first, name) for name in model.Compilation.__slots__}
        changes = Changes(marks=marks).to_json()
        writer.add(
            model.Compilation(
                **{**fields, "id": 0, "name": "0/0~1", "variant_of": "0/0", "changes": changes}
            )
        )
    return path


async def test_a_mark_that_waits_at_a_gate_is_shown_as_a_diff(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        await driver.until(lambda: driver.explorer.reader)
        step(capture.session_path)
        capture.say(AT_DYNAMO)
        await driver.until(
            lambda: "paused after Dynamo" in driver.header and "One graph was made" in driver.facts
        )
        await driver.press("c", "e")
        assert "Nothing was marked by hand. Go to a node" in messages(driver)
        await driver.press(
            "2", "g", *"jjjjjj", "c", "m", "enter", *["backspace"] * 10, *"mlp", "enter"
        )
        capture.say(Notice("done", text="marked"))
        await driver.until(lambda: "paused after Dynamo" in driver.header)
        await driver.press("c", "e")
        assert isinstance(driver.app.screen, SourceEditScreen)
        assert (
            '+        with fx_traceback.annotate({"compile_with_inductor": {"inductor_region": "mlp"}}):'
            in driver.screen
        )
        assert f"+    {LINE}" in driver.screen
        capture.end()


@in_exhaustive_runs
async def test_the_diff_is_copied_and_written_to_a_file_that_applies(
    open_app: OpenApp, tmp_path: Path, copied: list[str]
) -> None:
    session = marked(tmp_path / "s.fxs", Mark("mlp", file="/p/mlp.py", first_line=7, last_line=7))
    async with open_app(session) as driver:
        await driver.press("c", "e", "y")
        await driver.press("s", "ctrl+u")
        await driver.paste(str(tmp_path / "marks.diff"))
        await driver.press("enter")
        written = (tmp_path / "marks.diff").read_text()
        assert copied == [written]
        (tmp_path / "mlp.py").write_text(SOURCE)
        subprocess.run(
            ["patch", "-p1", "-d", str(tmp_path), "-i", "marks.diff"],
            check=True,
            capture_output=True,
        )
        assert f"    {LINE}\n" in (tmp_path / "mlp.py").read_text()
        await driver.press("s", "ctrl+u")
        await driver.paste(str(tmp_path / "mlp.py"))
        await driver.press("enter")
        assert "already exists: nothing was written" in messages(driver)
        await driver.press("escape")
        assert not isinstance(driver.app.screen, SourceEditScreen)


async def test_what_has_no_edit_and_what_the_edit_does_beyond_the_marks_stands_above_it(
    open_app: OpenApp, tmp_path: Path
) -> None:
    session = marked(
        tmp_path / "s.fxs",
        Mark("g", nodes=("gelu",)),
        Mark("top", file="/p/mlp.py", first_line=1, last_line=2),
    )
    async with open_app(session, size=(120, 40)) as driver:
        await driver.press("c", "e")
        assert (
            'Region "g" will hold more than you marked, because its lines also compute fc1.'
            in driver.screen
        )
        assert 'Region "top" is not in the diff: lines 1 to 2 of' in driver.screen


async def test_a_diff_is_coloured_as_code_behind_its_signs(
    open_app: OpenApp, tmp_path: Path
) -> None:
    session = marked(tmp_path / "s.fxs", Mark("mlp", file="/p/mlp.py", first_line=7, last_line=7))
    async with open_app(session) as driver:
        await driver.press("c", "e")
        view = driver.app.screen.query_one(DiffView)
        lines = view.text.splitlines()
        added = next(i for i, line in enumerate(lines) if line.startswith("+        with"))
        assert list(view.line_tokens(added))[:1] == [("+", "good")]
        assert ("with", "keyword") in view.line_tokens(added)
        assert view.marks == {
            i for i, line in enumerate(lines) if line[:1] in "+-" and line[:3] not in ("+++", "---")
        }
