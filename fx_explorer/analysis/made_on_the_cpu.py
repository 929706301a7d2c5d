"""This module finds tensors of a program that stay on the CPU on a machine with a GPU, although a
capture for a virtual one has them on the GPU.

Such a capture moves everything to the GPU, or makes everything there. What the program makes once
with no device (``table = torch.ones(256)`` in a module, ``self.table = torch.ones(256)``) and moves
nowhere stays on the CPU on a real machine: a module's ``.to`` moves parameters and buffers only.
The same holds for variables of an enclosing function, default arguments, arguments of ``partial``
and items of lists. This is read from the program's text. A tensor is named only if every assignment
to it shows this.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fx_explorer import model
from fx_explorer.analysis.assigned_values import (
    AssignedExpression,
    AssignedValues,
    Reader,
    assigned_to,
)
from fx_explorer.analysis.device_copies import Input, input_of
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.session import SessionReader

FACTORIES = (
    "arange", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint", "randn",
    "randperm", "tensor", "zeros",
)  # fmt: skip
"""Functions of torch that make a tensor on the default device."""

MOVES = ("cuda", "to", "device", "set_default_device", "set_default_tensor_type", "_apply")
"""Names that, in the code around an assignment, may put the tensor on another device."""

DEFAULT_DEVICES = ("set_default_device", "set_default_tensor_type")

MOST_INPUTS = 200

LONGEST = 1_000_000
"""Maximum number of characters of a source file that is searched."""


@dataclass(frozen=True, slots=True)
class MadeOnTheCpu:
    """A tensor that a compiled function reads, and that is created on the CPU."""

    input: Input
    file: str
    line: int
    """Line that creates the tensor."""
    read_file: str
    read_line: int
    """The line on which the compiled function reads it; without a file where torch knows no line.
    """


def made_on_the_cpu(reader: SessionReader) -> list[MadeOnTheCpu]:
    """Return the tensors, each once, in the order in which the graphs take them."""
    files = _UserFiles(reader)
    tensors: dict[AssignedExpression, MadeOnTheCpu] = {}
    for owner, node in _inputs_of_dynamo(reader):
        taken = input_of(reader, owner, node)
        if taken.kind == "module":
            continue
        read = reader.get(model.SourceFile, node.file).path if node.file else ""
        assigned = files.assigned(taken, Reader(owner.file, owner.line, read, node.line))
        if assigned is None:
            continue
        if assigned.name:
            taken = replace(taken, name=assigned.name)
        if assigned.is_attribute:
            taken = replace(taken, kind="attribute")
        else:
            taken = replace(taken, kind="global")
        first = assigned.values[0]
        if first not in tensors:
            line = first.expression.lineno
            tensors[first] = MadeOnTheCpu(taken, first.file, line, read, node.line)
    return list(tensors.values())


def _inputs_of_dynamo(reader: SessionReader) -> Iterator[tuple[model.Compilation, model.Node]]:
    for owner in variants_in_use(reader):
        for graph in reader.rows(model.Graph, compilation=owner.id, stage="dynamo", parent=0):
            inputs = reader.rows(model.Node, graph=graph.id, op="placeholder", limit=MOST_INPUTS)
            for node in inputs:
                if node.shape is not None:
                    yield owner, node


class _UserFiles:
    """The user's files of a session, each parsed once."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        self._trees: dict[str, ast.Module] | None = None

    def assigned(self, taken: Input, by: Reader) -> AssignedValues | None:
        """Return all assignments of a tensor, if there are any and all create it on the CPU."""
        trees = self._parsed()
        if any(map(_sets_devices, trees.values())):
            return None
        assigned = assigned_to(taken.source, trees, by, self._inputs())
        if assigned is None:
            return None
        values = [v for v in assigned.values if not isinstance(v.expression, ast.Constant)]
        if not values or not all(_is_made_on_the_cpu(value.expression) for value in values):
            return None
        return replace(assigned, values=tuple(values))  # it is a tensor: never None

    def _inputs(self) -> str | None:
        """Return the user's inputs of the target, as Python; None for a script."""
        target = self._reader.meta("target") or {}
        if target.get("kind") == "script":
            return None
        given = (self._reader.meta("request") or {}).get("inputs", "")
        tree = self._parsed().get(target.get("file", ""))
        if given or tree is None:
            return str(given)
        for node in tree.body:
            match node:
                case ast.Assign([ast.Name("example_inputs")], value):
                    return ast.unparse(value)
        return ""

    def _parsed(self) -> dict[str, ast.Module]:
        if self._trees is None:
            self._trees = {}
            for file in self._reader.rows(model.SourceFile, is_user=True):
                text = self._reader.text(file.text) if file.text else ""
                if not text or len(text) > LONGEST:
                    continue
                try:
                    self._trees[file.path] = ast.parse(text)
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    continue  # no Python, or a text damaged in the session: nothing is said of it
        return self._trees


def _is_made_on_the_cpu(value: ast.expr) -> bool:
    """Return whether an expression creates a tensor on the CPU: it calls a factory of torch, and
    neither names a device nor takes the device of another tensor.
    """
    makes = False
    for node in ast.walk(value):
        if isinstance(node, ast.keyword) and (node.arg is None or node.arg in MOVES):
            return False
        if isinstance(node, ast.Attribute):
            if node.attr in MOVES or node.attr.endswith("_like"):
                return False
            is_torchs = isinstance(node.value, ast.Name) and node.value.id == "torch"
            makes = makes or (is_torchs and node.attr in FACTORIES)
    return makes


def _sets_devices(tree: ast.Module) -> bool:
    """Return whether a file sets a default device, for a block (``with torch.device("cuda")``) or
    from then on.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.withitem) and _names(node.context_expr) & {"device"}:
            return True
        if isinstance(node, ast.Attribute | ast.Name) and _name(node) in DEFAULT_DEVICES:
            return True
    return False


def _names(expression: ast.expr) -> set[str]:
    return {_name(node) for node in ast.walk(expression)}


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
