"""These tests check that modules which run in eager mode beside compiled code are found, and that a
trial says whether another call of torch.compile avoids it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fx_explorer.findings.modules_in_eager_mode import (
    CompileEdits,
    EagerModule,
    eager_call_findings,
    find_eager_calls,
)
from fx_explorer.model import CaptureRequest
from fx_explorer.trials import TrialWorker
from tests.exhaustive import with_others

TASK = """
import torch

class Net(torch.nn.{base}):
{body}

class Task(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x).sum()

def validate(net):
    return [net(torch.ones(2, 4)) for _ in range(3)]

net = Net({arguments})
{compiled}
for _ in range(2):
    {call}
{validation}
"""

OWN_CLASS = """
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).relu()
"""


def _program(**changes: str) -> str:
    fields = {
        "base": "Module",
        "body": OWN_CLASS,
        "arguments": "",
        "compiled": "compiled = torch.compile(Task(net))",
        "call": "compiled(torch.ones(2, 4))",
        "validation": "validate(net)",
    }
    return TASK.format(**{**fields, **changes})


def _found(text: str, folder: Path, python: str) -> tuple[EagerModule, ...]:
    file = folder / "task.py"
    file.write_text(text)
    request = CaptureRequest(target=str(file), session="", as_script=True)
    edits = CompileEdits({str(file): text})
    worker = TrialWorker(python=python, timeout_s=120)
    return asyncio.run(find_eager_calls(request, edits, worker))


@pytest.mark.parametrize(
    ("changes", "code"),
    with_others(
        [pytest.param({}, "net.compile()", id="part")],
        [
            pytest.param(
                {"base": "Sequential", "body": "    pass", "arguments": "torch.nn.Linear(4, 4)"},
                "net.forward = torch.compile(net.forward)",
                id="forward of torch's",
            ),
            pytest.param(
                {"compiled": "compiled = torch.compile(net)"}, "module.compile()", id="whole"
            ),
            pytest.param(
                {
                    "compiled": "@torch.compile\ndef compiled(x):\n    return net(x).sum()\n",
                },
                "net.compile()",
                id="function",
            ),
        ],
    ),
)
def test_validation_that_calls_the_model_itself_is_found_with_what_avoids_it(
    changes: dict[str, str], code: str, tmp_path: Path, warm_python: str
) -> None:
    (module,) = _found(_program(**changes), tmp_path, warm_python)
    (finding,) = eager_call_findings([module])
    assert module.count == 3
    assert code in module.remedy.text
    assert module.remedy.result == "0 calls in eager mode instead of 3."
    assert "Net" in finding.text
    assert finding.evidence[0].startswith("task.py:")


@pytest.mark.parametrize(
    "changes",
    with_others(
        [
            pytest.param({"validation": ""}, id="none"),
            pytest.param({"validation": "validate(Net())"}, id="another object"),
        ],
        [
            pytest.param({"compiled": "net.compile()\ncompiled = net"}, id="in place"),
            pytest.param(
                {"call": "compiled(torch.ones(2, 4)).item()", "validation": ""}, id="break outside"
            ),
        ],
    ),
)
def test_a_program_that_compiles_every_call_has_no_such_module(
    changes: dict[str, str], tmp_path: Path, warm_python: str
) -> None:
    assert _found(_program(**changes), tmp_path, warm_python) == ()


def test_what_a_break_leaves_in_eager_mode_is_no_call_beside_compiled_code(
    tmp_path: Path, warm_python: str
) -> None:
    body = OWN_CLASS.replace("return self", "torch._dynamo.graph_break()\n        return self")
    assert _found(_program(body=body, validation=""), tmp_path, warm_python) == ()
