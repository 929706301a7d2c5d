"""This module lists the operators of a program that draw random numbers, with their lines. Inductor
draws its own numbers for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from fx_explorer.capture.torch_compat.private_names import aot_autograd, make_boxed_func
from fx_explorer.instruments.bench.measure.calls import Caller, NetworkState, observed
from fx_explorer.instruments.numerics.measure.interpreting import is_repeatable
from fx_explorer.instruments.numerics.measure.node_comparison import line_near, operation_of
from fx_explorer.model import CaptureRequest


def random_operators(
    caller: Caller, plain: Callable[..., Any], state: NetworkState, request: CaptureRequest
) -> list[dict[str, Any]]:
    """Call the program with graphs that are not lowered, and return the operators, each line once:
    those with a line of the user's first.
    """
    nodes: dict[tuple[str, int], dict[str, Any]] = {}

    def compiler(graph_module: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        for node in graph_module.graph.nodes:
            if node.op != "call_function" or is_repeatable(node):
                continue
            line = line_near(node)
            entry = {
                "name": node.name,
                "operation": operation_of(node),
                "file": line.file,
                "line": line.line,
                "code": line.code,
            }
            nodes.setdefault((line.file, line.line), entry)
        boxed: Callable[..., Any] = make_boxed_func(graph_module.forward)
        return boxed

    backend = aot_autograd(fw_compiler=compiler, bw_compiler=compiler)
    function = torch.compile(plain, backend=backend, dynamic=request.dynamic)
    observed(Caller(caller.target, function, caller.trains, caller.has_grad), state)
    return sorted(nodes.values(), key=lambda entry: not entry["file"])
