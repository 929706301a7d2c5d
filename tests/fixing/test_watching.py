"""These tests check the values kept from a script while it runs: gradients at each ``backward()``,
and the variables of the caller of compiled code.
"""

from __future__ import annotations

import torch

from fx_explorer.instruments.fixes.measure.reachable import ReachableWalk
from fx_explorer.instruments.fixes.measure.script_results import (
    MOST_ELEMENTS,
    BackwardCalls,
    Callers,
)


def test_gradients_of_each_backward_are_kept_though_the_program_throws_them_away() -> None:
    model, backwards = torch.nn.Linear(3, 2), BackwardCalls()
    with backwards.watched():
        for factor in (1.0, 2.0):
            (model(torch.ones(1, 3)) * factor).sum().backward()
            model.zero_grad()
        torch.autograd.grad(model(torch.ones(1, 3)).sum(), model.weight)
    assert backwards.count == 2, "grad() leaves no gradients"
    kept = backwards.of_leaves({id(model.weight): "model.weight"})
    assert [(name, gradient.tolist()) for name, gradient in kept.items()] == [
        ("the gradient of model.weight at call 1 of backward()", [1.0] * 6),
        ("the gradient of model.weight at call 2 of backward()", [2.0] * 6),
        ("the gradient of a tensor [2] at call 1 of backward()", [1.0] * 2),
        ("the gradient of a tensor [2] at call 2 of backward()", [2.0] * 2),
    ]


def test_gradients_of_what_is_gone_go_by_shape_and_size() -> None:
    backwards = BackwardCalls()
    with backwards.watched():
        for factors in (
            (3.0, 1.0),
            (1.0, 3.0),
        ):  # the order in which a graph has its leaves is no one's
            leaves = [torch.ones(2, requires_grad=True) for _ in factors]
            sum(
                (leaf * factor).sum() for leaf, factor in zip(leaves, factors, strict=True)
            ).backward()
    kept = backwards.of_leaves({})
    at = [
        f"the gradient of a tensor [2] at call {call} of backward(), {rank} of 2"
        for call in (1, 2)
        for rank in (1, 2)
    ]
    assert [kept[name].tolist() for name in at] == [[1.0, 1.0], [3.0, 3.0]] * 2


def test_backwards_inside_a_backward_are_part_of_it() -> None:
    from torch.utils.checkpoint import checkpoint

    weight, backwards = torch.ones(3, requires_grad=True), BackwardCalls()
    with backwards.watched():
        checkpoint(lambda x: x * x, weight * 1, use_reentrant=True).sum().backward()
    assert backwards.count == 1
    assert list(backwards.of_leaves({id(weight): "weight"})) == [
        "the gradient of weight at call 1 of backward()"
    ]


def test_of_a_large_gradient_evenly_spaced_elements_are_kept() -> None:
    weight, backwards = torch.zeros(10 * MOST_ELEMENTS + 1, requires_grad=True), BackwardCalls()
    with backwards.watched():
        (weight * torch.arange(len(weight))).sum().backward()
    (kept,) = backwards.of_leaves({id(weight): "weight"}).values()
    assert len(kept) <= MOST_ELEMENTS
    assert kept.diff().unique().tolist() == [11.0]


def test_variables_are_seen_as_they_are_at_the_end_of_the_last_call() -> None:
    callers = Callers()

    def inner(given: int) -> None:
        callers.note()
        given += 1
        seen.append(given)

    seen: list[int] = []
    inner(1)
    inner(5)
    names = dict(callers.variables())
    of_inner = {
        name.partition("()'s ")[2]: value for name, value in names.items() if "inner()" in name
    }
    assert of_inner["given"] == 6
    assert of_inner["seen"] is seen


def test_the_state_of_an_optimizer_has_the_name_of_the_parameter() -> None:
    model = torch.nn.Linear(3, 2)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(1, 3)).sum().backward()
    opt.step()
    walk = ReachableWalk(lambda path: False)
    walk.add("state", "global model", model)
    walk.add("global", "global opt", opt)
    assert "global opt.state[model.weight]['momentum_buffer']" in walk.reached().values["global"]
