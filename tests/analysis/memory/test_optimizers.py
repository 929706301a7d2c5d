"""These tests compare the state of an optimizer with the state that torch's own has after a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from torch import nn, optim

from fx_explorer.cli import main
from fx_explorer.instruments.memory.report import memory_report
from fx_explorer.instruments.memory.verdict import TENSORS
from tests.capture.recorded import record
from tests.exhaustive import one_of

MAKE: dict[str, Callable[[Iterable[nn.Parameter]], optim.Optimizer]] = {
    "sgd": lambda of: optim.SGD(of, lr=0.1),
    "sgd-momentum": lambda of: optim.SGD(of, lr=0.1, momentum=0.9),
    "adagrad": optim.Adagrad,
    "rmsprop": optim.RMSprop,
    "adadelta": optim.Adadelta,
    "adam": optim.Adam,
    "adamw": optim.AdamW,
    "adamax": optim.Adamax,
    "nadam": optim.NAdam,
    "radam": optim.RAdam,
    "adam-amsgrad": lambda of: optim.Adam(of, amsgrad=True),
}


class Tuned(nn.Module):
    """Tuned is a network in which only the second layer is trained, so that the frozen layer must
    not be counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(48, 64).requires_grad_(False)
        self.trained = nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.trained(self.frozen(x).relu()).square().mean()


def state_bytes(
    make: Callable[[Iterable[nn.Parameter]], optim.Optimizer], network: nn.Module, x: torch.Tensor
) -> int:
    """Return the bytes of the optimizer's state after a step, without its counters."""
    optimizer = make([one for one in network.parameters() if one.requires_grad])
    network(x).backward()
    optimizer.step()
    kept = [
        value
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    ]
    return sum(value.untyped_storage().nbytes() for value in kept if value.numel() > 1)


def test_each_optimizer_is_tried() -> None:
    assert MAKE.keys() == TENSORS.keys()


@pytest.mark.parametrize("name", one_of(4, TENSORS))
def test_what_an_optimizer_keeps_is_what_torchs_own_has_after_a_step(
    name: str, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    network, x = Tuned(), torch.randn(4, 48)
    reader = record(tmp_path / "s.fxs", lambda compiled: compiled(network)(x))
    without, with_state = memory_report(reader).used, memory_report(reader, name).used
    kept = state_bytes(MAKE[name], network, x)
    assert with_state.peak.by_kind.get("optimizer", 0) == kept
    assert with_state.begin_bytes == without.begin_bytes + kept
    assert with_state.peak.total_bytes == without.peak.total_bytes + kept


def test_an_inference_has_no_optimizer(tmp_path: Path) -> None:
    network, x = Tuned(), torch.randn(4, 48)

    def infer(compiled: Callable[[nn.Module], Callable[[torch.Tensor], object]]) -> None:
        with torch.no_grad():
            compiled(network)(x)

    report = memory_report(record(tmp_path / "s.fxs", infer), "adam")
    assert "optimizer" not in report.used.peak.by_kind
    assert not [one for one in report.sentences if one.startswith("The optimizer")]


def test_the_answer_says_what_adam_would_take(tmp_path: Path) -> None:
    network, x = Tuned(), torch.randn(4, 48)
    report = memory_report(record(tmp_path / "s.fxs", lambda compiled: compiled(network)(x)))
    assert any(
        "16.6 kB for Adam, 8.3 kB for SGD with momentum" in one for one in report.sentences
    ), report.sentences


@pytest.mark.parametrize("more", [["--measure"], ["--budgets", "1,0"]])
def test_an_optimizer_is_not_measured(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "sample_models/mlp.py", "--optimizer", "adam", *more]) == 2
    assert "--optimizer adds to the prediction" in capsys.readouterr().err
