"""These tests drive a compilation that is built: the program runs the compiled code, and its
backward is compiled when it runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from fx_explorer.model import Changes, Command, Compilation, Direction, Failure, Gate, PassFile
from tests.capture.stepping.driving import INDUCTORS_GATES, STEPS, Driven, Given, drive
from tests.capture.stepping.test_driving_passes import ATEN, SWAP
from tests.exhaustive import in_exhaustive_runs, with_others

LAZY = STEPS[: INDUCTORS_GATES.index("output_code") + 2]
"""To the first gate in the backward after its partition."""


class Sum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(x)
        return torch.sin(h) + torch.erf(h) + torch.atan(h) + torch.abs(h)


def driven(folder: Path, *commands: Given, name: str = "s", **how: object) -> Driven:
    return drive(folder / f"{name}.fxs", commands, **{"model": Sum, "build": True, **how})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Driven:
    """Drive a capture without pauses; at the end it is recompiled from the partition."""
    return driven(tmp_path_factory.mktemp("built"), Command("again", gate="partition"))


def gradients(result: Driven) -> list[torch.Tensor]:
    assert result.model is not None
    return [parameter.grad for parameter in result.model.parameters() if parameter.grad is not None]


def test_each_gate_pauses_also_in_the_backward_and_nothing_changes(
    straight: Driven, tmp_path: Path
) -> None:
    stepped = driven(tmp_path, *STEPS[:13], pause="step")
    lowering = ["partition", "post_grad", "pre_fusion", "post_fusion", "output_code"]
    in_both = [(gate, direction) for direction in ("forward", "backward") for gate in lowering]
    assert stepped.paused_at() == [
        ("dynamo", ""),
        ("pre_grad", ""),
        ("joint", ""),
        *in_both,
        (None, ""),
    ]
    assert stepped.codes() == straight.codes()
    eager = driven(tmp_path, name="eager", backend="eager")
    torch.testing.assert_close(stepped.output, eager.output)
    torch.testing.assert_close(gradients(stepped), gradients(eager))
    assert len(gradients(stepped)) == 2


def test_a_variant_compiled_when_the_program_has_ended_has_its_backward(straight: Driven) -> None:
    assert straight.codes("0/0~1") == straight.codes()
    assert set(straight.codes()) == {"forward", "backward"}


def test_aborted_in_the_backward_the_rest_stays_at_hand(straight: Driven, tmp_path: Path) -> None:
    result = driven(
        tmp_path,
        *LAZY,
        Command("abort"),
        Command("again", gate="joint"),
        Command("go"),
        pause="step",
    )
    assert gradients(result) == []
    assert (result.variant("0/0").status, result.variant("0/0").error) == (
        "left",
        "the user aborted the backward",
    )
    assert result.codes("0/0~1") == straight.codes()


@pytest.mark.parametrize("kind", with_others(["skip"], ["again"]))
def test_a_backward_that_runs_cannot_be_left_for_another_variant(
    straight: Driven, tmp_path: Path, kind: str
) -> None:
    result = driven(tmp_path, *LAZY, Command(kind, gate="partition"), Command("go"), pause="step")  # type: ignore[arg-type]
    assert "its forward has already run" in result.said("refused")[0]
    assert result.codes() == straight.codes()
    assert len(gradients(result)) == 2


@in_exhaustive_runs
def test_the_settings_of_a_variant_hold_in_its_backward(straight: Driven, tmp_path: Path) -> None:
    scalar = Command("again", gate="dynamo", changes=Changes({"inductor.cpp.simdlen": 0}))
    result = driven(tmp_path, scalar, Command("go"), pause="step")
    for code in straight.codes().values():
        assert "at::vec::" in code
    assert set(result.codes("0/0~1")) == {"forward", "backward"}
    for code in result.codes("0/0~1").values():
        assert "at::vec::" not in code


def swap(folder: Path, gate: Gate, direction: Direction, old: str, new: str) -> PassFile:
    file = folder / f"{gate}_{direction}.py"
    file.write_text(SWAP.format(old=old, new=new))
    return PassFile(gate, str(file), direction)


def test_what_is_built_computes_what_the_passes_made_of_it(tmp_path: Path) -> None:
    aten = ATEN.format
    passes = (
        swap(tmp_path, "pre_grad", "", "torch.sin", "torch.cos"),
        swap(tmp_path, "joint", "", aten("erf"), aten("sinh")),
        swap(tmp_path, "partition", "forward", aten("atan"), aten("asinh")),
        swap(tmp_path, "post_grad", "forward", aten("abs"), aten("neg")),
        swap(tmp_path, "partition", "backward", aten("sin"), aten("cos")),
        swap(tmp_path, "post_grad", "backward", aten("exp"), aten("sinh")),
    )
    result = driven(
        tmp_path,
        Command("again", gate="dynamo", changes=Changes(passes=passes)),
        Command("go"),
        pause="step",
    )
    assert result.error is None
    assert result.model is not None
    torch.manual_seed(0)
    model, x = Sum(), torch.randn(4, 16)
    h = model.up(x).detach()
    torch.testing.assert_close(result.output, torch.cos(h) + torch.sinh(h) + torch.asinh(h) - h)
    slope = (
        -torch.cos(h)
        + 2 / math.sqrt(math.pi) * torch.sinh(-h * h)
        + 1 / (1 + h * h)
        + torch.sign(h)
    )
    torch.testing.assert_close(gradients(result), [slope.T @ x, slope.sum(0)])


class Relu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.up(x))


def raised_by(call: Callable[[], object]) -> BaseException:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever torch makes of it
        call()
    return raised.value


@pytest.mark.parametrize("kind", with_others(["set"], ["again"]))
def test_a_backend_that_fails_in_place_gives_the_program_torchs_error(
    tmp_path: Path, kind: str
) -> None:
    backend = "relu_compile_error_TESTING_ONLY"
    fails = Command(kind, gate="dynamo", changes=Changes({"compile.backend": backend}))  # type: ignore[arg-type]
    result = driven(
        tmp_path,
        fails,
        Command("go"),
        Command("again", gate="dynamo", changes=Changes({"compile.backend": "inductor"})),
        pause="step",
        model=Relu,
    )
    torch._dynamo.reset()
    alone = raised_by(lambda: torch.compile(Relu(), backend=backend)(torch.randn(4, 16)))
    assert type(result.error) is type(alone)
    assert str(result.error).splitlines()[:2] == str(alone).splitlines()[:2]
    failed = [row for row in result.reader.rows(Compilation) if row.status == "failed"]
    assert any("ReluCompileError" in row.error for row in failed)
    assert any("ReluCompileError" in row.message for row in result.reader.rows(Failure))
    assert result.reader.rows(Compilation)[-1].status == "ok"
