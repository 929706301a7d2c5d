"""These tests check the errors that a program has because of what torch.compile returns. Each is
raised by torch itself.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fx_explorer.findings.every_kind import findings
from fx_explorer.findings.program_errors import wrapper_error


def compiled() -> torch.nn.Module:
    return torch.compile(torch.nn.Linear(2, 2), backend="eager")


def load_into_the_model() -> None:
    torch.nn.Linear(2, 2).load_state_dict(compiled().state_dict())


def load_into_the_wrapper() -> None:
    compiled().load_state_dict(torch.nn.Linear(2, 2).state_dict())


def make_a_scheduler() -> None:
    optimizer = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)
    optimizer.step = torch.compile(optimizer.step, backend="eager")  # type: ignore[method-assign]
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)


def pickle_a_function() -> None:
    pickle.dumps(torch.compile(load_into_the_model, backend="eager"))


def error_of(function: Callable[[], None]) -> str:
    try:
        function()
    except (RuntimeError, AttributeError, pickle.PicklingError):
        return traceback.format_exc()
    raise AssertionError("torch raised nothing")


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (load_into_the_model, "model._orig_mod.state_dict()"),
        (load_into_the_wrapper, "model._orig_mod.load_state_dict"),
        (make_a_scheduler, "Create the scheduler first"),
        (pickle_a_function, "Pickle before torch.compile is called"),
    ],
)
def test_an_error_due_to_the_wrapper_is_explained(function: Callable[[], None], what: str) -> None:
    known = wrapper_error(error_of(function))
    assert known is not None
    assert any(what in remedy for remedy in known.remedies)


def load_another_model() -> None:
    torch.nn.Linear(2, 2).load_state_dict(torch.nn.Bilinear(2, 2, 2, bias=False).state_dict())


def pickle_a_local_function() -> None:
    pickle.dumps(lambda: 1)


@pytest.mark.parametrize("function", [load_another_model, pickle_a_local_function])
def test_an_error_of_another_cause_is_none(function: Callable[[], None]) -> None:
    assert wrapper_error(error_of(function)) is None


SAVED = """
import torch

def make():
    return torch.nn.Linear(2, 2)

model = torch.compile(make(), backend="eager")
model(torch.ones(1, 2))
make().load_state_dict(model.state_dict())
"""


def test_the_error_of_the_program_is_a_finding_with_its_line(
    tmp_path: Path, captured, reader
) -> None:
    file = tmp_path / "saved.py"
    file.write_text(SAVED)
    (finding,) = findings(reader(captured(file, exit_code=3)))
    assert finding.kind == "program error"
    assert finding.place is not None
    assert finding.place.line + 1 == 9
    assert "Unexpected" in finding.detail or "Missing" in finding.detail


SCHEDULED = """
import torch

optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1)
optimizer.step = torch.compile(optimizer.step, backend="eager")
torch.optim.lr_scheduler.StepLR(optimizer, 1)
"""


def test_the_line_is_known_where_nothing_was_compiled(tmp_path: Path, captured, reader) -> None:
    file = tmp_path / "scheduled.py"
    file.write_text(SCHEDULED)
    found = findings(reader(captured(file, exit_code=3)))
    (finding,) = [row for row in found if row.kind == "program error"]
    assert "It happened in scheduled.py:6: torch.optim.lr_scheduler.StepLR" in finding.detail
