"""These tests try a fix with gradients and in the mode that the example does not have; cases that
are still not tried are named.
"""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from fx_explorer.instruments.fixes.measure.beyond_example import (
    Way,
    never_tried,
    planned_calls,
    ways_beyond,
)
from fx_explorer.instruments.fixes.trial import try_fix
from fx_explorer.program.inputs import Arguments
from fx_explorer.program.target import Target
from tests.exhaustive import with_others
from tests.fixing.test_without_compiling import proposed

TYPES = "inputs of other types or dtypes or autocast"
FLOATS, WITH_GRADIENT, INTEGERS = (
    torch.ones(2, 4),
    torch.ones(2, 4, requires_grad=True),
    torch.arange(3),
)


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
    """Return a module with one part in training mode and the other not: both modes are tried."""
    parts = nn.Sequential(nn.Dropout(), nn.Dropout())
    parts[0].eval()
    return parts


GRADIENTS = ("gradients of inputs", True, None)


@pytest.mark.parametrize(
    ("function", "inputs", "may_have_gradients", "ways", "named"),
    [
        (torch.sin, (FLOATS,), True, [GRADIENTS], [TYPES]),
        (torch.sin, (FLOATS,), False, [], [TYPES, "gradients"]),
        (torch.sin, (WITH_GRADIENT,), True, [], [TYPES]),
        (torch.sin, (INTEGERS,), True, [], [TYPES]),
        (torch.sin, (INTEGERS,), False, [], [TYPES]),
        (lambda: 1, (), True, [], []),
        (nn.Linear(4, 4), (FLOATS,), True, [GRADIENTS], [TYPES]),
        (nn.Embedding(4, 4), (INTEGERS,), True, [], [TYPES]),
        (nn.Embedding(4, 4), (INTEGERS,), False, [], [TYPES, "gradients"]),
        (
            nn.Sequential(nn.Linear(4, 4), nn.Dropout()),
            (WITH_GRADIENT,),
            True,
            [("evaluation mode", False, False)],
            [TYPES],
        ),
        (
            nn.BatchNorm1d(4).eval(),
            (FLOATS,),
            True,
            [GRADIENTS, ("training mode", True, True)],
            [TYPES],
        ),
        (Inherits(), (WITH_GRADIENT,), True, [("evaluation mode", False, False)], [TYPES]),
        (Plain(), (WITH_GRADIENT,), True, [], [TYPES]),
        (a_method(), (WITH_GRADIENT,), True, [("training mode", False, True)], [TYPES]),
        (halfway(), (WITH_GRADIENT,), True, [], [TYPES]),
    ],
)
def test_what_the_example_is_not_is_tried_or_named(
    function: Callable[..., object],
    inputs: tuple[torch.Tensor, ...],
    may_have_gradients: bool,
    ways: list[Way],
    named: list[str],
) -> None:
    target = Target("f", function, Arguments(inputs))
    assert ways_beyond(target, may_have_gradients) == ways
    assert list(never_tried(target, may_have_gradients)) == named


def test_the_calls_in_another_way_have_several_values_and_come_last() -> None:
    made = list(planned_calls(Arguments((FLOATS,)), [GRADIENTS, ("training mode", False, True)]))
    unlike = [call for call in made if call.unlike_example]
    assert made[-len(unlike) :] == unlike
    assert len(unlike) == 12
    assert {call.training for call in unlike} == {None, True}
    assert not {id(call.arguments.args[0]) for call in unlike} & {
        id(call.arguments.args[0]) for call in made[: -len(unlike)]
    }
    assert all(call.arguments.args[0].requires_grad == (call.training is None) for call in unlike)


def model(forward: str, parts: str = "") -> str:
    return f"""
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {parts}

    def forward(self, x):
{textwrap.indent(textwrap.dedent(forward), " " * 8)}

def get_model():
    return Model().eval()

def example_inputs():
    return (torch.linspace(-1, 1, 8).view(2, 4) * 5,)
"""


def test_inputs_that_need_gradients_already_are_leaves_of_their_own_in_the_other_mode() -> None:
    *_, last = planned_calls(Arguments((WITH_GRADIENT,)), [("training mode", False, True)])
    (given,) = last.arguments.args
    assert given.is_leaf
    assert given.requires_grad
    assert given is not WITH_GRADIENT


DRAWS = model(
    "x = self.part(x) if x.std() > 0.5 else x\nreturn x * 2", "self.part = nn.Dropout(0.5)"
)
COUNTS = model(
    "x = self.part(x) if x.std() > 0.5 else x\nreturn x * 2",
    "self.part = nn.BatchNorm1d(4, affine=False)",
)
LOOPS = model("while x.abs().max() > 4.0:\n    x = x * 0.5\nreturn torch.tanh(x)")
CHANGES_IN_PLACE = model("x.mul_(2)\nprint('changed')\nreturn x + 1")


@pytest.mark.parametrize(
    ("text", "title", "verdict", "said"),
    with_others(
        [
            (
                DRAWS,
                "choose with torch.where",
                "refused",
                "random numbers, with the example inputs with a NaN, training mode",
            )
        ],
        [
            (
                CHANGES_IN_PLACE,
                "let torch do the print after the graph",
                "good",
                " or autocast; gradients of inputs",
            ),
            (COUNTS, "choose with torch.where", "refused", ", training mode"),
            (LOOPS, "loop with torch.while_loop", "refused", "gradients of inputs"),
            (
                CHANGES_IN_PLACE,
                "let torch do the print after the graph",
                "good",
                "equal in 20 calls; not tried: ",
            ),
        ],
    ),
    ids=with_others(
        ["random numbers"],
        [
            "and that it is named",
            "statistics",
            "gradients",
            "what the original does not support",
        ],
    ),
)
def test_a_fix_has_to_hold_in_the_other_mode_and_with_gradients(
    tmp_path: Path,
    captured: Callable[..., Path],
    warm_workers: None,
    text: str,
    title: str,
    verdict: str,
    said: str,
) -> None:
    file = tmp_path / "model.py"
    file.write_text(text)
    request, fix, before = proposed(captured(file, backend="eager"), title)
    trial = asyncio.run(try_fix(request, fix, before))
    assert trial.verdict == verdict, trial.reason
    assert said in trial.reason
