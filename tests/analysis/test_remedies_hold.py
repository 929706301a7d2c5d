"""These tests check that a remedy does what it says: it is applied to a bare program, and torch's
compilations are counted.
"""

from __future__ import annotations

import sched
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

from fx_explorer.instruments.recompiles.call_sizes import _is_comparison, _is_not_met
from fx_explorer.instruments.recompiles.causes import causes
from tests.capture.recorded import Compile, record
from tests.exhaustive import with_others

Call = tuple[Any, ...]
Mark = Callable[..., object]

ones = torch.ones
mark_dynamic, mark_unbacked = torch._dynamo.mark_dynamic, torch._dynamo.decorators.mark_unbacked


def nothing(*_: object) -> None:
    return


def compilations(function: Any, calls: list[Call], before: Mark = nothing, **options: Any) -> int:
    """Count the compilations of a bare program, without a recorder."""
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(function, backend=counter, **options)
    before(*calls[0])
    for call in calls:
        compiled(*call)
    return int(counter.frame_count)


def first_remedy(tmp_path: Path, function: Any, calls: list[Call], **options: Any) -> str:
    def program(compile_: Compile) -> None:
        compiled = torch.compile(function, backend="eager", **options)
        for call in calls:
            compiled(*call)

    return causes(record(tmp_path / "s.fxs", program, backend="eager"))[0].remedy


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def pair(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.sum() + y.sum()


def looked_up(x: torch.Tensor) -> torch.Tensor:
    return x * [1, 2, 3, 4, 5, 6, 7, 8, 9, 10][x.shape[0]]


def times(x: torch.Tensor, k: float) -> torch.Tensor:
    return x * k


def scaled_if_set(x: torch.Tensor, k: int) -> torch.Tensor:
    if k:
        x = x * (1 + k)
    return x + 1


def scaled_if_odd(x: torch.Tensor, k: int) -> torch.Tensor:
    if k % 2:
        x = x * k
    return x + 1


def repeated(x: torch.Tensor, k: int) -> torch.Tensor:
    for i in range(k):
        x = x + i
    return x


def added(x: torch.Tensor, table: Any) -> torch.Tensor:
    for key in table:
        x = x + table[key]
    return x


def test_a_size_is_variable_with_one_compilation(tmp_path: Path) -> None:
    calls: list[Call] = [(ones(4),), (ones(6),), (ones(9),)]
    told = first_remedy(tmp_path, doubled, calls)
    assert (
        "torch._dynamo.mark_dynamic(x, 0) before the first call, or torch.compile(…, "
        "dynamic=True), also avoids this one"
    ) in told
    assert compilations(doubled, calls) == 2
    assert compilations(doubled, calls, lambda x: mark_dynamic(x, 0)) == 1
    assert compilations(doubled, calls, dynamic=True) == 1


def makes_its_own(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    torch._dynamo.graph_break()
    return y * 2 + y.mean()


def gives_on(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    torch._dynamo.graph_break()
    return taken_over(y + 1)


def taken_over(z: torch.Tensor) -> torch.Tensor:
    y = z.cos()
    torch._dynamo.graph_break()
    return y


class Keeps(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept = x.sin()
        torch._dynamo.graph_break()
        return self.kept * 2


def remedies(tmp_path: Path, function: Any) -> list[str]:
    def program(compile_: Compile) -> None:
        compiled = compile_(function)
        for size in (4, 6):
            compiled(ones(size))

    with record(tmp_path / "s.fxs", program, backend="eager") as reader:
        return [cause.remedy for cause in causes(reader)]


@pytest.mark.parametrize(
    ("function", "made"),
    with_others(
        [(makes_its_own, "y is made inside makes_its_own, at line ")],
        [
            (gives_on, "z is passed by gives_on, at line "),
            (Keeps(), "self.kept is created at each call inside Keeps.forward, at line "),
        ],
    ),
)
def test_what_the_users_code_does_not_hold_is_not_to_be_marked(
    tmp_path: Path, function: Any, made: str
) -> None:
    first, *others = remedies(tmp_path, function)
    assert "mark_dynamic(x, 0)" in first
    assert others
    assert not [remedy for remedy in others if "mark_dynamic" in remedy]
    assert made in " ".join(others)
    calls: list[Call] = [(ones(4),), (ones(6),)]
    frames = len(others) + 1
    assert compilations(function, calls, lambda x: mark_dynamic(x, 0)) > frames, "of no use there"
    assert compilations(function, calls, dynamic=True) == frames


def test_what_a_library_passes_is_not_to_be_marked(tmp_path: Path) -> None:
    def program(compile_: Compile) -> None:
        compiled = compile_(doubled)
        for size in (4, 6):
            events = sched.scheduler()
            events.enter(0, 0, compiled, (ones(size),))
            events.run()

    with record(tmp_path / "s.fxs", program, backend="eager") as reader:
        (cause,) = causes(reader)
    assert "x is passed by " in cause.remedy
    assert "sched.py:" in cause.remedy
    assert "of test_remedies_hold.py" in cause.remedy
    assert "mark_dynamic" not in cause.remedy


def test_all_sizes_that_differ_are_named(tmp_path: Path) -> None:
    """torch reports the first only: to mark that one spares nothing."""
    calls: list[Call] = [(ones(4, 5), ones(6)), (ones(7, 8), ones(9)), (ones(10, 11), ones(12))]
    told = first_remedy(tmp_path, pair, calls)
    for mark in ("mark_dynamic(x, 0)", "mark_dynamic(x, 1)", "mark_dynamic(y, 0)"):
        assert mark in told

    def marks(x: torch.Tensor, y: torch.Tensor) -> None:
        for tensor, index in ((x, 0), (x, 1), (y, 0)):
            mark_dynamic(tensor, index)

    assert compilations(pair, calls, lambda x, y: mark_dynamic(x, 0)) > 1
    assert compilations(pair, [(ones(4, 5), ones(6)), *calls[1:]], marks) == 1


def test_dynamic_true_is_not_offered_where_equal_sizes_are_taken_for_one(tmp_path: Path) -> None:
    calls: list[Call] = [(ones(4), ones(4)), (ones(5), ones(6)), (ones(7), ones(8))]
    told = first_remedy(tmp_path, pair, calls)
    assert "dynamic=True) does not: size 0 of y and size 0 of x were equal" in told
    assert "mark_dynamic(x, 0) and torch._dynamo.mark_dynamic(y, 0)" in told
    assert compilations(pair, calls, dynamic=True) == 2
    both = lambda x, y: (mark_dynamic(x, 0), mark_dynamic(y, 0))  # noqa: E731
    assert compilations(pair, [(ones(4), ones(4)), *calls[1:]], both) == 1


def test_the_remedy_of_sizes_that_were_taken_for_one_holds(tmp_path: Path) -> None:
    calls: list[Call] = [(ones(4), ones(4)), (ones(5), ones(6))]
    told = first_remedy(tmp_path, pair, calls, dynamic=True)
    assert "mark_dynamic(y, 0) and torch._dynamo.mark_dynamic(x, 0)" in told
    both = lambda x, y: (mark_dynamic(x, 0), mark_dynamic(y, 0))  # noqa: E731
    assert compilations(pair, [(ones(4), ones(4)), calls[1]], both, dynamic=True) == 1
    assert (
        compilations(pair, [calls[1], calls[0]], dynamic=True) == 1
    )  # a first call in which they differ


def test_sizes_that_vary_together_need_dynamic_true_only(tmp_path: Path) -> None:
    calls: list[Call] = [(ones(4), ones(4)), (ones(6), ones(6)), (ones(9), ones(9))]
    assert "or torch.compile(…, dynamic=True), also avoids this one" in first_remedy(
        tmp_path, pair, calls
    )
    assert compilations(pair, calls, dynamic=True) == 1


@pytest.mark.parametrize("sizes", with_others([(4, 1, 9)], [(1, 4, 9)]))
def test_sizes_of_one_are_unbacked(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    calls: list[Call] = [(ones(size),) for size in sizes]
    told = first_remedy(tmp_path, doubled, calls)
    assert "mark_unbacked(x, 0)" in told
    assert "dynamic=True" not in told
    assert compilations(doubled, calls, dynamic=True) == 2
    assert compilations(doubled, calls, lambda x: mark_unbacked(x, 0)) == 1


def test_a_size_of_one_that_is_broadcast_is_not_to_be_marked(tmp_path: Path) -> None:
    calls: list[Call] = [(ones(1), ones(4)), (ones(4), ones(4))]
    told = first_remedy(tmp_path, torch.add, calls)
    assert "or broadcasts it" in told
    with pytest.raises(AssertionError, match="Guard failed on the same frame"):
        compilations(torch.add, calls, lambda x, _: mark_unbacked(x, 0))


def test_a_size_that_the_code_needs_as_a_number_has_no_mark(tmp_path: Path) -> None:
    calls: list[Call] = [(ones(4),), (ones(6),), (ones(9),)]
    told = first_remedy(tmp_path, looked_up, calls)
    assert told.startswith("The code needs size 0 of x as a number")
    assert compilations(looked_up, calls, dynamic=True) == 3
    with pytest.raises(torch.fx.experimental.symbolic_shapes.ConstraintViolationError):
        compilations(looked_up, [(ones(4),)], lambda x: mark_dynamic(x, 0))


@pytest.mark.parametrize("values", with_others([(3, 5, 7)], [(2.0, 3.0, 4.0)]))
def test_a_number_is_variable_with_dynamic_true(tmp_path: Path, values: tuple[float, ...]) -> None:
    calls: list[Call] = [(ones(4), value) for value in values]
    assert "torch.compile(…, dynamic=True) makes k dynamic at once" in first_remedy(
        tmp_path, times, calls
    )
    assert compilations(times, calls) == 2
    assert compilations(times, calls, dynamic=True) == 1


@pytest.mark.parametrize("values", with_others([(0, 1, 2)], [(3, 0, 0)]))
def test_a_number_that_decides_a_branch_is_compiled_for_each_side(
    tmp_path: Path, values: tuple[int, ...]
) -> None:
    calls: list[Call] = [(ones(4), value) for value in values]
    told = first_remedy(tmp_path, scaled_if_set, calls)
    assert "avoids this recompile" not in told
    assert compilations(scaled_if_set, calls) == 2
    assert compilations(scaled_if_set, calls, dynamic=True) == 2


def test_a_remainder_that_decides_a_branch_is_compiled_for_each_side(tmp_path: Path) -> None:
    calls: list[Call] = [(ones(4), value) for value in (4, 7, 9)]
    told = first_remedy(tmp_path, scaled_if_odd, calls)
    assert "The code branches on k, and each branch is compiled, also with dynamic=True." in told
    assert compilations(scaled_if_odd, calls, dynamic=True) == 2


def test_the_condition_on_a_number_is_named(tmp_path: Path) -> None:
    calls: list[Call] = [(ones(4), value) for value in (0, 1, 2)]
    told = first_remedy(tmp_path, scaled_if_set, calls)
    assert "values with k != 0 do not recompile" in told
    assert "The code branches on k, and each branch is compiled, also with dynamic=True." in told


def test_dynamic_true_avoids_a_recompile_on_the_same_side(tmp_path: Path) -> None:
    calls: list[Call] = [(ones(4), value) for value in (3, 5, 7)]
    told = first_remedy(tmp_path, scaled_if_set, calls)
    assert "and also avoids this recompile." in told
    assert compilations(scaled_if_set, calls, dynamic=True) == 1


def test_a_number_that_decides_what_is_computed_is_compiled_for_each_value(tmp_path: Path) -> None:
    calls: list[Call] = [(ones(4), value) for value in (3, 5, 7)]
    told = first_remedy(tmp_path, repeated, calls)
    assert told.startswith("The code is compiled for every value of k.")
    assert "not tried" in told
    assert compilations(repeated, calls, dynamic=True) == 3


def test_values_without_their_keys_are_compiled_once(tmp_path: Path) -> None:
    calls: list[Call] = [(ones(4), {f"k{i}": ones(4)}) for i in range(3)]
    assert "pass the values as a list" in first_remedy(tmp_path, added, calls)
    assert compilations(added, calls) == 3
    assert (
        compilations(
            lambda x, items: sum(items, x), [(x, list(table.values())) for x, table in calls]
        )
        == 1
    )


class Holder(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.power = 2
        if kind == "parameter":
            self.table: torch.Tensor = nn.Parameter(ones(4))
        elif kind == "buffer":
            self.register_buffer("table", ones(4))
        else:
            self.table = ones(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x**self.power + self.table.sum()


def resized(kind: str, mark: bool = False, **options: Any) -> Callable[[Compile], int]:
    def program(compile_: Compile) -> int:
        counter, model = CompileCounter(), Holder(kind)
        compiled = torch.compile(model, backend=counter, **options)
        for size in (4, 5, 6):
            table = ones(size)
            model.table = nn.Parameter(table) if kind == "parameter" else table
            if mark and size == 4:
                mark_dynamic(model.table, 0)
            compiled(ones(7))
        return int(counter.frame_count)

    return program


def bare(program: Callable[[Compile], int], **config: Any) -> int:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(**config):
        return program(torch.compile)


@pytest.mark.parametrize("kind", with_others(["buffer"], ["parameter"]))
def test_the_sizes_of_parameters_and_buffers_stay(tmp_path: Path, kind: str) -> None:
    told = causes(record(tmp_path / "s.fxs", resized(kind)))[0].remedy
    assert told.startswith("Keep self.table at one size")
    assert "mark_dynamic" not in told
    assert bare(resized(kind, dynamic=True)) == 3
    assert bare(resized(kind, mark=True)) == 3


def test_those_of_parameters_are_variable_from_the_second_compilation_on_where_torch_is_told_so() -> (
    None
):
    assert bare(resized("parameter"), force_parameter_static_shapes=False) == 2


def test_those_of_a_plain_attribute_are_marked(tmp_path: Path) -> None:
    told = causes(record(tmp_path / "s.fxs", resized("plain")))[0].remedy
    assert "mark_dynamic(self.table, 0)" in told
    assert bare(resized("plain", mark=True)) == 1


def test_an_integer_of_a_module_is_variable_from_the_second_compilation_on(tmp_path: Path) -> None:
    def program(compile_: Compile) -> int:
        counter, model = CompileCounter(), Holder("plain")
        compiled = torch.compile(model, backend=counter)
        for model.power in (2, 3, 4):
            compiled(ones(7))
        return int(counter.frame_count)

    told = causes(record(tmp_path / "s.fxs", program))[0].remedy
    assert "allow_unspec_int_on_nn_module = True makes it dynamic from the second" in told
    assert (bare(program), bare(program, allow_unspec_int_on_nn_module=True)) == (3, 2)


@pytest.mark.parametrize("text", ["\0 != 0", "-" * 20_000 + "1 != 0", "(" * 500, "a !="])
def test_a_condition_of_a_damaged_session_decides_nothing(text: str) -> None:
    assert not _is_not_met(text, "a", "1")
    assert isinstance(_is_comparison(text), bool)


@pytest.mark.parametrize(("as_tensor", "number"), [(False, 2), (True, 1)])
def test_a_learning_rate_as_a_tensor(as_tensor: bool, number: int) -> None:
    layer = nn.Linear(4, 4)
    rate = torch.tensor(0.1) if as_tensor else 0.1
    optimizer = torch.optim.SGD(layer.parameters(), lr=rate)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    torch._dynamo.reset()
    counter = CompileCounter()
    step = torch.compile(lambda: optimizer.step(), backend=counter)
    for _ in range(4):
        layer(ones(2, 4)).sum().backward()
        step()
        scheduler.step()
    assert counter.frame_count == number


def test_the_remedy_for_a_learning_rate_names_the_tensor(tmp_path: Path) -> None:
    layer = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)

    def program(compile_: Compile) -> None:
        step = torch.compile(lambda: optimizer.step(), backend="eager")
        for rate in (0.5, 0.25):
            optimizer.param_groups[0]["lr"] = rate
            layer(ones(2, 4)).sum().backward()
            step()

    recompiles = causes(record(tmp_path / "s.fxs", program, backend="eager"))
    assert any("lr=torch.tensor(0.5)" in row.remedy for row in recompiles)
