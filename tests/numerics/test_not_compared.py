"""These tests check that what ``numerics`` cannot run alone is listed, and not taken as equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from fx_explorer.instruments.numerics.measure.compared_decompositions import (
    DecompositionInterpreter,
)
from fx_explorer.instruments.numerics.measure.interpreting import eager_values, wide_values


def graph_of(function: Callable[..., Any]) -> fx.GraphModule:
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(function)(torch.ones(3))


def fails(*_: Any) -> Any:
    raise RuntimeError("needs a fake tensor\nand more")


def test_a_decomposition_that_cannot_be_called_is_listed_once_with_its_reason() -> None:
    graph = graph_of(lambda x: torch.tanh(torch.tanh(x)))
    interpreter = DecompositionInterpreter(graph, {torch.ops.aten.tanh.default: fails})
    interpreter.run(torch.ones(3))
    assert interpreter.finding is None
    assert interpreter.not_compared == [
        "Not compared: the decomposition of aten.tanh.default (RuntimeError: needs a fake tensor)."
    ]


def test_a_decomposition_that_declines_is_no_gap() -> None:
    graph = graph_of(torch.tanh)
    table = {torch.ops.aten.tanh.default: lambda *_: NotImplemented}
    interpreter = DecompositionInterpreter(graph, table)
    interpreter.run(torch.ones(3))
    assert interpreter.not_compared == []


def test_an_operator_without_float64_is_listed_and_judged_by_eager_mode() -> None:
    def narrow_only(x: torch.Tensor) -> torch.Tensor:
        if x.dtype == torch.float64:
            raise TypeError("no float64 here")
        return x * 2

    graph = fx.Graph()
    given = graph.placeholder("x")
    graph.output(graph.call_function(narrow_only, (given,)))
    module = fx.GraphModule(torch.nn.Module(), graph)
    eager, _ = eager_values(module, [torch.ones(2)])
    not_compared: list[str] = []
    _, (exact,) = wide_values(module, [torch.ones(2)], eager, not_compared)
    assert exact.tolist() == [2.0, 2.0]
    (sentence,) = not_compared
    assert sentence.startswith("Judged by eager mode instead of float64: ")
    assert sentence.endswith("(TypeError: no float64 here).")
