"""These tests check that what ``numerics`` cannot run by itself is listed, and not taken as equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from fx_explorer.instruments.numerics.measure.decompositions import DecompositionInterpreter


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
