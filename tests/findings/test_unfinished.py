"""These tests stop programs while they are compiled, and while they are not: what was under way is
told, and nothing is said to run in eager mode.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.findings.every_kind import findings
from fx_explorer.findings.finding import Finding
from tests.conftest import Captured, OpenedReader

LONG = """
import time
import torch


def summed(x):
    for step in range(10_000_000):
        x = x.sin() + step
    return x


def timed(x):
    return x.sin() + 1


{run}
"""

STOP_AFTER_S = 15


@pytest.fixture
def stopped(tmp_path: Path, captured: Captured, reader: OpenedReader):
    def stop(run: str, name: str) -> list[Finding]:
        file = tmp_path / f"{name}.py"
        file.write_text(LONG.format(run=run))
        session = captured(file, backend="eager", timeout=STOP_AFTER_S, exit_code=4)
        return findings(reader(session))

    return stop


def test_what_was_being_compiled_is_told_with_its_slowest_line(stopped) -> None:
    (finding,) = stopped("torch.compile(summed)(torch.ones(4))", "summed")
    assert finding.kind == "unfinished compilation"
    assert finding.text.startswith("The program was stopped while summed was being compiled")
    assert finding.evidence[0].endswith(": x = x.sin() + step")
    assert finding.place is not None
    assert finding.place.line + 1 == 8
    assert "Compile the body of the loop" in finding.detail


def test_a_program_that_is_stopped_elsewhere_has_no_unfinished_compilation(stopped) -> None:
    found = stopped("torch.compile(timed)(torch.ones(4))\ntime.sleep(600)", "timed")
    assert "unfinished compilation" not in {finding.kind for finding in found}
