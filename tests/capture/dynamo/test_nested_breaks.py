"""These tests check nested graph breaks, where one break makes a resume function for each function
on the way to it: all are listed, and the tensors that cross are those that a bare run passes from
graph to graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from fx_explorer import model
from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.guards.guard_tree import guard_groups
from fx_explorer.instruments.memory.saved_values import saved_values, user_names
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, failures, record
from tests.exhaustive import in_exhaustive_runs, one_of, with_others

pytestmark = pytest.mark.skipif(
    not hasattr(torch._dynamo.config, "nested_graph_breaks"), reason="torch has no such option"
)


def innermost(x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    x = x + shift
    kept = x.sin()
    torch._dynamo.graph_break()  # in the innermost
    return x * kept


def returning(x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return innermost(x * 2, shift)


def middle(x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    y = x.exp()
    x = returning(x, shift)
    return x * y


def outer(x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    y = x.cos()
    x = middle(x, shift)
    return x - y * shift


def branching(x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    z = x.cos()
    if x.sum() > 0:  # in the branch
        return z * 2
    return z.sin()


def calls_branching(x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    y = shift.exp()
    return branching(x, shift) + y


def deleting(x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    a, b = x.sin(), x.cos()
    torch._dynamo.graph_break()  # before a deletion
    c = a + shift
    del a
    return c * b


class Inner(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.last = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc(x)
        torch._dynamo.graph_break()  # in a module
        return self.last(x)


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        x = self.inner(x * shift)
        return x * shift


PROGRAMS: dict[str, Callable[[], Callable[..., torch.Tensor]]] = {
    "functions": lambda: outer,
    "branch": lambda: calls_branching,
    "deletion": lambda: deleting,
    "modules": Outer,
}


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(4, 4, requires_grad=True), torch.full((4, 4), 2.0, requires_grad=True)


def crossing_bytes(function: Callable[..., torch.Tensor]) -> list[int]:
    """Return the bytes of each tensor that a graph returns and a later graph takes, in a run
    without our recorder.
    """
    returned: dict[int, torch.Tensor] = {}
    crossing: dict[int, int] = {}

    def backend(module: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            for value in args:
                if id(value) in returned:
                    crossing[id(value)] = value.nbytes
            results = module.forward(*args)
            returned.update({id(value): value for value in results})
            return results

        return run

    torch._dynamo.reset()
    with warnings.catch_warnings(), torch._dynamo.config.patch(nested_graph_breaks=True):
        warnings.simplefilter("ignore")  # torch's own, while compiling
        torch.compile(function, backend=backend)(*inputs())
    torch._dynamo.reset()
    return list(crossing.values())


@pytest.fixture(scope="module", params=one_of(2, PROGRAMS))
def run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SessionReader, Callable[..., torch.Tensor], set[str]]]:
    """A session of a program, the program, and the names of torch's resume functions."""
    function = PROGRAMS[request.param]()
    resumed: set[str] = set()

    def program(compile_: Compile) -> None:
        counters["resumes"].clear()
        compile_(function)(*inputs()).sum().backward()
        resumed.update(counters["resumes"])

    with torch._dynamo.config.patch(nested_graph_breaks=True):
        path = tmp_path_factory.mktemp("nested") / "s.fxs"
        with record(path, program) as session:
            yield session, function, resumed


def the_break(session: SessionReader) -> DistinctBreak:
    (distinct,) = distinct_breaks(session)
    return distinct


def test_every_resume_function_of_a_break_is_listed(
    run: tuple[SessionReader, Callable[..., torch.Tensor], set[str]],
) -> None:
    session, _, resumed = run
    assert set(the_break(session).resume_functions) == resumed
    assert not failures(session)


def test_the_tensors_at_a_nested_break_are_those_that_graphs_hand_on(
    run: tuple[SessionReader, Callable[..., torch.Tensor], set[str]],
) -> None:
    session, function, _ = run
    crossing = crossing_bytes(function)
    cost = the_break(session).cost
    assert cost.read_again.count == len(crossing)
    assert cost.read_again.size_bytes == sum(crossing)
    assert cost.kernels > 0


def test_no_name_on_screen_is_one_of_dynamos_lists(
    run: tuple[SessionReader, Callable[..., torch.Tensor], set[str]],
) -> None:
    session, _, _ = run
    names = [
        name
        for group in guard_groups(session)
        for name in (group.title, *(check.name for check in group.checks))
    ]
    assert not [name for name in names if "__nested" in name or "__resume" in name]
    assert {row.module for row in session.rows(model.Node)} <= {
        "", "inner", "inner.fc", "inner.last",
    }  # fmt: skip


@in_exhaustive_runs
@pytest.mark.parametrize("nested", with_others([True], [False]))
def test_parameters_that_a_graph_holds_are_told_as_those_that_it_takes(
    tmp_path: Path, nested: bool
) -> None:
    """``install_free_tensors`` makes them attributes of the graph and changes nothing else."""
    saved = []
    for is_free in (False, True):
        torch.manual_seed(0)
        model_ = Outer()

        def program(compile_: Compile, model_: Outer = model_) -> None:
            compile_(model_)(*inputs()).sum().backward()

        options = {"nested_graph_breaks": nested, "install_free_tensors": is_free}
        with torch._dynamo.config.patch(options):
            with record(tmp_path / f"{is_free}.fxs", program) as session:
                assert not failures(session)
                values = saved_values(session)
                names = user_names(session, values)
                kinds = {(names.get(one.saved.id), one.saved.kind) for one in values}
                saved.append((kinds, the_break(session).cost.kept_twice))
    assert saved[0] == saved[1]
    assert any((name or "").endswith("last.weight") for name, _ in saved[0][0])
