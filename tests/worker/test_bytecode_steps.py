"""These tests check that a worker calls the target once more to record its bytecode, and that the
program does not notice.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.capture.dynamo.bytecode_steps import A_SCRIPT
from fx_explorer.model import BytecodeRun, BytecodeStep, Command
from fx_explorer.session import SessionReader
from tests.exhaustive import in_exhaustive_runs
from tests.worker.capturing import capture
from tests.worker.driving import converse

pytest.importorskip("torch._dynamo.bytecode_debugger", reason="this release has none")
pytestmark = pytest.mark.usefixtures("warm_workers")

PROGRAM = """
import os
import random

import torch

HERE = os.path.dirname(__file__)
COUNT = 0


@torch.compiler.disable
def look(net, x):
    global COUNT
    COUNT += 1
    net.calls += 1
    with open(f"{HERE}/log", "a") as log:
        drawn = float(torch.rand(1)), random.random()
        log.write(f"{int(net.seen)} {net.calls} {COUNT} {float(x.sum())} {drawn}\\n")
    x.add_(1)
    if os.path.exists(f"{HERE}/loop"):
        print("looping")
        while True:
            pass
    if os.path.exists(f"{HERE}/exit"):
        os._exit(7)
    if os.path.exists(f"{HERE}/raise"):
        raise ValueError("too large")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))
        self.calls = 0

    def forward(self, x):
        y = x + 1
        self.seen += 1
        look(self, x)
        return y * 2


model = Net()
example_inputs = (torch.ones(4),)
"""

STEPS = Command("steps")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "net.py"
    file.write_text(PROGRAM)
    return file


def log(program: Path) -> list[str]:
    return (program.parent / "log").read_text().splitlines()


async def test_it_is_recorded_at_the_pause_and_at_the_end_each_time_from_the_same_state(
    program: Path,
) -> None:
    found = await converse(program, [STEPS, Command("go"), STEPS], pause="dynamo")
    assert [one.kind for one in found.answers] == ["done"] * 3
    assert found.gates == ["dynamo", "end"]
    assert [run.ended for run in found.runs] == ["returned"] * 2
    assert found.runs[0].steps == found.runs[1].steps > 0
    assert found.answers[0].text.startswith(
        f"{found.runs[0].steps} steps of Dynamo's bytecode recorded."
    )
    assert "The first call wrote to its inputs" in found.runs[0].said
    first, *again = log(program)
    assert first.startswith("1 1 1 4.0 ")
    assert len(again) == 2
    assert again[0] == again[1], "the second recording began as the first did"
    assert again[0].startswith("2 2 2 8.0 "), (
        "the inputs are as the first call left them, and a copy of them"
    )
    assert len({row.name for row in found.compilations}) == len(found.compilations) == 2, (
        "nothing was compiled for it"
    )


async def test_what_the_user_stops_is_kept_and_the_worker_goes_on(program: Path) -> None:
    flag = program.parent / "loop"

    def looping() -> Command:
        flag.touch()
        return STEPS

    def no_more() -> Command:
        flag.unlink()
        return STEPS

    found = await converse(program, [looping, no_more], send_while_busy=Command("abort"))
    assert [one.kind for one in found.answers] == ["refused", "done"]
    assert found.answers[0].text == "Stopped, as you asked."
    assert [run.ended for run in found.runs] == ["stopped", "returned"]
    assert 0 < found.runs[0].steps < found.runs[1].steps
    assert found.outcome.kind == "finished"


@in_exhaustive_runs
async def test_at_a_gate_of_one_graph_it_is_too_early(program: Path) -> None:
    found = await converse(program, [STEPS], pause="step")
    assert found.answers[0].kind == "refused"
    assert "once the program has ended" in found.answers[0].text


async def test_without_a_screen_it_is_asked_for_with_the_capture(program: Path) -> None:
    output = program.with_suffix(".fxs")
    ended = await capture(program, output, record_bytecode=True)
    assert ended.outcome.kind == "finished"
    assert ended.failures == []
    with SessionReader(output) as reader:
        (run,) = reader.rows(BytecodeRun)
        assert reader.count(BytecodeStep) == run.steps > 0
    assert any("steps of Dynamo's bytecode recorded" in notice.text for notice in ended.notices)
    assert log(program)[1].startswith("2 2 2 4.0 "), (
        "with the inputs as they were before the first call"
    )


@in_exhaustive_runs
async def test_a_program_that_raised_is_recorded_up_to_its_error(program: Path) -> None:
    (program.parent / "raise").touch()
    output = program.with_suffix(".fxs")
    ended = await capture(program, output, record_bytecode=True)
    assert ended.outcome.kind == "raised"
    with SessionReader(output) as reader:
        (run,) = reader.rows(BytecodeRun)
        assert run.ended == "raised"
        assert run.said.startswith("It raised ValueError: too large.")
        assert {step.error for step in reader.rows(BytecodeStep, kind="raised")} == {
            "ValueError: too large"
        }


async def test_a_call_that_ends_the_process_is_the_last_step_in_the_session(program: Path) -> None:
    text = program.read_text().replace(
        '    if os.path.exists(f"{HERE}/exit"):', "    if COUNT > 1:"
    )
    program.write_text(text)
    output = program.with_suffix(".fxs")
    await capture(program, output, record_bytecode=True)
    with SessionReader(output) as reader:
        (run,) = reader.rows(BytecodeRun)
        assert run.ended == ""
        last = reader.rows(BytecodeStep)[-1]
        assert any("function look" in one for one in last.stack)


async def test_a_script_is_told_to_name_its_function(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n\ntorch.compile(lambda x: x + 1, backend='eager')(torch.ones(3))\n"
    )
    ended = await capture(script, record_bytecode=True)
    assert ended.outcome.kind == "finished"
    assert [failure.message for failure in ended.failures] == [
        f"steps through the bytecode: {A_SCRIPT}"
    ]
