"""These tests check the finding about settings that do nothing in a program."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.findings.every_kind import findings
from fx_explorer.findings.finding import Finding
from fx_explorer.session import SessionReader, SessionWriter
from tests.exhaustive import with_others

Written = Callable[[Callable[[SessionWriter], object]], SessionReader]


def without_effect(reader: SessionReader) -> list[Finding]:
    return [row for row in findings(reader) if row.kind == "setting without effect"]


def test_cuda_graphs_on_a_cpu(captured, reader) -> None:
    (finding,) = without_effect(reader(captured("mlp", mode="reduce-overhead")))
    assert finding.text == 'mode="reduce-overhead" has no effect: no graph is on a GPU.'
    assert finding.severity == "notice"


@pytest.mark.parametrize(("trains", "number"), with_others([(True, 1)], [(False, 0)]))
def test_freezing(trains: bool, number: int, captured, reader) -> None:
    session = captured("mlp", "--option", "freezing=True", train=trains)
    rows = without_effect(reader(session))
    assert len(rows) == number
    if rows:
        assert "every graph is compiled for training" in rows[0].text


@pytest.mark.parametrize(
    ("name", "value", "device", "number"),
    [
        ("compile.mode", "reduce-overhead", "cpu", 1),
        ("compile.options", {"triton.cudagraphs": True}, "cpu", 1),
        ("compile.options", {"triton.cudagraphs": False}, "cpu", 0),
        ("compile.mode", "reduce-overhead", "cuda:0", 0),
        ("compile.mode", "max-autotune", "cpu", 0),
        ("compile.mode", "default", "cpu", 0),
    ],
)
def test_what_asks_for_cuda_graphs_only(
    name: str, value: object, device: str, number: int, written: Written
) -> None:
    def write(writer: SessionWriter) -> None:
        writer.add(model.OptionInForce(0, name, json.dumps(value), "program"))
        writer.add(model.Compilation(0, "0/0", 0, 0, "step", "/home/me/step.py", 5))
        writer.add(model.Graph(0, 1, "post_grad", "inference"))
        writer.add(model.Node(0, 1, 0, "add", "call_function", "aten.add", "", device=device))

    assert len(without_effect(written(write))) == number


MISPLACED = """
import torch
import torch._dynamo as dynamo

dynamo.activation_memory_budget = 0.5
dynamo.config.recompile_limit = 9
torch._functorch.config.activation_memory_budget = 0.9
torch.backends.cudnn.deterministic = True
torch.my_own_name = 3


class Budget:
    pass


budget = Budget()
budget.max_autotune = True


@torch.compile(backend="aot_eager")
def step(x):
    return x.sin()


step(torch.ones(2))
"""


def test_an_option_that_is_set_where_torch_does_not_read_it(
    tmp_path: Path, captured, reader
) -> None:
    file = tmp_path / "misplaced.py"
    file.write_text(MISPLACED)
    (finding,) = without_effect(reader(captured(file)))
    assert finding.text.startswith(
        "torch._dynamo.activation_memory_budget is not an option of torch"
    )
    assert finding.severity == "problem"
    assert finding.place is not None
    assert finding.place.line + 1 == 5
    (remedy,) = finding.remedies
    option = "torch._functorch.config.activation_memory_budget"
    assert remedy.text == f"Set {option} = 0.5 before the first call."
    assert remedy.kind == "setting"


def test_a_place_where_torch_reads_it_is_none(tmp_path: Path, captured, reader) -> None:
    file = tmp_path / "right.py"
    file.write_text(MISPLACED.replace("dynamo.activation_memory_budget = 0.5", ""))
    assert not without_effect(reader(captured(file)))
