"""This module compares each operator of the program with its decomposition: Inductor replaces
operators by others before it compiles (``select_decomp_table`` in
torch/_inductor/decomposition.py), and a program may add to that table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from fx_explorer.capture.torch_compat.private_names import aot_autograd, compile_fx, tree_leaves
from fx_explorer.instruments.bench.measure.calls import Caller, NetworkState, observed
from fx_explorer.instruments.numerics.measure.interpreting import (
    call_in_float64,
    copied_tree,
    is_repeatable,
    widened,
)
from fx_explorer.instruments.numerics.measure.node_comparison import (
    compare_values,
    line_near,
    operation_of,
    precision_of,
)
from fx_explorer.model import CaptureRequest, NumericsFinding
from fx_explorer.program.explaining import one_line


class DecompositionInterpreter(fx.Interpreter):
    """Runs a graph in eager mode, and compares each operator with its decomposition."""

    def __init__(self, graph_module: fx.GraphModule, table: Mapping[Any, Any]) -> None:
        super().__init__(graph_module)
        self.finding: NumericsFinding | None = None
        self.not_compared: list[str] = []
        """Operators whose decomposition could not be called by itself, and why, a sentence each."""
        self._table = table

    def run_node(self, n: fx.Node) -> Any:
        decomposition = self._table.get(n.target) if n.op == "call_function" else None
        if decomposition is None or self.finding is not None or not is_repeatable(n):
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        copies = copied_tree((args, kwargs))
        value = super().run_node(n)
        self._compare(n, decomposition, copies, value)
        return value

    def _compare(self, n: fx.Node, decomposition: Any, arguments: Any, value: Any) -> None:
        args, kwargs = arguments
        try:
            made = decomposition(*copied_tree(args), **copied_tree(kwargs))
            exact = call_in_float64(n.target, widened(args), widened(kwargs))
        except Exception as error:  # noqa: BLE001 - it is listed as not compared
            self._leave_out(n, one_line(error))
            return
        if made is NotImplemented:  # it leaves this call to the operator
            return
        precision = precision_of(tree_leaves(value))
        difference = compare_values(made, value, exact, precision)
        if difference is None or difference.kind != "differs":
            return
        line = line_near(n)
        self.finding = NumericsFinding(
            "decomposition",
            node=n.name,
            operation=operation_of(n),
            file=line.file,
            line=line.line,
            code=line.code,
            reasons=(
                "Its decomposition gives a different result on the same inputs: "
                f"{_where_defined(decomposition)}.",
            ),
            method=(
                "Each operator that Inductor decomposes was run in eager mode, with and without "
                "its decomposition, on its inputs from the program."
            ),
            error=difference.error,
            eager_error=difference.eager_error,
        )

    def _leave_out(self, n: fx.Node, why: str) -> None:
        sentence = f"Not compared: the decomposition of {operation_of(n)} ({why})."
        if sentence not in self.not_compared:
            self.not_compared.append(sentence)


def wrong_decomposition(
    caller: Caller, plain: Callable[..., Any], state: NetworkState, request: CaptureRequest
) -> tuple[NumericsFinding | None, list[str]]:
    """Call the program, and return the first operator whose decomposition differs, or None, and
    sentences on the decompositions that could not be compared.
    """
    table = compile_fx.select_decomp_table()
    interpreters: list[DecompositionInterpreter] = []

    def compiler(graph_module: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        interpreter = DecompositionInterpreter(graph_module, table)
        interpreters.append(interpreter)

        def call(*inputs: Any) -> Any:
            with torch.no_grad():
                return interpreter.run(*inputs)

        return call

    backend = aot_autograd(fw_compiler=compiler, bw_compiler=compiler)
    function = torch.compile(plain, backend=backend, dynamic=request.dynamic)
    interpreted = Caller(caller.target, function, caller.trains, caller.has_grad)
    observed(interpreted, state)
    not_compared: list[str] = []
    for interpreter in interpreters:
        not_compared += interpreter.not_compared
        if interpreter.finding is not None:
            return interpreter.finding, not_compared
    return None, not_compared


def _where_defined(decomposition: Any) -> str:
    """Return the function, and its file and line where it is not torch's."""
    function = getattr(decomposition, "__wrapped__", decomposition)
    name = getattr(function, "__qualname__", str(function))
    code = getattr(function, "__code__", None)
    module = str(getattr(function, "__module__", "torch"))
    if code is None or module.partition(".")[0] == "torch":
        return f"{name} of {module}"
    return f"{name} ({code.co_filename}:{code.co_firstlineno})"
