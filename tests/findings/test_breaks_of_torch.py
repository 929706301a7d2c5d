"""These tests check what is said of breaks that are no matter of the line they are at: an error of
the backend that several functions meet, the step of an optimizer, and a scheduler's wrapper of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException

from fx_explorer.findings.every_kind import findings
from fx_explorer.findings.finding import Finding
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, record


def of_breaks(reader: SessionReader) -> list[Finding]:
    return [finding for finding in findings(reader) if finding.topic == "breaks"]


def inner(x: torch.Tensor) -> torch.Tensor:
    return x.cos() * 2


def middle(x: torch.Tensor) -> torch.Tensor:
    return inner(x) + 1


def outer(x: torch.Tensor) -> torch.Tensor:
    return middle(x.sin())


def refuses_cosines(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
    if any(node.target == "cos" for node in graph.graph.nodes):
        raise DataDependentOutputException(torch.ops.aten._local_scalar_dense.default)
    return graph.forward


def test_an_error_of_the_backend_is_one_finding_at_the_innermost_function(tmp_path: Path) -> None:
    def program(compile_: Compile) -> None:
        torch.compile(outer, backend=refuses_cosines)(torch.ones(4))

    reader = record(tmp_path / "s.fxs", program)
    (finding,) = of_breaks(reader)
    line = inner.__code__.co_firstlineno
    assert finding.text.startswith("The backend could not compile the graph at ")
    assert f"test_breaks_of_torch.py:{line}" in finding.text or (
        f"test_breaks_of_torch.py:{line + 1}" in finding.text
    )
    assert finding.count == 3
    assert "aten._local_scalar_dense" in finding.detail
    assert not [row for row in findings(reader) if "was not compiled" in row.text]
    (names,) = [
        text for text in finding.evidence if text.startswith("Not compiled because of this: ")
    ]
    assert all(name in names for name in ("outer", "middle", "inner"))


def stepped(optimizer: torch.optim.Optimizer) -> None:
    optimizer.step()


def trained(compile_: Compile, *, prints: bool, is_scheduled: bool = False) -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.1), foreach=False)
    if is_scheduled:
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)

    def update() -> None:
        if prints:
            torch._dynamo.graph_break()
        optimizer.step()

    model(torch.ones(2, 4)).sum().backward()
    compile_(update)()


def test_the_step_of_an_optimizer_is_left_as_it_is(tmp_path: Path) -> None:
    reader = record(
        tmp_path / "s.fxs", lambda compile_: trained(compile_, prints=False), backend="eager"
    )
    (finding,) = of_breaks(reader)
    assert "torch's optimizers break it themselves" in finding.text
    assert finding.severity == "notice"
    assert not finding.remedies


def test_a_break_beside_the_step_is_a_problem(tmp_path: Path) -> None:
    reader = record(
        tmp_path / "s.fxs", lambda compile_: trained(compile_, prints=True), backend="eager"
    )
    severities = [finding.severity for finding in of_breaks(reader)]
    assert sorted(severities) == ["notice", "problem"]


def test_a_scheduler_that_wraps_the_step_is_named_as_the_cause(tmp_path: Path) -> None:
    reader = record(
        tmp_path / "s.fxs",
        lambda compile_: trained(compile_, prints=False, is_scheduled=True),
        backend="eager",
    )
    of_scheduler, of_optimizer = of_breaks(reader)
    assert "a learning rate scheduler replaced the optimizer's step" in of_scheduler.text
    assert "No change is needed" not in of_scheduler.explanation
    assert (of_scheduler.count, of_optimizer.count) == (1, 1)
    assert "torch's optimizers break it themselves" in of_optimizer.text
