"""This module looks for the reason why generated code differs at a node, by trials: each compiles
the graph once more with something changed, or calls it with something else around its inputs in
memory.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from fx_explorer.capture.torch_compat.private_names import inductor_lowering
from fx_explorer.instruments.numerics.measure.interpreting import (
    as_list,
    copied_graph,
    copied_inputs,
)
from fx_explorer.instruments.numerics.measure.node_comparison import (
    NodeComparison,
    compare_values,
    operation_of,
    precision_of,
)
from fx_explorer.instruments.numerics.measure.recorded_graphs import LoweredGraph, RecordedCall
from fx_explorer.program.explaining import one_line

PAD = 4096
"""Number of elements before and behind an input that a kernel must not read."""

ALIGNMENT = 64
"""Inputs begin at a multiple of so many elements, as Inductor expects of aligned ones."""

AROUND = (1e30, -7.0)
"""Two values to put around the inputs in turn."""

REDUCTIONS = (
    "sum", "mean", "var", "std", "prod", "norm", "mm", "bmm", "conv", "cumsum", "softmax",
    "logsumexp", "attention", "dot",
)  # fmt: skip
"""Parts of the names of operators that add many numbers."""

SMALL_ERROR = 1e-2
"""Largest relative error of a sum in another order, with room: float32 sums are off by less."""


@dataclass(frozen=True)
class KernelPlace:
    """The line of a kernel that computes a node."""

    name: str = ""
    line: int = 0
    code: str = ""


class CodeReasons:
    """Tries what may be the reason of a difference at one node of a graph."""

    def __init__(
        self,
        graph: LoweredGraph,
        call: RecordedCall,
        node: fx.Node,
        comparison: NodeComparison,
        eager_outputs: Sequence[Any],
        exact_outputs: Sequence[Any],
    ) -> None:
        self._graph = graph
        self._call = call
        self._node = node
        self._comparison = comparison
        self._eager_outputs = eager_outputs
        self._exact_outputs = exact_outputs
        self._reads_outside = False
        self._why_not_moved = ""
        """Why the inputs could not be put amid other numbers; empty where they were."""

    def kernel(self) -> KernelPlace:
        """Return the kernel's line that computes the node: the last of its lines that is no store.
        Where the kernel reads outside its inputs, the line that reads an input.
        """
        self._reads_outside = self._is_reading_outside()
        for kernel in self._graph.kernels:
            lines = [line for line, name in kernel.lines if name == self._node.name]
            if not lines:
                continue
            text = kernel.text.strip("\n").split("\n")
            shown = {line: text[line - 1].strip() for line in lines if line <= len(text)}
            if self._reads_outside:
                loads = _loads_of(text)
                shown = loads or shown
                for line, code in shown.items():
                    return KernelPlace(kernel.name, line, code)
            computing = {line: code for line, code in shown.items() if not _STORES.search(code)}
            for line, code in reversed((computing or shown).items()):
                return KernelPlace(kernel.name, line, code)
        return self._kernel_of_loads()

    def _kernel_of_loads(self) -> KernelPlace:
        """Return the kernel that writes what the node leads to, where the node itself is only an
        index: a view, a flip.
        """
        following = {self._node.name}
        for node in self._graph.lowered.graph.nodes:
            if any(given.name in following for given in node.all_input_nodes):
                following.add(node.name)
        before = {given.name for given in self._node.all_input_nodes}
        for names in (before, following):
            for kernel in self._graph.kernels:
                if any(name in names for _, name in kernel.lines):
                    loads = _loads_of(kernel.text.strip("\n").split("\n"))
                    for line, code in loads.items():
                        return KernelPlace(kernel.name, line, code)
        if len(self._graph.kernels) == 1:
            kernel = self._graph.kernels[0]
            for line, code in _loads_of(kernel.text.strip("\n").split("\n")).items():
                return KernelPlace(kernel.name, line, code)
        return KernelPlace()

    def sentences(self) -> Iterator[str]:
        """Yield what was tried and showed something, and what could not be tried, as sentences."""
        if self._reads_outside:
            yield (
                "The kernel reads outside its inputs: an index is out of range. Its result "
                "changes with the memory before and after its inputs (tried with two values)."
            )
            return
        if self._why_not_moved:
            yield f"Not tried: whether the kernel reads outside its inputs ({self._why_not_moved})."
        error, size = self._relative_error()
        name = operation_of(self._node)
        is_sum = any(part in name for part in REDUCTIONS)
        if is_sum and size and error <= SMALL_ERROR * size:
            yield (
                "It adds many numbers, and generated code adds them in another order than eager "
                f"mode: the error is {error / size:.1g} of the value."
            )
        yield from self._with_eager_operator()

    def _with_eager_operator(self) -> Iterator[str]:
        """Yield the result of compiling the graph with this operator called in eager mode."""
        name = operation_of(self._node)
        try:
            with calling_eager(self._node.target) as count:
                outputs = self._outputs_with(copied_graph(self._graph.lowered), {})
        except Exception as error:  # noqa: BLE001 - told: the operator has no such fallback
            yield (
                f"Not tried: {name} called in eager mode; this is not possible ({one_line(error)})."
            )
            return
        if not count():
            return
        if self._is_alike(outputs):
            yield (
                f"With {name} called in eager mode and the rest compiled, the graph's results "
                "equal eager mode's (tried): its lowering, or the code made from it, is wrong."
            )
        else:
            yield f"With {name} called in eager mode, the graph's results still differ (tried)."

    def _relative_error(self) -> tuple[float, float]:
        row = next((row for row in self._comparison.rows() if row.name == self._node.name), None)
        if row is None or row.error < 0:
            return 0.0, 0.0
        return row.error, row.size

    def _outputs_with(self, graph_module: fx.GraphModule, changes: dict[str, Any]) -> list[Any]:
        compiled = self._graph.compiled_with(graph_module, changes)
        with torch.no_grad(), self._call.random_numbers():
            return as_list(compiled(copied_inputs(self._call.inputs)))

    def _is_alike(self, outputs: Sequence[Any]) -> bool:
        precision = precision_of(self._eager_outputs)
        for values in zip(outputs, self._eager_outputs, self._exact_outputs, strict=False):
            difference = compare_values(*values, precision)
            if difference is not None and difference.kind == "differs":
                return False
        return True

    def _is_reading_outside(self) -> bool:
        """Return whether the compiled code's results depend on what stands around its inputs."""
        compiled = self._graph.compiled
        if compiled is None:
            return False
        try:
            first, again, other = (
                self._outputs_amid(compiled, value) for value in (AROUND[0], AROUND[0], AROUND[1])
            )
        except Exception as error:  # noqa: BLE001 - told with the reasons
            self._why_not_moved = one_line(error)
            return False
        is_steady = all(map(_is_same, first, again))
        return is_steady and not all(map(_is_same, first, other))

    def _outputs_amid(
        self, compiled: Callable[[list[Any]], Any], around: float
    ) -> list[torch.Tensor]:
        inputs = [_amid(value, around) for value in self._call.inputs]
        with torch.no_grad(), self._call.random_numbers():
            outputs = as_list(compiled(inputs))
        return [value.clone() for value in outputs if isinstance(value, torch.Tensor)]


