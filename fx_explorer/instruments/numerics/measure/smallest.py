"""This module writes the smallest program that still differs, as a target file: the operator that
differs with its inputs as they were; where it does not differ alone, with the operators before it,
a layer more at each try.

torch's own minifier (``torch._dynamo.repro``) starts from the whole graph and asks for an accuracy
check of its own. Here the operator is known, so a few tries from the other end are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import fx

from fx_explorer.capture.torch_compat.private_names import OpOverload, inductor_config
from fx_explorer.instruments.numerics.measure.interpreting import (
    Values,
    as_list,
    copied_inputs,
    eager_values,
    wide_values,
)
from fx_explorer.instruments.numerics.measure.locating import worst_difference
from fx_explorer.instruments.numerics.measure.node_comparison import (
    line_near,
    operation_of,
)
from fx_explorer.instruments.numerics.measure.recorded_graphs import RecordedProgram
from fx_explorer.model import NumericsTask
from fx_explorer.program.explaining import one_line
from fx_explorer.program.place import locate as place_of

Say = Callable[[str], object]

TRIED_LAYERS = (0, 1, 3, 7)
"""How many layers of operators before the one that differs are tried, before all of them: each try
compiles.
"""

MOST_LITERALS = 256
"""Largest number of elements of a tensor that is written as numbers."""


def write_smallest(record: RecordedProgram, task: NumericsTask, say: Say) -> str:
    """Write the file, and return a sentence on it; an empty text where no part of the graph differs
    by itself.
    """
    recorded = record.graphs[task.graph]
    lowered = recorded.lowered
    node = next((n for n in lowered.graph.nodes if n.name == task.node), None)
    if node is None:
        return ""
    for call in recorded.calls:
        values, _ = eager_values(lowered, call.inputs)
        for part in _parts(node):
            say(f"trying {len(part)} of {len(lowered.graph.nodes)} nodes alone")
            program = _Program.of(lowered, node, part, values)
            if program is None:
                continue
            try:
                still_differs = program.differs(task.task.request.dynamic)
            except Exception as error:  # noqa: BLE001 - said: it is no program by itself
                say(f"{len(part)} nodes do not run separately: {one_line(error)}")
                continue
            if not still_differs:
                continue
            program.write(Path(task.file), task)
            count = len(part)
            operators = "1 operator" if count == 1 else f"{count:,} operators"
            return f"The smallest program that still differs, {operators}, is in {task.file}."
    return ""


def _parts(node: fx.Node) -> list[set[fx.Node]]:
    """Return growing parts of the graph that end in ``node``."""
    part = {node}
    layers = [set(part)]
    while True:
        before = {
            given
            for member in part
            for given in member.all_input_nodes
            if given.op == "call_function"
        }
        if before <= part:
            break
        part |= before
        layers.append(set(part))
    last = len(layers) - 1
    return [*(layers[at] for at in TRIED_LAYERS if at < last), layers[last]]


class _Program:
    """A part of a graph as a program of its own."""

    def __init__(self, graph_module: fx.GraphModule, inputs: list[Any], node: fx.Node) -> None:
        self._graph = graph_module
        self._inputs = inputs
        self._node = node

    @classmethod
    def of(
        cls, lowered: fx.GraphModule, node: fx.Node, part: set[fx.Node], values: Values
    ) -> _Program | None:
        """Return the part as a program; None where it has more than operators of torch's."""
        graph = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        given = []
        inputs = [
            other
            for other in lowered.graph.nodes
            if other not in part and any(user in part for user in other.users)
        ]
        sizes = {source: _size_of_input(source, inputs) for source in inputs}
        for source in inputs:
            if sizes[source] is None:
                given.append(source)
                copies[source] = graph.placeholder(source.name)
        for source, size in sizes.items():
            if size is not None:
                tensor, dim = size
                target = torch.ops.aten.sym_size.int
                copies[source] = graph.call_function(target, (copies[tensor], dim))
        for member in lowered.graph.nodes:
            if member in part:
                if not _is_writable(member):
                    return None
                copies[member] = graph.node_copy(member, lambda old: copies[old])
        graph.output((copies[node],))
        module = fx.GraphModule(torch.nn.Module(), graph)
        return cls(module, [values[source.name] for source in given], node)

    def differs(self, dynamic: bool | None) -> bool:
        """Return whether the program, compiled alone, differs from eager mode. Raises whatever the
        program or the compiler raises.
        """
        eager, eager_outputs = eager_values(self._graph, self._inputs)
        _, exact = wide_values(self._graph, self._inputs, eager)
        torch.compiler.reset()
        compiled = torch.compile(self._graph, dynamic=dynamic)
        with torch.no_grad(), inductor_config.patch(force_disable_caches=True):
            outputs = as_list(compiled(*copied_inputs(self._inputs)))
        worst = worst_difference(outputs, eager_outputs, exact)
        return worst is not None and worst.kind == "differs"

    def write(self, path: Path, task: NumericsTask) -> None:
        line = line_near(self._node)
        origin = f", of {Path(line.file).name}:{line.line}" if line.file else ""
        names = [n.name for n in self._graph.graph.nodes if n.op == "placeholder"]
        lines = [
            f'"""{operation_of(self._node)}{origin}, gives a different result when it is compiled.',
            "",
            "Written by fx-explorer numerics --minify.",
            '"""',
            "import operator",
            "from math import inf, nan",
            "",
            "import torch",
            "from torch import device",
            "",
        ]
        if task.with_program:
            file = place_of(task.task.request).file
            lines += ["import runpy", "", f"runpy.run_path({str(file)!r})  # what it registers", ""]
        lines += ["", f"def model({', '.join(names)}):"]
        for node in self._graph.graph.nodes:
            if node.op == "call_function":
                lines.append(f"    {node.name} = {_call(node)}")
        lines += [f"    return ({self._node.name},)", "", "", "example_inputs = ("]
        saved: list[Any] = []
        for value in self._inputs:
            lines.append(f"    {_input(value, saved)},")
        lines.append(")")
        if saved:
            content = path.with_suffix(".pt")
            torch.save(saved, content)
            # The inputs lie beside the file, under its name.
            at = lines.index("example_inputs = (")
            lines.insert(at, "kept = torch.load(__file__[: -len('.py')] + '.pt')")
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _size_of_input(node: fx.Node, inputs: list[fx.Node]) -> tuple[fx.Node, int] | None:
    """Return the tensor among the inputs that has this dynamic size, and its dimension; None for
    other inputs. Given as a number of its own, a size would not be known to be the tensor's.
    """
    value = node.meta.get("val")
    if not isinstance(value, torch.SymInt):
        return None
    for tensor in inputs:
        shape = getattr(tensor.meta.get("val"), "shape", ())
        for dim, size in enumerate(shape):
            if str(size) == str(value):
                return tensor, dim
    return None


