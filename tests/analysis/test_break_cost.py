"""These tests check the cost of graph breaks on programs small enough to count by hand, and the
tree of calls they are counted on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from fx_explorer import model
from fx_explorer.instruments.breaks.break_cost import NO_COST, BreakCost
from fx_explorer.instruments.breaks.call_tree import FunctionCall, call_trees, tree_lines, trees
from fx_explorer.instruments.breaks.cut_tensors import Tensors, size_bytes
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, record

ROWS, COLUMNS, FLOAT_BYTES = 4, 8, 4
TENSOR_BYTES = ROWS * COLUMNS * FLOAT_BYTES


def helper(x: torch.Tensor) -> torch.Tensor:
    x = x * 3
    torch._dynamo.graph_break()  # in the helper
    return x + 3


def program(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    h, k, shown = x.sin(), x.cos(), x.exp()
    print(shown.sum(), end="")  # first
    torch._dynamo.graph_break()  # second
    x = h * k
    x = helper(x)
    return weight * 2


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionReader]:
    def run(compile_: Compile) -> None:
        x = torch.randn(ROWS, COLUMNS, requires_grad=True)
        compile_(program)(x, torch.ones(2, requires_grad=True)).sum().backward()

    with record(tmp_path_factory.mktemp("cost") / "s.fxs", run) as reader:
        yield reader


@pytest.fixture
def cost(session: SessionReader) -> Callable[[str], BreakCost]:
    """Return a function that finds the cost of the break on the line with a comment."""

    def of(comment: str) -> BreakCost:
        (one,) = [one for one in distinct_breaks(session) if one.code.endswith(f"# {comment}")]
        return one.cost

    return of


def test_a_cut_costs_a_graph_and_the_tensors_that_cross_it(
    cost: Callable[[str], BreakCost],
) -> None:
    """h and k are used behind the next cut: their product needs both for its backward. One kernel
    makes them (and the sum of ``shown``, which only Python sees), another one reads them.
    ``shown.sum()`` is one float.
    """
    found = cost("first")
    assert (found.extra_graphs, found.functions_in_python) == (1, 0)
    assert found.read_again == Tensors(2, 2 * TENSOR_BYTES)
    assert found.handed_over == Tensors(3, 2 * TENSOR_BYTES + FLOAT_BYTES)
    assert found.saved == Tensors(2, 2 * TENSOR_BYTES)
    assert found.kernels == 2
    assert found.run_s is None


def test_a_cut_without_a_graph_before_it_adds_none(cost: Callable[[str], BreakCost]) -> None:
    assert cost("second") == NO_COST


def test_a_cut_in_a_function_that_is_called_cuts_its_callers_too(
    cost: Callable[[str], BreakCost],
) -> None:
    """``program`` is cut where it calls the helper: before it, the helper, and the rest. The helper
    is cut in two. Of the tensors, h * k is passed to the helper, and x * 3 is used by the helper's
    rest, which needs nothing for a backward.
    """
    found = cost("in the helper")
    assert found.extra_graphs == 2 + 1
    assert found.handed_over == Tensors(2, 2 * TENSOR_BYTES)
    assert found.read_again == Tensors(1, TENSOR_BYTES)
    assert found.saved == Tensors()
    assert found.kernels == 2


def test_the_costliest_break_comes_first(session: SessionReader) -> None:
    found = distinct_breaks(session)
    assert [one.code.partition("# ")[2] for one in found] == ["in the helper", "first", "second"]
    assert [one.cost.extra_graphs for one in found] == [3, 1, 0]


def test_the_tree_says_who_called_whom_and_what_became_a_graph(session: SessionReader) -> None:
    def told(one: FunctionCall) -> tuple[object, ...]:
        name = one.function.replace("torch_dynamo_resume_in_", "").partition("_at_")[0]
        return name, one.is_resume, len(one.graphs), *map(told, one.calls)

    helper_tree = ("helper", False, 1, ("helper", True, 1))
    last = ("program", True, 1)
    assert [told(root) for root in call_trees(session)] == [
        ("program", False, 1, ("program", True, 0, ("program", True, 1, helper_tree, last)))
    ]
    assert session.meta("counters")["stats"]["unique_graphs"] == 5


def rows(
    *compilations: tuple[str, str, int, int],
) -> tuple[list[model.Compilation], dict[int, tuple[model.Frame, ...]]]:
    """(name, function, first line, line of ``f`` it was called at) of each; ``f`` begins in line 1."""
    made = [
        model.Compilation(i, name, 0, 0, function, "/p.py", line, stack=i if at else 0)
        for i, (name, function, line, at) in enumerate(compilations, 1)
    ]
    return made, {
        row.id: (model.Frame("/p.py", at, "f"),)
        for row, (_, _, _, at) in zip(made, compilations, strict=True)
    }


def test_compilations_for_other_inputs_are_one_function() -> None:
    made, stacks = rows(
        ("0/0", "f", 1, 0), ("1/0", "g", 9, 3), ("1/1", "g", 9, 3), ("0/1", "f", 1, 0)
    )
    (root,) = trees(made, stacks, [], [])
    assert [row.name for row in root.compilations] == ["0/0", "0/1"]
    assert [(one.function, one.called_at, len(one.compilations)) for one in root.calls] == [
        ("g", 3, 2)
    ]


def test_a_restart_is_told_unless_a_break_made_it() -> None:
    row = model.Compilation(
        1,
        "0/0",
        0,
        0,
        "f",
        "/p.py",
        1,
        attempts=3,
        restart_reasons=("why", "a number became a tensor"),
    )
    hit = model.GraphBreak(1, 1, "GB0025", "why", "", (), "/p.py", 3, "x")
    (root,) = trees([row], {}, [], [hit])
    assert root.restart_reasons == ("a number became a tensor",)
    assert [line.strip() for line in tree_lines(root)][1:] == [
        "↻ Dynamo restarted: a number became a tensor",
        "✗ p.py:3  x",
    ]


def test_after_a_reset_numbers_are_given_again() -> None:
    made, stacks = rows(("0/0", "f", 1, 0), ("0/0#2", "f", 1, 0))
    assert [root.frame for root in trees(made, stacks, [], [])] == ["0", "0#2"]


def test_a_break_of_an_attempt_that_was_given_up_is_its_functions() -> None:
    whole = model.Compilation(1, "0/0", 0, 0, "f", "/p.py", 1, status="broke")
    attempt = model.Compilation(2, "0/0_0", 0, 0, "f", "/p.py", 1, status="restarted")
    hit = model.GraphBreak(1, 2, "GB0025", "why", "", (), "/p.py", 3, "x")
    (root,) = trees([whole, attempt], {}, [], [hit])
    assert (root.breaks, [row.name for row in root.compilations]) == ((hit,), ["0/0"])


@pytest.mark.parametrize(
    ("dtype", "shape", "expected"),
    [
        ("f32", ("4", "8"), 128),
        ("i64", (), 8),
        ("b8", ("3",), 3),
        ("bf16", ("2", "2"), 8),
        ("f32", ("s77",), None),
        ("", None, None),
    ],
)
def test_bytes_of_a_tensor(dtype: str, shape: tuple[str, ...] | None, expected: int | None) -> None:
    assert size_bytes(dtype, shape) == expected
