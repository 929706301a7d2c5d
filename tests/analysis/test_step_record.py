"""These tests move about in a record of bytecode steps. The record is written by hand below: every
answer can be read off it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.step_record import (
    Move,
    StepRecord,
    StepValue,
    ending,
    happening,
    locals_of,
    moved,
    read_record,
    stack_of,
)
from fx_explorer.session import SessionReader, SessionWriter

GRAPH, RESUME = "__compiled_fn_1", "torch_dynamo_resume_in_f_at_4"

STEPS = [
    # call, parent, line of the listing, calls
    (1, 0, 2, ""),
    (1, 0, 3, GRAPH),
    (1, 0, 5, ""),
    (1, 0, 6, RESUME),
    (2, 1, 2, ""),
    (2, 1, 3, "__compiled_fn_2"),
    (2, 1, 5, ""),
    (1, 0, 7, ""),
]
LINES = {2: 10, 3: 10, 5: 12, 6: 12, 7: 12}
"""Of both listings: line → line of the source."""


@pytest.fixture
def reader(tmp_path: Path) -> SessionReader:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        for artifact in (1, 2):
            writer.add_all(
                model.LineSource(artifact, line, 1, source) for line, source in LINES.items()
            )
        old = writer.add(model.BytecodeRun(0, "()", "stopped", 1))
        writer.add(model.BytecodeStep(0, old, 1, 0, "old", 1, 1, 0))
        run = writer.add(model.BytecodeRun(0, "(f32[3])", "returned", len(STEPS)))
        for i, (call, parent, line, calls) in enumerate(STEPS):
            variables = writer.text(
                json.dumps({"x": "f32[3] cpu", "i": str(i // 2)} if i < 3 else {"x": "f32[3] cpu"})
            )
            changed = ("i",) if i in (2, 3) else ()
            writer.add(
                model.BytecodeStep(
                    0, run, call, parent, "f", call, line, 2 * i, stack=("NULL", str(i)), locals=variables, changed=changed,
                    calls=calls,
                )
            )  # fmt: skip
    return SessionReader(tmp_path / "s.fxs")


@pytest.fixture
def record(reader: SessionReader) -> StepRecord:
    found = read_record(reader)
    assert found
    return found


def test_the_last_run_is_read(record: StepRecord) -> None:
    assert record.run.inputs == "(f32[3])"
    assert [(s.call, s.parent, s.line, s.calls) for s in record.steps] == STEPS


def test_a_session_without_steps_has_no_record(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "e.fxs") as writer:
        writer.add(model.BytecodeRun(0, "()"))
    with SessionReader(tmp_path / "e.fxs") as reader:
        assert read_record(reader) is None


@pytest.mark.parametrize(
    ("move", "leads"),
    [
        ("forward", [1, 2, 3, 4, 5, 6, 7, None]),
        ("back", [None, 0, 1, 2, 3, 4, 5, 6]),
        (
            "next_line",
            [2, 2, None, None, 6, 6, 7, None],
        ),  # out of the resume function into its caller
        ("line_before", [None, None, 1, 1, 3, 3, 5, 1]),
        ("into", [4, 4, 4, 4, None, None, None, None]),
        ("out", [None, None, None, None, 7, 7, 7, None]),
        ("caller", [None, None, None, None, 3, 3, 3, None]),
        ("next_graph", [1, 5, 5, 5, 5, None, None, None]),
        ("graph_before", [None, None, 1, 1, 1, 1, 5, 5]),
        ("first", [0] * 8),
        ("last", [7] * 8),
    ],
)
def test_where_each_move_leads(record: StepRecord, move: Move, leads: list[int | None]) -> None:
    assert [moved(record, at, move) for at in range(len(STEPS))] == leads


@pytest.mark.parametrize(("there", "back"), [("forward", "back"), ("into", "caller")])
def test_a_step_back_undoes_a_step(record: StepRecord, there: Move, back: Move) -> None:
    at = 3
    to = moved(record, at, there)
    assert to is not None
    assert moved(record, to, back) == at


def test_what_a_step_calls_is_said_in_plain_words(record: StepRecord) -> None:
    said = [happening(record, at) for at in range(len(STEPS))]
    assert said[1] == f"calls the compiled graph {GRAPH}"
    assert said[3] == "calls rest of f after line 4"
    assert said[0] == ""


def test_values_say_what_they_were_and_what_is_gone(
    reader: SessionReader, record: StepRecord
) -> None:
    assert stack_of(record, 1) == [
        StepValue("[1]", "1", False, was="0"),
        StepValue("[0]", "NULL", False),
    ]
    assert locals_of(reader, record, 2) == [
        StepValue("x", "f32[3] cpu", False),
        StepValue("i", "1", True, was="0"),
    ]
    assert locals_of(reader, record, 3)[-1] == StepValue("i", "1", True, is_gone=True)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (model.BytecodeRun(1, "", "returned", 3), "The call returned."),
        (
            model.BytecodeRun(1, "", "raised", 3, "It raised KeyError: 'a'."),
            "It raised KeyError: 'a'.",
        ),
        (
            model.BytecodeRun(1, "", "limit", 10_000),
            "The limit of 10,000 steps is reached: the program continued unrecorded.",
        ),
        (model.BytecodeRun(1, "", "", 0), "The worker ended here."),
    ],
)
def test_behind_the_last_step_it_is_said_how_the_call_ended(
    run: model.BytecodeRun, said: str
) -> None:
    assert ending(run) == said