def _is_writable(node: fx.Node) -> bool:
    if node.op != "call_function":
        return False
    if isinstance(node.target, OpOverload):
        return node.target.namespace in ("aten", "prims")
    return getattr(node.target, "__module__", "") in ("_operator", "math")


def _call(node: fx.Node) -> str:
    target: Any = node.target
    if isinstance(target, OpOverload):
        name = f"torch.ops.{target}"
    else:
        name = f"operator.{target.__name__}"
    arguments = [_argument(value) for value in node.args]
    arguments += [f"{key}={_argument(value)}" for key, value in node.kwargs.items()]
    return f"{name}({', '.join(arguments)})"


def _argument(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_argument, value))}]"
    if isinstance(value, fx.Node):
        return value.name
    return repr(value)


def _input(value: Any, saved: list[Any]) -> str:
    """Return an expression for an input. A large tensor is added to ``saved``."""
    if not isinstance(value, torch.Tensor):
        return repr(value)
    if value.numel() > MOST_LITERALS:
        saved.append(value.cpu())
        return f"kept[{len(saved) - 1}]"
    content = f"torch.tensor({value.tolist()!r}, dtype={value.dtype})"
    shape, stride = tuple(value.shape), tuple(value.stride())
    if not value.is_contiguous():
        content = f"torch.empty_strided({shape}, {stride}, dtype={value.dtype}).copy_({content})"
    elif not value.numel():
        content = f"torch.empty({shape}, dtype={value.dtype})"
    if value.device.type != "cpu":
        content += f".to({str(value.device)!r})"
    return content
