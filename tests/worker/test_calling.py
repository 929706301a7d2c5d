"""These tests call a target in this process: what is compiled, whether backward runs, and on which
device.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
import torch

from fx_explorer.capture.compiled_inside import is_compiled
from fx_explorer.errors import TargetError
from fx_explorer.model import CaptureRequest
from fx_explorer.program.calling import call_target, on_device
from fx_explorer.program.explaining import one_line
from fx_explorer.program.inputs import Arguments
from fx_explorer.program.target import Target


@dataclass
class Job:
    request: CaptureRequest = field(
        default_factory=lambda: CaptureRequest("m.py", "", backend="eager")
    )
    notes: list[str] = field(default_factory=list)
    trained: list[bool] = field(default_factory=list)

    def say(self, activity: str) -> None:
        pass

    def note(self, text: str) -> None:
        self.notes.append(text)

    def describe(self, target: Target, train: bool) -> None:
        self.trained.append(train)


def job(**request: object) -> Job:
    return Job(CaptureRequest("m.py", "", **{"backend": "eager", **request}))


def linear() -> Target:
    return Target("Linear", torch.nn.Linear(4, 2), Arguments((torch.ones(3, 4),)))


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> None:
    torch._dynamo.reset()


def test_a_model_with_parameters_is_trained_one_step_and_stays_in_its_mode() -> None:
    target, asked = linear(), job()
    target.callable.eval()
    call_target(target, asked)
    assert target.callable.weight.grad is not None
    assert not target.callable.training
    assert asked.trained == [True]


def test_without_training_nothing_is_recorded_for_backward() -> None:
    seen = []
    target = Target(
        "f",
        lambda x: seen.append(torch.is_grad_enabled()) or x,
        Arguments((torch.ones(1, requires_grad=True),)),
    )
    call_target(target, job(train=False))
    assert seen == [False]


def test_an_output_without_gradient_is_a_note_by_default_and_an_error_when_training_was_asked_for() -> (
    None
):
    target = Target("f", lambda x: x.argmax(), Arguments((torch.ones(3, requires_grad=True),)))
    asked = job()
    call_target(target, asked)
    assert asked.trained == [True, False]
    assert "no value that f returned has a gradient" in asked.notes[0]
    with pytest.raises(TargetError, match="--train: no value that f returned"):
        call_target(target, job(train=True))


def test_what_the_target_compiled_itself_is_not_compiled_again() -> None:
    function = torch.compile(lambda x: x + 1, backend="eager")
    own = torch.nn.Linear(4, 2)
    own.compile(backend="eager")
    assert is_compiled(function)
    assert is_compiled(own)
    assert is_compiled(torch.compile(torch.nn.Linear(4, 2), backend="eager"))
    assert not is_compiled(torch.nn.Linear(4, 2))
    asked = job(backend="inductor")
    call_target(Target("f", function, Arguments((torch.ones(1),))), asked)
    assert "f itself calls torch.compile" in asked.notes[0]


def test_a_device_takes_parameters_and_nested_inputs_and_keeps_what_is_shared() -> None:
    ids, scale = torch.ones(2, 3).long(), torch.ones(2, requires_grad=True)
    target = Target("Linear", torch.nn.Linear(3, 2), Arguments((ids, [scale]), {"labels": ids}))
    moved = on_device(target, "meta")
    assert {t.device.type for t in moved.differentiable()} == {"meta"}
    assert moved.arguments.args[0] is moved.arguments.keywords["labels"]
    new_scale = moved.arguments.args[1][0]
    assert (new_scale.requires_grad, new_scale.is_leaf) == (True, True)


class Pair(NamedTuple):
    first: torch.Tensor
    second: int


@dataclass(frozen=True)
class Batch:
    ids: torch.Tensor


X = torch.ones(1)


@pytest.mark.parametrize(
    "holder",
    [[X], (X,), Pair(X, 1), {"a": X}, OrderedDict(a=X), defaultdict(list, a=X), Batch(X)],
    ids=lambda h: type(h).__name__,
)
def test_inputs_are_moved_wherever_they_are_held_and_what_holds_them_stays_what_it_is(
    holder: object,
) -> None:
    moved = on_device(Target("f", len, Arguments((holder,))), "meta").arguments
    assert [tensor.device.type for tensor in moved.tensors()] == ["meta"]
    assert type(moved.args[0]) is type(holder)
    assert list(Arguments((holder,)).tensors()) == [X], "the program's own stay where they are"


def test_an_error_in_one_line_tells_its_cause() -> None:
    """As torch's BackendCompilerFailed puts it."""
    assert one_line(RuntimeError("backend='x' raised:\nImportError: no x\n\nmore")) == (
        "RuntimeError: backend='x' raised: ImportError: no x"
    )
    assert one_line(ValueError("a shape\nis wrong")) == "ValueError: a shape"
    assert one_line(KeyError()) == "KeyError"
