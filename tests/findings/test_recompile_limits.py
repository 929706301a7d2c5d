"""These tests check what is said of functions that reached the recompile limit: the lines, and the
limit that is proposed.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

from fx_explorer.findings.every_kind import findings
from tests.capture.recorded import Compile, record

HAS_ISOLATION = "isolate_recompiles" in inspect.signature(torch.compile).parameters


class Scaled(nn.Module):
    def __init__(self, base: float) -> None:
        super().__init__()
        self.base = base

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * {1.0: 2, 2.0: 3, 3.0: 4, 4.0: 5}[self.base]


def make_one_after_the_other(compile_: Compile) -> None:
    for base in (1.0, 2.0, 3.0, 4.0):
        module = compile_(Scaled(base))
        module(torch.ones(2))


def test_the_limit_is_doubled_where_objects_were_freed(tmp_path: Path) -> None:
    with torch._dynamo.config.patch(recompile_limit=2):
        reader = record(tmp_path / "s.fxs", make_one_after_the_other, backend="eager")
    (finding,) = [row for row in findings(reader) if row.kind == "recompile limit"]
    settings = [remedy.changes["settings"] for remedy in finding.remedies if remedy.changes]
    (doubled,) = [remedy for remedy in finding.remedies if "recompile_limit = 4" in remedy.text]
    # The program would set its own limit again after a trial did.
    assert (doubled.state, doubled.changes) == ("cannot be tried", {})
    assert "itself sets this option" in doubled.result
    assert ({"compile.isolate_recompiles": True} in settings) == HAS_ISOLATION


@pytest.mark.skipif(not HAS_ISOLATION, reason="this torch has no isolate_recompiles")
@pytest.mark.parametrize(("arguments", "compiled"), [({}, 2), ({"isolate_recompiles": True}, 4)])
def test_calls_of_torch_compile_that_are_kept_apart_have_a_limit_each(
    arguments: dict[str, bool], compiled: int
) -> None:
    torch._dynamo.reset()
    counter = CompileCounter()

    def compile_(module: nn.Module) -> nn.Module:
        return torch.compile(module, backend=counter, **arguments)

    with torch._dynamo.config.patch(recompile_limit=2):
        make_one_after_the_other(compile_)
    assert counter.frame_count == compiled


PROGRAM = """
import torch

def scaled(x, base):
    return x * {1: 2, 2: 3, 3: 4}[base]

torch._dynamo.config.recompile_limit = 2
compiled = torch.compile(scaled, backend="eager", dynamic=False)
for base in (1, 2, 3):
    compiled(torch.ones(2), base)
"""


def test_the_line_that_depends_on_it_and_the_call_are_shown(
    tmp_path: Path, captured, reader
) -> None:
    file = tmp_path / "limit.py"
    file.write_text(PROGRAM)
    found = findings(reader(captured(file)))
    (finding,) = [row for row in found if row.kind == "recompile limit"]
    assert "limit.py:5: return x * {1: 2, 2: 3, 3: 4}[base]" in finding.detail
    assert "It is called from limit.py:10: compiled(torch.ones(2), base)" in finding.detail


def test_a_float_that_is_a_key_is_no_tensor_to_be(tmp_path: Path) -> None:
    with torch._dynamo.config.patch(recompile_limit=2):
        reader = record(tmp_path / "s.fxs", make_one_after_the_other, backend="eager")
    (finding,) = [row for row in findings(reader) if row.kind == "recompile limit"]
    assert "Look up self.base outside of the compiled method" in finding.detail
    assert "make it a tensor" not in finding.detail


ONLY_THE_LIMIT = """\
W0110 12:27:06.332000 158 torch/_dynamo/convert_frame.py:1551] [2/8] torch._dynamo hit \
config.recompile_limit (8)
W0110 12:27:06.332000 158 torch/_dynamo/convert_frame.py:1551] [2/8]    function: 'step' \
(/home/me/opt.py:621)
W0110 12:27:06.332000 158 torch/_dynamo/convert_frame.py:1551] [2/8]    last reason: 2/7: tensor \
'x' size mismatch at index 1. expected 640, actual 8
"""


def test_a_log_has_no_trials_and_its_limit_was_looked_for(tmp_path: Path) -> None:
    file = tmp_path / "limit.txt"
    file.write_text(ONLY_THE_LIMIT)
    run = subprocess.run(
        [sys.executable, "-m", "fx_explorer", "diagnose", str(file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "step was compiled 8 times, which is the limit" in run.stdout
    assert "--try" not in run.stdout
    assert "Not tried: it is" in run.stdout
    assert "Checked for 1 kind of problems" in run.stdout
