"""These tests diagnose programs that fail differently each time, without a message or with one of a
megabyte, and whose trials hang or end the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer.findings.every_kind import findings
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.findings.remedy_trials import (
    UNCHANGED,
    before_trials,
    to_try,
    try_all,
    with_trials,
)
from fx_explorer.model import RemedyTrial
from fx_explorer.trials import TrialWorker
from tests.conftest import Captured, OpenedReader
from tests.exhaustive import in_exhaustive_runs

COUNTED = """
import os
import signal
import time
from pathlib import Path

import torch

runs = Path(__file__).with_suffix(".runs")
run = len(runs.read_text()) if runs.exists() else 0
runs.write_text("x" * (run + 1))
{later}


def failing(graph, inputs):
    {fails}


def summed(x):
    return torch.relu(x).sum()


print(torch.compile(summed, backend=failing)(torch.ones(4)))
"""

Failed = Callable[..., Finding]

WITH_EAGER = {"settings": {"compile.backend": "eager"}}


@pytest.fixture
def failed(tmp_path: Path, captured: Captured, reader: OpenedReader, warm_python: str) -> Failed:
    """``failed(code, later)`` → the error's finding, with the unchanged program and the backend
    ``eager`` tried where ``later`` is given. ``later`` is code at the module's level.
    """

    def diagnose(fails: str, later: str | None = None, limit_s: float = 120) -> Finding:
        file = tmp_path / "train.py"
        file.write_text(COUNTED.format(fails=fails, later=later or ""))
        session = reader(captured(file, exit_code=3))
        (finding,) = [row for row in findings(session) if row.kind == "compiler error"]
        if later is None:
            return finding
        wanted = [remedy for remedy in to_try([finding]) if remedy.changes in (WITH_EAGER, {})]
        assert wanted[0] == UNCHANGED
        request = session.request()
        assert request is not None
        trials: list[RemedyTrial] = []
        asyncio.run(
            try_all(request, wanted, trials.append, worker=TrialWorker(warm_python, limit_s))
        )
        (tried,) = with_trials([finding], before_trials(session), trials)
        return tried

    return diagnose


def of_eager(finding: Finding) -> Remedy:
    (remedy,) = [row for row in finding.remedies if row.changes == WITH_EAGER]
    return remedy


@in_exhaustive_runs
def test_no_remedy_is_said_to_help_a_program_that_fails_only_sometimes(failed: Failed) -> None:
    fails = "if run == 0: raise RuntimeError('bad luck')\n    return graph.forward"
    remedy = of_eager(failed(fails, ""))
    assert remedy.state == "cannot be tried"
    assert "the program fails only sometimes" in remedy.result


def test_a_program_that_fails_in_another_way_each_time_is_told_as_that(failed: Failed) -> None:
    fails = "raise [KeyError, ValueError, IndexError][run % 3]('bad luck')"
    remedy = of_eager(failed(fails, ""))
    assert remedy.state == "tried"
    assert "Unchanged, it failed differently: " in remedy.result


@in_exhaustive_runs
def test_a_number_in_the_message_is_no_other_way_to_fail(failed: Failed) -> None:
    fails = "raise RuntimeError(f'{time.time_ns()} at {id(graph):#x}')"
    remedy = of_eager(failed(fails, ""))
    assert remedy.state == "tried"
    assert remedy.has_helped
    assert "differently" not in remedy.result


def test_an_error_without_a_message_has_its_class_and_line(failed: Failed) -> None:
    finding = failed("raise RuntimeError()")
    assert finding.evidence[0].startswith("RuntimeError")
    assert "raise RuntimeError()" in finding.evidence[1]


def test_of_a_message_of_a_megabyte_the_beginning_is_shown(failed: Failed) -> None:
    finding = failed("raise RuntimeError('no room for ' + 'x' * 1_000_000)")
    assert "RuntimeError: no room for xxx" in finding.evidence[0]
    assert len(finding.detail) < 2_000


@pytest.mark.parametrize(
    ("later", "limit_s", "state", "result"),
    [
        ("time.sleep(600)", 15, "cannot be tried", "it took too long and was stopped"),
        ("os._exit(7)", 120, "tried", "the program then stops"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 120, "tried", "the program then stops"),
    ],
)
def test_trials_that_hang_or_end_the_process_are_told(
    later: str, limit_s: float, state: str, result: str, failed: Failed
) -> None:
    remedy = of_eager(failed("raise RuntimeError('bad luck')", f"if run > 0: {later}", limit_s))
    assert remedy.state == state
    assert result in remedy.result
    assert state != "tried" or not remedy.has_helped
