"""What no call of a comparison is like is named: other types, gradients, the other mode."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from fx_explorer import fixing
from fx_explorer.worker.target.inputs import Arguments
from fx_explorer.worker.target.target import Target
from fx_explorer.worker.verify.beyond_example import never_tried
from tests.fixing.test_without_compiling import proposed

TYPES = "inputs of other types or dtypes or autocast"
FLOATS, WITH_GRADIENT, INTEGERS = torch.ones(2, 4), torch.ones(2, 4, requires_grad=True), torch.arange(3)


class Own(nn.Module):
    """Looks at its mode itself, in a function inside a method."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def scaled() -> torch.Tensor:
            return x * 2 if self.training else x

        return scaled()


class Inherits(Own):
    """Looks at it where it is defined."""


class Plain(nn.Module):
    """Does the same in both modes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def a_method() -> Callable[..., torch.Tensor]:
    return nn.Sequential(nn.Linear(4, 4), nn.Dropout()).eval().forward


def halfway() -> nn.Module:
    """One part is in training mode, the other is not: both modes are tried."""
    parts = nn.Sequential(nn.Dropout(), nn.Dropout())
    parts[0].eval()
    return parts


@pytest.mark.parametrize(
    ("function", "inputs", "goes_backward", "said"),
    [
        (torch.sin, (FLOATS,), False, [TYPES, "gradients"]),
        (torch.sin, (WITH_GRADIENT,), True, [TYPES]),
        (torch.sin, (INTEGERS,), False, [TYPES]),
        (lambda: 1, (), False, []),
        (nn.Linear(4, 4), (FLOATS,), True, [TYPES, "gradients of inputs"]),
        (nn.Linear(4, 4), (WITH_GRADIENT,), True, [TYPES]),
        (nn.Linear(4, 4), (WITH_GRADIENT,), False, [TYPES, "gradients"]),
        (nn.Embedding(4, 4), (INTEGERS,), True, [TYPES]),
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout()), (WITH_GRADIENT,), True, [TYPES, "evaluation mode"]),
        (nn.BatchNorm1d(4).eval(), (WITH_GRADIENT,), True, [TYPES, "training mode"]),
        (Inherits(), (WITH_GRADIENT,), True, [TYPES, "evaluation mode"]),
        (Plain(), (WITH_GRADIENT,), True, [TYPES]),
        (a_method(), (WITH_GRADIENT,), True, [TYPES, "training mode"]),
        (halfway(), (WITH_GRADIENT,), True, [TYPES]),
    ],
)
def test_what_the_example_is_not_is_named(
    function: Callable[..., object], inputs: tuple[torch.Tensor, ...], goes_backward: bool, said: list[str]
) -> None:
    assert never_tried(Target("f", function, Arguments(inputs)), goes_backward) == said


DRAWS_IN_TRAINING = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        x = self.drop(x) if x.std() > 0.5 else x
        return x * 2

def get_model():
    return Model().eval()

def example_inputs():
    return (torch.linspace(-1, 1, 8),)
"""


def test_a_model_that_is_given_in_one_mode_has_the_other_named(tmp_path: Path, captured: Callable[..., Path]) -> None:
    """Training would draw random numbers for the side that is not taken too."""
    file = tmp_path / "model.py"
    file.write_text(DRAWS_IN_TRAINING)
    request, fix, before = proposed(captured(file), "choose with torch.where")
    trial = asyncio.run(fixing.try_fix(request, fix, before))
    assert trial.verdict == "good"
    assert f"{TYPES}, gradients, training mode" in trial.reason
