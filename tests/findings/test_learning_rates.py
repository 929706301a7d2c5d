"""These tests check what is said of learning rates that a compiled step of an optimizer has as numbers,
and that the advice holds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from fx_explorer.findings.every_kind import findings
from tests.capture.recorded import Compile, record


def train(compile_: Compile, change: Callable[[dict[str, object], float], None]) -> None:
    weights = torch.ones(2, requires_grad=True)
    # One by one, numbers become dynamic; an operator for all parameters compiles them in.
    optimizer = torch.optim.SGD([weights], lr=torch.tensor(0.5), foreach=True)
    step = compile_(optimizer.step)
    for at in range(1, 5):
        weights.sum().backward()
        step()
        change(optimizer.param_groups[0], 0.5 / at)


def put_a_number(group: dict[str, object], value: float) -> None:
    group["lr"] = value


def write_in_place(group: dict[str, object], value: float) -> None:
    assert isinstance(group["lr"], torch.Tensor)
    group["lr"].fill_(value)


def test_a_number_that_takes_the_tensors_place(tmp_path: Path) -> None:
    reader = record(tmp_path / "s.fxs", lambda c: train(c, put_a_number), backend="eager")
    of_recompiles = [finding for finding in findings(reader) if finding.kind == "recompile"]
    details = " ".join(finding.detail for finding in of_recompiles)
    assert "Write into the tensor in place" in details
    assert "do not change it: each class" not in details


def test_writing_into_the_tensor_does_not_recompile(tmp_path: Path) -> None:
    reader = record(tmp_path / "s.fxs", lambda c: train(c, write_in_place), backend="eager")
    assert not [finding for finding in findings(reader) if finding.kind == "recompile"]


PROGRAM = """
import torch

weights = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.5)
step = torch.compile(optimizer.step, backend="aot_eager")
for lr in (0.5, 0.4, 0.3, 0.2):
    optimizer.param_groups[0]["lr"] = lr
    weights.sum().backward()
    step()
"""


def test_a_number_that_changes_is_to_be_a_tensor(tmp_path: Path, captured, reader) -> None:
    file = tmp_path / "rates.py"
    file.write_text(PROGRAM)
    found = findings(reader(captured(file)))
    (finding,) = [row for row in found if row.kind == "recompile" and "lr" in row.text]
    assert finding.count > 1
    assert "Give the optimizer its learning rate as a tensor" in finding.detail
    assert ".item()" not in finding.detail
