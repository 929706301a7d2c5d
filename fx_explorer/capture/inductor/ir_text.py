"""This module writes Inductor's IR as text: what each scheduler node loops over, loads, computes
and stores, and the FX nodes it came from.

Scheduler nodes are torch/_inductor/scheduler.py, loop bodies torch/_inductor/loop_body.py. torch's
own ``debug_str`` takes seconds on a large model (it makes a GraphModule per loop body and prints
every index expression again), this milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch

from fx_explorer.capture.inductor.lines_by_node import node_of_buffer, node_of_operation
from fx_explorer.capture.recording.fx_graphs import short_dtype

LineNodes = list[tuple[int, str]]
"""(line from 1, name of a post-grad node)."""

_Line = tuple[str, tuple[str, ...]]
"""(text of a line, nodes that it computes)."""


def describe(scheduler_nodes: Iterable[Any]) -> tuple[str, LineNodes]:
    """Return the listing of ``scheduler_nodes``, before or after fusion, with the post-grad nodes
    of its lines.

    The line that names an operation has all its origins; a line of a loop body has the node it was
    traced for, which is known inside ``lines.line_recording()`` only.
    """
    printer = _Printer()
    lines: list[_Line] = []
    for scheduler_node in scheduler_nodes:
        lines += printer.operation(scheduler_node)
        lines.append(("", ()))
    text = "\n".join(line for line, _ in lines)
    line_nodes: list[tuple[int, str]] = []
    for number, (_, nodes) in enumerate(lines, 1):
        line_nodes += [(number, node) for node in nodes]
    return text.rstrip("\n"), line_nodes


class _Printer:
    """Prints each index expression once, because repeated layers have the same ones."""

    def __init__(self) -> None:
        self._printed: dict[Any, str] = {}

    def expression(self, value: Any) -> str:
        text = self._printed.get(value)
        if text is None:
            text = self._printed[value] = str(value)
        return text

    def sizes(self, values: Iterable[Any]) -> str:
        return "[" + ", ".join(map(self.expression, values)) + "]"

    def operation(self, scheduler_node: Any) -> Iterator[_Line]:
        members = getattr(scheduler_node, "snodes", None)
        if members:
            kind = _split_camel_case(type(scheduler_node).__name__.removesuffix("SchedulerNode"))
            yield (
                f"{scheduler_node.get_name()}: {kind}, {len(members)} operations in one kernel",
                _origins(scheduler_node),
            )
            for member in members:
                for text, nodes in self.operation(member):
                    yield f"    {text}", nodes
        else:
            yield from self._single(scheduler_node)

    def _single(self, scheduler_node: Any) -> Iterator[_Line]:
        origins = _origins(scheduler_node)
        comment = f"  # {', '.join(origins)}" if origins else ""
        outputs = ", ".join(self._buffer(output.node) for output in scheduler_node.get_outputs())
        yield (
            (
                f"{scheduler_node.get_name()}: {_kind(scheduler_node.node)} → "
                f"{outputs or 'nothing'}{comment}"
            ),
            origins,
        )
        body = getattr(scheduler_node, "_body", None)
        if hasattr(body, "root_block"):
            yield from self._loop(body, node_of_buffer(scheduler_node.node))
        else:
            yield from self._dependencies(scheduler_node)

    def _buffer(self, buffer: Any) -> str:
        layout = getattr(buffer, "layout", None)
        dtype, size = getattr(layout, "dtype", None), getattr(layout, "size", None)
        if layout is None or dtype is None or size is None:
            return str(buffer.get_name())
        return (
            f"{buffer.get_name()} {short_dtype(dtype)}{self.sizes(size)} stride "
            f"{self.sizes(layout.stride)} {layout.device}"
        )

    def _dependencies(self, scheduler_node: Any) -> Iterator[_Line]:
        """Yield the reads and writes of an operation without a loop body (a library call, a
        concatenation).
        """
        accesses = scheduler_node.read_writes
        for verb, dependencies in (("reads", accesses.reads), ("writes", accesses.writes)):
            names = list(dict.fromkeys(dependency.name for dependency in dependencies))
            if names:
                yield f"    {verb} {', '.join(names)}", ()

    def _loop(self, body: Any, stored: str | None) -> Iterator[_Line]:
        """Yield the lines of a loop; ``stored`` is the post-grad node whose value the loop
        stores.
        """
        known = _bodies.get(body)
        if known is None:
            known = _bodies[body] = list(self._loop_lines(body, stored))
        yield from known

    def _loop_lines(self, body: Any, stored: str | None) -> Iterator[_Line]:
        reduced = set(body.reduce_vars)
        ranges = []
        for variable, size in body.var_ranges.items():
            text = f"{variable} < {self.expression(size)}"
            if variable in reduced:
                text = f"reduce {text}"
            ranges.append(text)
        yield f"    for {', '.join(ranges) or 'one element'}:", ()
        yield from _LoopBodyText(self, body, stored).lines(body.root_block, "        ")


_bodies: WeakKeyDictionary[Any, list[_Line]] = WeakKeyDictionary()
"""Loop body → its lines. They are cached, because most loop bodies are the same after fusion as
before it.
"""


class _LoopBodyText:
    """Prints the small FX graph of a loop body; a masked part stands indented under its mask."""

    def __init__(self, printer: _Printer, body: Any, stored: str | None) -> None:
        self._printer = printer
        self._body = body
        self._stored = stored
        self._names: dict[Any, str] = {}
        """Node of a loop body → the name of its value in later lines."""
        self._count = 0

    def lines(self, block: Any, indent: str) -> Iterator[_Line]:
        for node in block.graph.nodes:
            if node.op == "call_module":
                yield from self._call_module(node, indent)
            elif node.op == "call_method" and node.target == "constant":
                self._names[node] = str(node.args[1])
            elif node.op == "call_method":
                text = self._operation(str(node.target), node)
                if str(node.target).startswith("store"):
                    result = ""
                else:
                    result = f"{self._name(node)} = "
                yield f"{indent}{result}{text}", self._nodes(node)
            elif node.op == "output" and block is not self._body.root_block:
                yield f"{indent}{self._argument(node.args[0])}", ()

    def _name(self, node: Any) -> str:
        """Return the name in the generated code, ``tmp0``. The names of the loop body's own nodes
        would look like FX nodes.
        """
        self._names[node] = name = f"tmp{self._count}"
        self._count += 1
        return name

    def _call_module(self, node: Any, indent: str) -> Iterator[_Line]:
        target, arguments = str(node.target), node.args
        if target == "get_index":
            self._names[node] = self._printer.expression(self._body.indexing_exprs[arguments[0]])
        elif target in self._body.subblocks:
            mask, other = (self._argument(argument) for argument in arguments[:2])
            yield f"{indent}{self._name(node)} = {other} unless {mask}:", self._nodes(node)
            yield from self.lines(self._body.subblocks[target], indent + "    ")
        else:  # set_indirect3: the value becomes an index
            self._names[node] = target.removeprefix("set_")
            yield f"{indent}{self._names[node]} = {self._argument(arguments[0])}", self._nodes(node)

    def _operation(self, operation: str, node: Any) -> str:
        arguments = [self._argument(argument) for argument in node.args[1:]]
        if operation == "load":
            return f"{arguments[0]}[{arguments[1]}]"
        if operation in ("store", "store_reduction"):
            if len(arguments) > 3 and arguments[3] != "None":
                mode = f"  ({arguments[3]})"
            else:
                mode = ""
            return f"{arguments[0]}[{arguments[1]}] = {arguments[2]}{mode}"
        if operation == "reduction":
            return f"reduce {arguments[2]}({', '.join(arguments[3:])}) as {arguments[0]}"
        arguments += [f"{name}={self._argument(value)}" for name, value in node.kwargs.items()]
        return f"{operation}({', '.join(arguments)})"

    def _nodes(self, operation: Any) -> tuple[str, ...]:
        """Return the post-grad nodes of an operation. Storing and reducing are not part of the
        element function of the node whose value is stored, so they get that node here.
        """
        name = node_of_operation(operation) or self._stored
        return (name,) if name else ()

    def _argument(self, value: Any) -> str:
        if isinstance(value, (tuple, list)):
            return "(" + ", ".join(map(self._argument, value)) + ")"
        if isinstance(value, torch.fx.Node) and value in self._names:
            return self._names[value]
        return str(value).removeprefix("torch.")


def _kind(ir_node: Any) -> str:
    """Return ``reduction``, ``pointwise``, or the library function that an extern node calls."""
    kernel = getattr(ir_node, "python_kernel_name", None)
    if kernel:
        return str(kernel)
    return _split_camel_case(type(getattr(ir_node, "data", ir_node)).__name__)


def _split_camel_case(class_name: str) -> str:
    """Turn a class name into words: ``OuterLoopFused`` → ``outer loop fused``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", class_name).lower()


def _origins(scheduler_node: Any) -> tuple[str, ...]:
    """Return the names of the FX nodes that a scheduler node computes, in graph order as FX sorts
    nodes.
    """
    members: Sequence[Any] = scheduler_node.get_nodes()
    origins: set[Any] = set()
    for member in members:
        if member.node is not None:
            origins |= set(member.node.origins)
    return tuple(node.name for node in sorted(origins))
