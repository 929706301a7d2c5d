"""This module finds the write into a tensor that AOTAutograd gets wrong. It makes graphs without
writes (functionalization): a write into a view becomes a new tensor, which the inverse of the view
puts back into the base (torch/csrc/../aten/src/ATen/FunctionalInverses.cpp).

Each write of Dynamo's graphs is run as the last of the operators before it, in eager mode and under
``torch.func.functionalize``, which does the same as AOTAutograd, on the program's inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from fx_explorer.instruments.bench.measure.calls import Caller, NetworkState, observed
from fx_explorer.instruments.numerics.measure.interpreting import (
    as_list,
    copied_graph,
    copied_inputs,
    widened,
)
from fx_explorer.instruments.numerics.measure.node_comparison import (
    compare_values,
    line_near,
    operation_of,
    precision_of,
)
from fx_explorer.model import CaptureRequest, NumericsFinding
from fx_explorer.program.equal_results import ResultDifference
from fx_explorer.program.explaining import one_line

MOST_WRITES = 200
"""Largest number of writes that are compared, each with all operators before it."""

METHOD = (
    "Each write into a tensor was run after the preceding operators, in eager mode and under "
    "torch.func.functionalize, on the same inputs."
)

NONE_ALONE = "Each write into a tensor gives the same result under torch.func.functionalize."


def wrong_write(
    caller: Caller, plain: Callable[..., Any], state: NetworkState, request: CaptureRequest
) -> tuple[NumericsFinding | None, list[str]]:
    """Call the program with Dynamo's graphs in eager mode. Return the first write that is
    wrong when it is functionalized, or None, and sentences on what could not be compared.
    """
    findings: list[NumericsFinding] = []
    not_compared: list[str] = []

    def backend(graph_module: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        graph = copied_graph(graph_module)

        def call(*inputs: Any) -> Any:
            if not findings:
                findings.extend(_wrong_writes(graph, inputs, not_compared))
            return graph_module(*inputs)

        return call

    function = torch.compile(plain, backend=backend, dynamic=request.dynamic)
    observed(Caller(caller.target, function, caller.trains, caller.has_grad), state)
    if findings:
        return findings[0], not_compared
    return None, [*not_compared, NONE_ALONE]


def _wrong_writes(
    graph: fx.GraphModule, inputs: Sequence[Any], not_compared: list[str]
) -> Iterator[NumericsFinding]:
    """Yield the first write of a graph after which a value differs."""
    writes = [node for node in graph.graph.nodes if writes_into_a_tensor(node)]
    for write in writes[:MOST_WRITES]:
        until, names = _graph_until(graph, write)
        try:
            eager = _run(until, inputs)
            functional = _run(torch.func.functionalize(until), inputs)
        except Exception as error:  # noqa: BLE001 - it is listed as not compared
            not_compared.append(f"Not compared: {operation_name(write)} ({one_line(error)}).")
            continue
        precision = precision_of(eager)
        for name, ours, theirs in zip(names, functional, eager, strict=True):
            difference = compare_values(ours, theirs, widened(theirs), precision)
            if difference is not None and difference.kind == "differs":
                yield _finding(write, name, difference)
                return


def _run(function: Callable[..., Any], inputs: Sequence[Any]) -> list[Any]:
    with torch.no_grad(), torch.random.fork_rng():
        return as_list(function(*copied_inputs(inputs)))


def writes_into_a_tensor(node: fx.Node) -> bool:
    """Return whether a node of Dynamo's writes into a tensor that it is given."""
    name = operation_name(node).rpartition(".")[2]
    if node.op == "call_method":
        return name.endswith("_") and not name.endswith("__")
    if node.op != "call_function":
        return False
    schema = getattr(node.target, "_schema", None)
    is_operator = name in ("setitem", *_IN_PLACE)
    return bool(getattr(schema, "is_mutable", False)) or is_operator or "out" in node.kwargs


_IN_PLACE = ("iadd", "isub", "imul", "itruediv", "ifloordiv", "ipow", "iand", "ior", "ixor")
"""Functions of Python's module operator for ``+=`` and the like."""


def operation_name(node: fx.Node) -> str:
    if node.op == "call_method":
        return f"Tensor.{node.target}"
    return operation_of(node)


def _graph_until(graph: fx.GraphModule, last: fx.Node) -> tuple[fx.GraphModule, list[str]]:
    """Return the graph up to a node, with all tensors so far as outputs, and their names."""
    changed = copied_graph(graph)
    nodes = list(changed.graph.nodes)
    position = next(i for i, node in enumerate(nodes) if node.name == last.name)
    for node in reversed(nodes[position + 1 :]):
        changed.graph.erase_node(node)
    kept = [node for node in nodes[: position + 1] if _is_tensor(node)]
    changed.graph.output(tuple(kept))
    changed.graph.lint()
    changed.recompile()
    return changed, [node.name for node in kept]


def _is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta.get("example_value"), torch.Tensor)


def _finding(write: fx.Node, name: str, difference: ResultDifference) -> NumericsFinding:
    line = line_near(write)
    written = next(iter(write.all_input_nodes), None)
    into = _words_of(written) if written is not None else "a tensor"
    place = str(list(difference.place)) if difference.place else ""
    values = ""
    if difference.there is not None:
        values = (
            f": it is {difference.there[0]:.6g} with functionalization, and "
            f"{difference.there[1]:.6g} in eager mode"
        )
    return NumericsFinding(
        "aot",
        node=write.name,
        operation=operation_name(write),
        file=line.file,
        line=line.line,
        code=line.code,
        reasons=(
            f"It writes into {into}. AOTAutograd replaces the write by a new tensor, which it "
            f"puts back with the inverse of the view (functionalization): after that {name} "
            f"{place} differs{values}.",
            'Out-of-place operators instead of the write avoid this; backend="eager" keeps the '
            "write.",
        ),
        method=METHOD,
        error=difference.error,
        eager_error=difference.eager_error,
    )


def _words_of(written: fx.Node) -> str:
    """Return what is written into: an input, or the view that an operator makes."""
    if written.op == "placeholder":
        return f"the input {written.name}"
    line = line_near(written)
    code = f" ({line.code})" if line.code else ""
    return f"{written.name}, which {operation_name(written)} makes{code}"
