"""These tests drive a real worker: what it refuses, and that it is usable afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.model import Changes, Command, PassFile, Pause
from tests.exhaustive import with_others
from tests.worker.driving import converse

pytestmark = pytest.mark.usefixtures("warm_workers")

MODEL = """import torch

def model(x):
    return torch.relu(x) + 1

example_inputs = torch.ones(3)
"""
AGAIN = Command("again", gate="partition")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "target.py"
    path.write_text(MODEL)
    return path


async def test_a_worker_compiles_another_variant_only_while_the_source_is_what_was_captured(
    target: Path,
) -> None:
    def edited() -> Command:
        target.write_text(MODEL.replace("+ 1", "+ 2"))
        return AGAIN

    def put_back() -> Command:
        target.write_text(MODEL)
        return AGAIN

    told = await converse(target, [edited, put_back])
    assert [answer.kind for answer in told.answers] == ["refused", "done"]
    assert (
        f"{target} has changed, first in line 4; this session keeps the source as it was"
        in told.answers[0].text
    )
    assert [row.status for row in told.compilations] == ["ok", "ok"]
    assert told.outcome.kind == "finished"


async def test_a_line_that_is_no_command_is_refused_and_the_gate_stays(target: Path) -> None:
    lines = [
        "nonsense",
        '["go"]',
        '{"kind": "again", "gate": "nowhere"}',
        '{"kind": "run_to"}',
        "[" * 100_000,
    ]
    told = await converse(target, [*lines, Command("skip"), Command("abort")], pause="step")
    assert [answer.kind for answer in told.answers[: len(lines)]] == ["refused"] * len(lines)
    assert all(
        "Not a command" in answer.text and len(answer.text) < 1000
        for answer in told.answers[: len(lines)]
    )
    assert told.gates[0] == "dynamo"
    assert [row.status for row in told.compilations] == ["left"]


async def test_aborted_at_a_gate_a_worker_compiles_another_variant(target: Path) -> None:
    told = await converse(
        target, [Command("step"), Command("abort"), Command("again", gate="dynamo")], pause="step"
    )
    assert told.gates == ["dynamo", "pre_grad", "end", "dynamo", "end"]
    assert [(row.name, row.status) for row in told.compilations] == [
        ("0/0", "left"),
        ("0/0~1", "ok"),
    ]
    assert told.outcome.kind == "cancelled"
    assert "aborted at a pause" in told.outcome.message


@pytest.mark.parametrize("pause", with_others([""], ["step"]))
async def test_a_pass_that_loops_for_ever_can_be_aborted_and_the_worker_stays(
    target: Path, pause: Pause
) -> None:
    endless = target.with_name("endless.py")
    endless.write_text("def pass_(gm):\n    print('looping')\n    while True:\n        pass\n")
    changes = Changes(passes=(PassFile("dynamo", str(endless)),))
    loops = (
        Command("pass", changes=changes)
        if pause
        else Command("again", gate="dynamo", changes=changes)
    )
    told = await converse(
        target,
        [loops, Command("again", gate="dynamo")],
        pause=pause,
        send_while_busy=Command("abort"),
    )
    assert [(answer.kind, answer.text) for answer in told.answers[:1]] == [
        ("refused", "Stopped, as you asked.")
    ]
    assert told.compilations[-1].status == "ok"
    assert told.outcome.kind == "finished"
