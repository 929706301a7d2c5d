"""These tests check which nodes count as computing nothing, against what PyTorch dispatches when
the call is made.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fx_explorer.capture.recording.fx_graphs import computes_nothing, target_name


class Computed(TorchDispatchMode):
    """Notes the operators that are no views."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[str] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if not function.is_view:
            self.operators.append(str(function))
        return function(*args, **(kwargs or {}))


A, B, PLACES = torch.ones(4, 3), torch.ones(4, 3), torch.tensor([2, 0])
PART = slice(1, None)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        *(
            (one, (A, B))
            for one in (
                operator.mul,
                operator.add,
                operator.iadd,
                operator.imul,
                operator.gt,
                operator.truediv,
            )
        ),
        *((one, (A, 2)) for one in (operator.mul, operator.pow, operator.mod)),
        (operator.matmul, (A, torch.ones(3, 2))),
        (operator.neg, (A,)),
        (operator.setitem, (torch.ones(4), 0, 1.0)),
        *(
            (operator.getitem, (A, index))
            for index in (0, PART, (PART, 1), (None, PART), (..., -1))
        ),
        *((operator.getitem, (A, index)) for index in (PLACES, (PART, PLACES), [0, 2], A > 0)),
        (operator.getitem, ((A, B), 0)),
        (operator.getitem, (A.shape, 1)),
        *((one, (7, 2)) for one in (operator.mul, operator.floordiv, operator.ge)),
    ],
)
def test_an_operator_of_pythons_computes_nothing_where_it_dispatches_nothing(
    function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    node = called(function, arguments)
    with Computed() as computed:
        node.meta["example_value"] = function(*arguments)
    assert computes_nothing(node, target_name(node)) == (computed.operators == []), (
        computed.operators
    )


def called(function: Callable[..., Any], arguments: tuple[Any, ...]) -> torch.fx.Node:
    """A node that calls the function, whose tensors are inputs of its graph."""
    graph = torch.fx.Graph()

    def input_like(value: Any) -> Any:
        if not isinstance(value, (torch.Tensor, torch.Size)) and not (
            isinstance(value, tuple) and value[0] is A
        ):
            return tuple(map(input_like, value)) if isinstance(value, tuple) else value
        placeholder = graph.placeholder("x")
        placeholder.meta["example_value"] = value
        return placeholder

    return graph.call_function(function, tuple(map(input_like, arguments)))
