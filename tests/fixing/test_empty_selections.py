"""These tests claim that a question for an empty selection is taken out of a loop over experts, and
that a break which only makes room for the next is said to.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.analysis.whole_session import SessionFigures, session_figures
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.offers import proposals
from fx_explorer.instruments.fixes.trial import try_fix
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionReader
from tests.conftest import Captured
from tests.fixing.test_proposals import proposed

TITLE = "compute empty selections too"

SETTING = {"dynamo.capture_dynamic_output_shape_ops": True}

PROGRAM = """
import torch


class Router(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(8, 3)
        self.experts = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        chosen = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero(as_tuple=True)[0]
            if rows.numel() == 0:
                continue
            out[rows] = expert(x[rows])
        return out


torch.manual_seed(0)
model = Router().requires_grad_(TRAINED)
example_inputs = (torch.randn(64, 8),)
"""


def fix_of(tmp_path: Path, question: str, body: str, registry_id: str = "GB0036") -> Fix | None:
    source = (
        "import torch\n"
        "def f(x, m, out):\n"
        "    for i in range(3):\n"
        "        rows = (m == i).nonzero()[:, 0]  # here\n"
        f"        {question}\n"
        f"            {body}\n"
        "        out[rows] = x[rows]\n"
        "    return out\n"
    )
    fixes = proposed(tmp_path / "s.fxs", source, registry_id)
    return next((fix for fix in fixes if fix.title == TITLE), None)


@pytest.mark.parametrize(
    "question",
    [
        "if rows.numel() == 0:",
        "if len(rows) == 0:",
        "if rows.shape[0] < 1:",
        "if not rows.numel():",
        "if not (m == i).any():",
        "if bool(rows.size(0) == 0):",
        "if not torch.any(m == i):",
    ],
)
def test_a_question_that_skips_is_taken_out(tmp_path: Path, question: str) -> None:
    fix = fix_of(tmp_path, question, "continue")
    assert fix is not None
    assert fix.settings == SETTING
    assert question not in fix.edits[0].after
    assert "continue" not in fix.edits[0].after
    assert fix.untried == "a call in which a selection is empty"


@pytest.mark.parametrize(
    "question", ["if rows.numel() > 0:", "if len(rows):", "if rows.shape[0] != 0:"]
)
def test_what_stands_under_a_question_moves_out(tmp_path: Path, question: str) -> None:
    fix = fix_of(tmp_path, question, "x = x + 1")
    assert fix is not None
    assert "\n        x = x + 1\n" in fix.edits[0].after


@pytest.mark.parametrize(
    ("question", "body"),
    [
        ("if rows.numel() == 0:", "return x"),
        ("if rows.numel() == 0:", "x = x + 1"),
        ("if rows.numel() == 3:", "continue"),
        ("if x.training:", "continue"),
    ],
)
def test_what_does_more_than_skip_stays(tmp_path: Path, question: str, body: str) -> None:
    assert fix_of(tmp_path, question, body) is None


async def test_experts_become_one_graph(
    tmp_path: Path, captured: Captured, warm_workers: None
) -> None:
    request, before, fixes = offered(captured, tmp_path, trained=False)
    trial = await try_fix(request, fixes[TITLE], before)
    assert trial.is_good, trial.reason
    assert trial.reason.startswith("1 break → 0; equal")
    assert "a call in which a selection is empty" in trial.reason
    option = fixes["put a size that is not known yet into the graph"]
    alone = await try_fix(request, option, before)
    assert (alone.verdict, alone.reason) == (
        "refused",
        "this break is gone, and then router.py:16 breaks the graph: which branch runs depends on "
        "a tensor's value, unknown at compile time",
    )


async def test_an_expert_without_rows_that_gets_a_gradient_refuses_it(
    tmp_path: Path, captured: Captured, warm_workers: None
) -> None:
    request, before, fixes = offered(captured, tmp_path, trained=True)
    trial = await try_fix(request, fixes[TITLE], before)
    assert trial.verdict == "refused"
    assert "gradient of experts.0" in trial.reason


def offered(
    captured: Captured, folder: Path, *, trained: bool
) -> tuple[CaptureRequest, SessionFigures, dict[str, Fix]]:
    file = folder / "router.py"
    file.write_text(PROGRAM.replace("TRAINED", str(trained)))
    with SessionReader(captured(file)) as reader:
        request = reader.request()
        assert request is not None
        (broken,) = distinct_breaks(reader)
        fixes = {fix.title: fix for fix in proposals(reader, broken)}
        return request, session_figures(reader), fixes
