"""This module finds tensors of a program that stay on the CPU where there is a GPU, although a
capture for a virtual one has them there.

Such a capture moves everything to the GPU, or makes everything there. What the program makes once
with no device (``table = torch.ones(256)`` in a module, ``self.table = torch.ones(256)``) and moves
nowhere stays on the CPU on a real machine: a module's ``.to`` moves parameters and buffers only.
This is read from the program's text: only tensors are named of which every assignment says so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.device_copies import Input, input_of
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.session import SessionReader

FACTORIES = (
    "arange", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint", "randn",
    "randperm", "tensor", "zeros",
)  # fmt: skip
"""Functions of torch that make a tensor on the default device."""

MOVES = ("cuda", "to", "device", "set_default_device", "set_default_tensor_type", "_apply")
"""Names that may put a tensor elsewhere, where the file has them around an assignment."""

MOST_INPUTS = 200

LONGEST = 1_000_000
"""Characters of a file beyond which nothing is read from it."""


@dataclass(frozen=True, slots=True)
class MadeOnTheCpu:
    """A tensor that a compiled function reads, and that is made on the CPU."""

    input: Input
    file: str
    line: int
    """Where it is made."""
    read_file: str
    read_line: int
    """Where the compiled function reads it; no file where torch knows no line."""


def made_on_the_cpu(reader: SessionReader) -> list[MadeOnTheCpu]:
    """Return the tensors, each once, in the order in which the graphs take them."""
    files = _UserFiles(reader)
    tensors: dict[tuple[str, int], MadeOnTheCpu] = {}
    for owner, node in _inputs_of_dynamo(reader):
        taken = input_of(reader, owner, node)
        if taken.kind not in ("global", "attribute"):
            continue
        path, line = files.made_at(taken, owner)
        if path and (path, line) not in tensors:
            read = reader.get(model.SourceFile, node.file).path if node.file else ""
            tensors[path, line] = MadeOnTheCpu(taken, path, line, read, node.line)
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

    def made_at(self, taken: Input, owner: model.Compilation) -> tuple[str, int]:
        """Return file and line of the only assignments of a tensor, if all are on the CPU; an empty
        name otherwise.
        """
        name = taken.name.rpartition(".")[2]
        files = self._parsed()
        if taken.kind == "global":
            files = {path: tree for path, tree in files.items() if path == owner.file}
        places = []
        for path, tree in files.items():
            values = _assigned(tree, name, of_self=taken.kind == "attribute")
            if values and _names_any(tree, ("set_default_device", "set_default_tensor_type")):
                return "", 0
            for value in values:
                if not _is_made_on_the_cpu(value):
                    return "", 0
                places.append((path, value.lineno))
        return places[0] if places else ("", 0)

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


def _assigned(tree: ast.Module, name: str, *, of_self: bool) -> list[ast.expr]:
    """Return what is assigned to a global, or to an attribute of whatever object."""
    nodes = ast.walk(tree) if of_self else iter(tree.body)
    values = []
    for node in nodes:
        if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            continue
        if isinstance(node, ast.Assign):
            targets = node.targets
        else:
            targets = [node.target]
        for target in targets:
            if of_self:
                is_it = isinstance(target, ast.Attribute) and target.attr == name
            else:
                is_it = isinstance(target, ast.Name) and target.id == name
            if is_it and node.value is not None:
                values.append(node.value)
    return values


def _is_made_on_the_cpu(value: ast.expr) -> bool:
    """Return whether a factory of torch is called in an expression, and nothing in it names a
    device or another tensor's.
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


def _names_any(tree: ast.Module, names: tuple[str, ...]) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in names:
            return True
        if isinstance(node, ast.Name) and node.id in names:
            return True
    return False
