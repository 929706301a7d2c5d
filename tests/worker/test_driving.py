"""Driving a real worker: what it refuses, and that it is usable afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.model import Command
from tests.worker.driving import converse

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


async def test_a_worker_takes_another_way_only_while_the_source_is_what_was_captured(
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
    assert f"{target} has changed, first in line 4; what is kept here is of the source as it was" in told.answers[0].text
    assert [row.status for row in told.compilations] == ["ok", "ok"]
    assert told.outcome.kind == "finished"