def _amid(value: Any, around: float) -> Any:
    """Return a tensor with the same content and strides, amid other numbers in memory."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    if type(value) is not torch.Tensor or value.layout != torch.strided or not value.numel():
        return value
    sizes_and_strides = zip(value.shape, value.stride(), strict=True)
    span = 1 + sum((size - 1) * stride for size, stride in sizes_and_strides)
    length = 2 * PAD + -(-span // ALIGNMENT) * ALIGNMENT
    room = torch.full((length,), min(around, torch.finfo(value.dtype).max), dtype=value.dtype,
                      device=value.device)  # fmt: skip
    inside = room.as_strided(value.shape, value.stride(), PAD)
    inside.copy_(value)
    return inside


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))


_STORES = re.compile(r"\btl\.store\(|\.store\(|^(?:in_)?out_ptr")
"""Matches a line of a kernel that writes a result to memory, in Triton and in C++."""


def _loads_of(text: Sequence[str]) -> dict[int, str]:
    """Return the lines of a kernel's text that read an input, by number."""
    is_triton = any("tl.load(" in line for line in text)
    load = "tl.load(" if is_triton else "in_ptr"
    loads = {}
    for number, line in enumerate(text, 1):
        if load in line and "=" in line and "void kernel" not in line:
            loads[number] = line.strip()
    return loads


@contextlib.contextmanager
def calling_eager(target: Any) -> Iterator[Callable[[], int]]:
    """Make Inductor call an operator in eager mode inside the block. Yields a function that returns
    for how many nodes it did.

    Hook: ``torch._inductor.lowering.lowerings``, the table of operators, and ``fallback_handler``.
    """
    count = 0
    handler = inductor_lowering.fallback_handler(target, add_to_fallback_set=False)

    def fall_back(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        return handler(*args, **kwargs)

    before = inductor_lowering.lowerings.get(target)
    if before is None:
        raise KeyError(f"it has no lowering: {target}")
    inductor_lowering.lowerings[target] = fall_back
    try:
        yield lambda: count
    finally:
        inductor_lowering.lowerings[target] = before
