"""These tests check findings about work that is done for nothing: a single operation that is
compiled, weights that are cast in each call, a checkpoint whose policy has no effect.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from fx_explorer.analysis.words import size
from fx_explorer.findings.every_kind import findings
from fx_explorer.findings.finding import Finding
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, record

SIZE = 512
"""Features of a layer whose weight takes as much as is worth a word."""


def of_kind(reader: SessionReader, kind: str) -> list[Finding]:
    return [finding for finding in findings(reader) if finding.kind == kind]


def recorded(path: Path, function: Callable[..., Any], *inputs: torch.Tensor) -> SessionReader:
    def program(compile_: Compile) -> None:
        compile_(function)(*inputs)

    return record(path, program)


def test_a_single_operation_has_nothing_to_fuse(tmp_path: Path) -> None:
    (finding,) = of_kind(recorded(tmp_path / "s.fxs", torch.sin, torch.ones(4)), "tiny graph")
    assert "single operation, sin" in finding.text
    assert finding.severity == "notice"


def two_operations(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def decomposed(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x)


@pytest.mark.parametrize("function", [two_operations, decomposed])
def test_several_operations_are_no_tiny_graph(function: Callable[..., Any], tmp_path: Path) -> None:
    assert not findings(recorded(tmp_path / "s.fxs", function, torch.ones(4)))


class Casting(nn.Module):
    """Runs a layer under autocast."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y: torch.Tensor = torch.relu(self.linear(x))
        return y


def casts(path: Path, network: nn.Module, *, grad: bool) -> list[Finding]:
    with torch.set_grad_enabled(grad):
        return of_kind(recorded(path, network, torch.ones(2, SIZE)), "precision cast")


def test_weights_that_an_inference_casts_in_each_call_are_counted(tmp_path: Path) -> None:
    (finding,) = casts(tmp_path / "s.fxs", Casting(SIZE), grad=False)
    read = sum(parameter.numel() * 4 for parameter in Casting(SIZE).parameters())
    assert finding.text == (
        f"2 parameters ({size(read)}) are cast from float32 to bfloat16 in each call."
    )
    assert finding.place is not None


def test_training_keeps_its_weights_in_float32(tmp_path: Path) -> None:
    assert not casts(tmp_path / "s.fxs", Casting(SIZE), grad=True)


def test_weights_of_16_bits_are_not_cast(tmp_path: Path) -> None:
    network = Casting(SIZE).to(torch.bfloat16)
    assert not casts(tmp_path / "s.fxs", network, grad=False)


def policy(_: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    is_product = operator == torch.ops.aten.addmm.default
    return CheckpointPolicy.MUST_SAVE if is_product else CheckpointPolicy.PREFER_RECOMPUTE


contexts = functools.partial(create_selective_checkpoint_contexts, policy)


@pytest.mark.parametrize(
    ("backend", "options", "count"),
    [
        ("inductor", {"context_fn": contexts}, 1),
        ("inductor", {}, 0),
        ("aot_eager", {"context_fn": contexts}, 0),
    ],
)
def test_a_policy_around_compiled_code_has_no_effect(
    backend: str, options: dict[str, Any], count: int, tmp_path: Path
) -> None:
    def program(compile_: Compile) -> None:
        block = compile_(nn.Sequential(nn.Linear(4, 4), nn.GELU()))
        for _ in range(2):
            checkpoint(block, torch.ones(2, 4), use_reentrant=False, **options)

    reader = record(tmp_path / "s.fxs", program, backend=backend)
    found = of_kind(reader, "checkpoint")
    assert len(found) == count
    for finding in found:
        assert "test_wasted_work.py" in finding.text
        assert "checkpoints Sequential" in finding.text


def test_a_policy_inside_of_compiled_code_has_its_effect(tmp_path: Path) -> None:
    linear = nn.Linear(4, 4)

    def block(x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = checkpoint(linear, x, use_reentrant=False, context_fn=contexts)
        return y.sin()

    assert not of_kind(recorded(tmp_path / "s.fxs", block, torch.ones(2, 4)), "checkpoint")
