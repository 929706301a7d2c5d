"""These tests step through Dynamo's trace by keys, in a session that is written by hand. Expected
values can be read off ``write_trace`` below.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.dynamo_trace import TracePoint, moved, read_trace, state_at
from fx_explorer.instruments.trace.view import NOTHING_TRACED, trace_table
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.tui.screens.help import Help
from fx_explorer.tui.screens.trace_screen import LINES_ONLY, TraceScreen
from tests.exhaustive import with_others
from tests.sessions import write_training_step
from tests.tui.conftest import Driver, OpenApp

BREAK = "graph break: Call to print"

STEPS: list[dict[str, object]] = [
    {"call": 1, "line": 6, "kind": "call", "instruction": "RESUME 0", "is_whole": True,
     "changed": {"x": "tensor f32[4, 8] from the argument x"}},
    {"call": 1, "line": 7, "kind": "instruction", "instruction": "LOAD_FAST x",
     "starts_line": True},
    {"call": 1, "line": 7, "kind": "instruction", "instruction": "CALL 1",
     "pushed": ("function \x1b[31mgelu", "tensor f32[4, 8] from the argument x"),
     "guards": ("TENSOR_MATCH x",), "guard_count": 1},
    {"call": 2, "line": 2, "kind": "call", "instruction": "RESUME 0", "is_whole": True,
     "starts_line": True, "changed": {"inner": "number 3, guarded"}},
    {"call": 2, "line": 3, "kind": "instruction", "instruction": "RETURN_VALUE",
     "starts_line": True, "node_count": 1, "changed": {"inner": ""}},
    {"call": 1, "line": 7, "kind": "back"},
    {"call": 1, "line": 8, "kind": "instruction", "instruction": "STORE_FAST h",
     "starts_line": True, "popped": 2, "pushed": ("tensor f32[4, 8], node gelu",)},
    {"call": 1, "line": 8, "kind": "graph", "event": BREAK},
]  # fmt: skip
"""The steps of the last attempt; the one before has the first three, and is discarded."""


def write_trace(path: Path, *, instructions: bool = True) -> None:
    write_training_step(path)
    with SessionWriter(path) as writer:
        for number, steps in ((1, STEPS[:3]), (2, STEPS)):
            row = model.TraceAttempt(0, 1, number, "MLP.forward", has_instructions=instructions)
            trace = writer.add(row)
            writer.add(model.TracedCall(0, trace, 1, 0, 0, "MLP.forward", 1, 6, ended="returned"))
            if number == 2:
                writer.add(model.TracedCall(0, trace, 2, 1, 7, "helper", 1, 2, ended="returned"))
                writer.add(model.TracedNode(0, trace, 4, "gelu"))
            for position, step in enumerate(steps):
                fields = dict(step)
                if not instructions:
                    for name in ("instruction", "pushed", "popped", "changed", "is_whole"):
                        fields.pop(name, None)
                writer.add(model.TraceStep(0, trace, position, **fields))  # type: ignore[arg-type]
            discarded = {"ended": "restarted", "reason": "Call to print", "nodes": 0, "guards": 1}
            ended = discarded if number == 1 else {"ended": "traced", "nodes": 1, "guards": 1}
            writer.update(
                model.TraceAttempt(
                    trace, 1, number, "MLP.forward", steps=len(steps),
                    has_instructions=instructions, **ended,  # type: ignore[arg-type]
                )
            )  # fmt: skip


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    path = tmp_path / "s.fxs"
    write_trace(path)
    return path


def shown(driver: Driver) -> TraceScreen:
    assert isinstance(driver.app.screen, TraceScreen)
    return driver.app.screen


def test_moves_between_lines_calls_and_attempts(traced: Path) -> None:
    with SessionReader(traced) as reader:
        record = read_trace(reader)
        assert record is not None
        last = TracePoint(1, len(STEPS) - 1)
        expected = {
            ("forward", 0, 2): TracePoint(1, 0),
            ("back", 1, 0): TracePoint(0, 2),
            ("next_line", 1, 2): TracePoint(1, 6),
            ("line_before", 1, 6): TracePoint(1, 5),
            ("line_before", 1, 1): TracePoint(1, 0),
            ("into", 1, 0): TracePoint(1, 3),
            ("into", 1, 6): None,
            ("out", 1, 3): TracePoint(1, 5),
            ("out", 1, 1): None,
            ("caller", 1, 4): TracePoint(1, 2),
            ("caller", 1, 2): None,
            ("next_graph", 0, 0): TracePoint(1, 4),
            ("next_graph", 1, 4): last,
            ("next_graph", 1, 7): None,
            ("graph_before", 1, 7): TracePoint(1, 4),
            ("first", 1, 4): TracePoint(0, 0),
            ("last", 0, 0): last,
            ("back", 0, 0): None,
            ("forward", 1, 7): None,
        }
        for (move, attempt, step), to in expected.items():
            assert moved(record, TracePoint(attempt, step), move) == to, (move, attempt, step)  # type: ignore[arg-type]


def test_state_is_what_the_differences_add_up_to(traced: Path) -> None:
    with SessionReader(traced) as reader:
        record = read_trace(reader)
        assert record is not None
        attempt = record.attempt(1)
        at_call = state_at(attempt, 2)
        assert at_call is not None
        assert [value.text for value in at_call.stack] == [
            "tensor f32[4, 8] from the argument x",
            "function \x1b[31mgelu",
        ]
        assert [(value.name, value.is_changed) for value in at_call.locals] == [("x", False)]
        gone = state_at(attempt, 4)
        assert gone is not None
        assert [(value.name, value.is_gone) for value in gone.locals] == [("inner", True)]
        later = state_at(attempt, 6)
        assert later is not None
        assert [value.text for value in later.stack] == ["tensor f32[4, 8], node gelu"]
        assert state_at(attempt, 5) == at_call  # the call is not over: its state is the last one


def test_a_tree_has_lines_and_the_calls_inlined_there(traced: Path) -> None:
    with SessionReader(traced) as reader:
        table = trace_table(reader)
    assert table.tree is not None
    names = [name.partition("  ")[0] for name in table.tree.names]
    assert names == ["[0/0] MLP.forward", "7", "helper", "3", "8"]
    assert list(table.tree.depths) == [0, 1, 2, 3, 1]
    assert table.rows[0].cells[1] == "traced twice: Call to print"
    assert table.rows[-1].cells[1] == BREAK
    assert table.answer.startswith("Dynamo traced 1 function, inlined 1 call and made 1 node")


def test_nothing_traced_says_so(tmp_path: Path) -> None:
    path = tmp_path / "s.fxs"
    write_training_step(path)
    with SessionReader(path) as reader:
        assert read_trace(reader) is None
        assert trace_table(reader).empty == NOTHING_TRACED
    with SessionWriter(path) as writer:
        reason = "Dynamo's trace, line by line: torch 9 does not offer what this is read from"
        writer.add(model.Failure(0, 0, "recorder", None, "unavailable", reason))
    with SessionReader(path) as reader:
        assert trace_table(reader).empty == reason


def test_a_circle_of_calls_ends(tmp_path: Path) -> None:
    path = tmp_path / "s.fxs"
    write_trace(path)
    with SessionWriter(path) as writer:
        trace = writer.add(model.TraceAttempt(0, 1, 3, "f", "traced", steps=2))
        writer.add(model.TracedCall(0, trace, 1, 2, 1, "f", 1, 1))
        writer.add(model.TracedCall(0, trace, 2, 1, 1, "g", 99, 1))
        writer.add(model.TraceStep(0, trace, 0, 1, 1, "line"))
        writer.add(model.TraceStep(0, trace, 1, 7, 1, "line", popped=3))
    with SessionReader(path) as reader:
        assert trace_table(reader).rows
        record = read_trace(reader)
        assert record is not None
        for move in ("forward", "next_line", "into", "out", "caller", "next_graph"):
            moved(record, TracePoint(2, 0), move)  # type: ignore[arg-type]
            moved(record, TracePoint(2, 1), move)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40), (200, 50)]))
async def test_each_step_shows_line_graph_and_state(
    traced: Path, open_app: OpenApp, size: tuple[int, int]
) -> None:
    async with open_app(traced, size=size) as driver:
        await driver.press("c", "d")
        assert "step 1 of 3 · [0/0] attempt 1, discarded later · MLP.forward" in driver.screen
        await driver.press("G")
        assert "step 8 of 8 · [0/0] attempt 2 · MLP.forward" in driver.screen
        assert BREAK in driver.screen
        await driver.press("N")
        assert "MLP.forward › helper" in driver.screen
        assert "gelu" in driver.screen
        assert "gone" in driver.screen
        await driver.press("b")
        assert "CALL 1" in driver.screen
        assert "TENSOR_MATCH x" in driver.screen
        assert "\x1b[31m" not in driver.screen
        await driver.press("enter")
        assert shown(driver).point == TracePoint(1, 3)
        await driver.press("B")
        assert "back from helper" in driver.screen
        await driver.press("question_mark")
        assert isinstance(driver.app.screen, Help)
        await driver.press("escape", "escape")
        assert not isinstance(driver.app.screen, TraceScreen)


async def test_steps_by_line_say_how_to_record_more(tmp_path: Path, open_app: OpenApp) -> None:
    path = tmp_path / "s.fxs"
    write_trace(path, instructions=False)
    async with open_app(path, size=(120, 40)) as driver:
        await driver.press("v", "d")
        assert "traced twice: Call to print" in driver.screen
        await driver.press("G", "c", "d")
        assert shown(driver).point == TracePoint(1, 6)
        assert LINES_ONLY in driver.screen


async def test_the_view_opens_at_the_line_that_the_source_was_left_on(
    traced: Path, open_app: OpenApp
) -> None:
    async with open_app(traced) as driver:
        await driver.press("2", "g", *["j"] * 6)
        line = driver.explorer.place.line
        await driver.press("v", "d")
        table = driver.explorer.views.table
        await driver.until(lambda: table.position > 0)
        assert driver.explorer.place.line == line == 6


async def test_a_find_unfolds_the_rows_of_a_tree(traced: Path, open_app: OpenApp) -> None:
    async with open_app(traced) as driver:
        await driver.press("v", "d", "left", "left")
        assert "helper" not in driver.screen
        await driver.press("slash", *"helper", "enter")
        assert "helper" in driver.screen
