"""These tests check the views of guards and of dynamic sizes, as data and by keys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.instruments.guards.view import guards_table
from fx_explorer.model import Command, Notice
from fx_explorer.overview.graph_tables import sizes_table
from fx_explorer.session import SessionReader, SessionWriter
from tests.tui.conftest import OpenApp
from tests.tui.test_live_capture import FakeCapture, step

SOURCE = "import torch\n\n\ndef f(x, flag):\n    return x * 2 if flag else x\n"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "s.fxs"
    with SessionWriter(path) as writer:
        writer.set_meta("outcome", model.Outcome("finished").to_json())
        writer.add(model.SourceFile(0, "/p/f.py", writer.text(SOURCE), 5))
        writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/f.py", 4, status="ok"))
        guard = writer.add(model.Guard(0, 1, 0, "TENSOR_MATCH", "L['x']", "", ""))
        at = {"file": "/p/f.py", "line": 5}
        writer.add(
            model.GuardCheck(
                0,
                1,
                guard,
                0,
                "LENGTH_CHECK",
                "L['x']",
                "argument",
                "len(L['x']) == 4",
                cost_ns=60.0,
                **at,
            )  # type: ignore[arg-type]
        )
        writer.add(
            model.GuardCheck(
                0,
                1,
                0,
                1,
                "TRUE_MATCH",
                "L['flag']",
                "argument",
                "L['flag'] == True",
                value="True",
                **at,
            )  # type: ignore[arg-type]
        )
        writer.add(
            model.GuardCheck(
                0, 1, 0, 2, "GLOBAL_STATE", "", "state", "___check_global_state()", cost_ns=300.0
            )
        )
        writer.add(model.Metric(0, 1, "guard_check_ns", "1500.0"))
        reason = "tensor 'x' size mismatch at index 0. expected 4, actual 8"
        writer.add(model.GuardAnswer(0, 1, "torch.ones(8)", 1, "rejected", reason, 1, "/p/f.py", 5))
        source = "L['x'].size()[0]"
        writer.add(
            model.Symbol(0, 1, "s77", source, "4", "[2, int_oo]", 0, (source,), "[8, 8]", "8")
        )
        writer.add(model.SymbolEvent(0, 1, "specialized", ("s77",), "8", "why", "/p/f.py", 5))
    return path


def test_checks_cost_no_more_than_the_tree_that_they_are_in(session: Path) -> None:
    with SessionWriter(session) as writer:
        (metric,) = SessionReader(session).rows(model.Metric, name="guard_check_ns")
        writer.update(replace(metric, value="180.0"))  # the checks alone take twice that
    with SessionReader(session) as reader:
        table = guards_table(reader)
        costs = [row.cells[4] for row in table.rows if row.cells[1].startswith("▾")]
    assert costs == ["not measured", "30 ns", "150 ns"]
    assert table.notice.startswith("3 checks for the 1 guard that Dynamo made, 180 ns a call.")
    assert ". Most expensive: settings of torch (150 ns)" in table.notice


def test_checks_stand_below_what_they_look_at(session: Path) -> None:
    with SessionReader(session) as reader:
        table = guards_table(reader)
        assert [row.cells[1].strip() for row in table.rows] == [
            "? torch.ones(8)",
            "▾ argument flag",
            "flag",
            "▾ argument x",
            "x",
            "▾ settings of torch",
            "setting",
        ]
        assert table.notice == (
            "3 checks for the 1 guard that Dynamo made, 1.5 µs a call. Most expensive: "
            "settings of torch (300 ns) and argument x (60 ns)."
        )


def test_a_check_says_whether_it_can_fail_and_what_it_is_in_the_example(session: Path) -> None:
    with SessionReader(session) as reader:
        flag = next(row for row in guards_table(reader).rows if row.cells[1] == "  flag")
        assert flag.cells[3:6] == ("inputs", "not measured", "f.py:5")
        assert flag.place
        assert flag.place.line == 4
        text = flag.detail().text  # type: ignore[misc]
        assert "flag: is True, which is True in the example inputs" in text
        assert "can fail with other inputs: it comes with the call" in text


def test_what_other_inputs_were_told_leads_to_the_line_of_the_check_that_fails(
    session: Path,
) -> None:
    with SessionReader(session) as reader:
        answer = guards_table(reader).rows[0]
        assert answer.cells[2] == "would recompile: size 0 of x was 4 and now is 8"
        assert answer.cells[5] == "f.py:5"
        assert "tensor 'x' size mismatch" in answer.detail().text  # type: ignore[misc]


def test_a_session_without_checks_shows_its_guards(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/f.py", 4, status="ok"))
        writer.add(model.Guard(0, 1, 0, "TENSOR_MATCH", "L['x']", "check", ""))
        with SessionReader(tmp_path / "s.fxs") as reader:
            (row,) = guards_table(reader).rows
    assert row.cells[1] == "L['x']"
    assert row.cells[4] == "not measured"


def test_a_size_that_was_fixed_says_by_which_line(session: Path) -> None:
    with SessionReader(session) as reader:
        table = sizes_table(reader)
        (row,) = table.rows
    assert row.cells[1:5] == ("size 0 of x", "4", "specialized to 8", "f.py:5")
    assert row.cells[-1] == "s77"
    assert "1 could have, and torch specialized it, size 0 of x at f.py:5" in table.notice


async def test_the_guards_are_narrowed_while_one_types(open_app: OpenApp, session: Path) -> None:
    async with open_app(session) as driver:
        await driver.press("5", "v", "f", "f", "l", "a", "g")
        assert "▾ argument flag" in driver.screen
        assert "▾ argument x" not in driver.screen
        await driver.press("enter")
        assert "Only checks with: flag." in driver.screen
        assert "▾ settings of torch" not in driver.screen
        await driver.press("v", "f", "escape")
        assert "▾ settings of torch" in driver.screen


async def test_other_inputs_are_asked_about_in_the_words_of_the_user(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        capture.say(Notice("gate", state="begin"))
        await driver.until(lambda: "other inputs" in driver.screen)
        await driver.press("c", "i")
        assert "Would other inputs fit?" in driver.screen
        await driver.press("enter")
        assert capture.sent == [Command("what_if")]  # as it stands there: twice the batch
        capture.say(Notice("done", text="[0/0] would be reused: all its guards hold"))
        await driver.until(lambda: "all its guards hold" in driver.screen)
        await driver.press("c", "i")
        await driver.press("escape")
        await driver.press("c", "i")
        await driver.press("1", "enter")
        assert capture.sent[1:] == [Command("what_if", expression="1")]
