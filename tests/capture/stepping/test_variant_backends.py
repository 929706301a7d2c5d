"""These tests continue with another backend: the variant records what its own backend supports, and
has its name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.backends import registry

from fx_explorer.instruments.backends.amounts import reports_in_use, summaries
from fx_explorer.model import CaptureRequest, Changes, Command, Node, NodeSupport, SupportReport
from fx_explorer.overview.view_tables import TABLES
from tests.capture.stepping.driving import Driven, drive


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.up(x)) + 1


def knows_relu(module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
    return module.forward


knows_relu.operator_support = {torch.relu}  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.list_backends()  # torch registers its own once, when it is first asked
    monkeypatch.setattr(registry, "_COMPILER_FNS", dict(registry._COMPILER_FNS))
    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))
    torch._dynamo.register_backend(knows_relu, name="knows_relu")


def by(backend: str) -> Callable[..., torch.Tensor]:
    def program(
        net: nn.Module, arguments: tuple[torch.Tensor, ...], _: CaptureRequest
    ) -> torch.Tensor:
        output: torch.Tensor = torch.compile(net, backend=backend)(*arguments)
        return output

    return program


ANOTHER = Command(
    "again", gate="dynamo", changes=Changes(settings={"compile.backend": "knows_relu"})
)


def driven_by(path: Path, backend: str, *commands: Command, pause: Any = "") -> Driven:
    return drive(
        path / "s.fxs",
        [*commands, Command("quit")],
        pause=pause,
        model=Net,
        inputs=lambda: (torch.ones(2, 4),),
        program=by(backend),
    )


def supported(driven: Driven, variant: str) -> list[str]:
    (report,) = driven.reader.rows(SupportReport, compilation=driven.variant(variant).id)
    rows = [
        row
        for row in driven.reader.rows(NodeSupport, report=report.id)
        if row.support == "supported"
    ]
    return [node.target for node in driven.reader.by_ids(Node, [row.node for row in rows])]


def test_a_variant_after_the_program_is_asked_and_is_told_not_to_be_in_use(tmp_path: Path) -> None:
    driven = driven_by(tmp_path, "eager", ANOTHER)
    assert {name: driven.variant(name).backend for name in ("0/0", "0/0~1")} == {
        "0/0": "eager",
        "0/0~1": "knows_relu",
    }
    assert supported(driven, "0/0~1") == ["torch.relu"]
    assert [report.backend for report in reports_in_use(driven.reader)] == ["eager"]
    notice = TABLES["support"](driven.reader).notice
    assert notice.startswith(
        "eager does not say which operators it supports: 3 operators in 1 graph"
    )
    assert "Not in use, [0/0~1]: knows_relu supports 1 of 3 operators in 1 graph" in notice


def test_a_variant_that_is_chosen_at_a_gate_is_in_use(tmp_path: Path) -> None:
    driven = driven_by(tmp_path, "eager", ANOTHER, Command("go"), pause="step")
    assert driven.variant("0/0~1").in_use
    assert driven.variant("0/0~1").backend == "knows_relu"
    assert supported(driven, "0/0~1") == ["torch.relu"]
    assert [
        (one.backend, one.supported.count, one.whole.count) for one in summaries(driven.reader)
    ] == [("knows_relu", 1, 3)]


def test_where_the_program_runs_with_inductor_the_variants_backend_is_shown(tmp_path: Path) -> None:
    driven = driven_by(tmp_path, "inductor", ANOTHER)
    assert reports_in_use(driven.reader) == []
    table = TABLES["support"](driven.reader)
    assert table.notice.startswith(
        "Not in use, [0/0~1]: knows_relu supports 1 of 3 operators in 1 graph"
    )
    assert len(table.rows) > 3


def test_a_graph_that_waited_for_the_end_of_the_program_is_asked(tmp_path: Path) -> None:
    driven = driven_by(tmp_path, "eager", Command("go"), pause="dynamo")
    assert [report.backend for report in driven.reader.rows(SupportReport)] == ["eager"]
