"""This module finds the tensors that a compiled graph copies from one device to another in each
call, with their origin in the program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.analysis.naming import plain_source
from fx_explorer.analysis.words import tensor
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import kernels_of_each
from fx_explorer.session.queries.nodes import between_devices

Kind = Literal["module", "attribute", "argument", "global"]
"""Where an input of a graph comes from: ``module`` is a parameter or a registered buffer, which
``.to`` moves; ``attribute`` any other tensor that an object holds; ``argument`` an argument, or a
variable of the enclosing function.
"""

COPIES = (
    "prims.device_put.default",
    "aten._to_copy.default",
    "aten.copy.default",
    "aten.copy_.default",
)

OF_PYTHON_NUMBERS = "lift_fresh_copy"
"""The operator before a copy that only a virtual GPU has: a GPU makes the tensor at once."""

_STAGES: tuple[model.Stage, ...] = ("post_grad", "forward", "backward")
"""Stages in order. The first one with a graph represents the code that runs."""

_OF_CLASS = re.compile(r"dict\(type\((.{1,300}?)\)\.__dict__\)\['(\w+)'\]")
"""Matches an attribute of a class, in torch's notation. The length is limited, because a source in
a stranger's session may be of any length.
"""

_NO_NAME = re.compile(r"[^a-zA-Z0-9]")

MOST_NODES = 200
"""Maximum number of nodes that are visited between a copy and the inputs it is computed from."""


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor that a graph takes, as the program names it."""

    name: str
    """``table``, ``self.inner.table``; empty where no name is known."""
    kind: Kind
    source: str = ""
    """The source in torch's notation, such as ``L['self'].inner.table``."""


@dataclass(frozen=True, slots=True)
class DeviceCopy:
    """A copy to another device, in each call of a graph."""

    node: int
    tensor: str
    """``f32[64]``"""
    of: str
    """Device that the tensor is copied from: ``cpu``, ``cuda:0``."""
    to: str
    file: str
    """Path of the user's file; empty where torch knows no line of the program."""
    line: int
    made_of: tuple[Input, ...]
    """Inputs of the graph from which the tensor is computed; empty where the graph creates it
    itself.
    """


def device_copies(reader: SessionReader) -> list[DeviceCopy]:
    """Return the copies of all compiled graphs that are in use, in the order of the graphs."""
    pairs = between_devices(reader, COPIES)
    if not pairs:
        return []
    graphs = _graphs_that_run(reader)
    generated = _in_generated_code(reader, [node for node, _ in pairs])
    copies = []
    for node_id, copied_id in pairs:
        if node_id in generated:
            continue  # Inductor makes the tensor on the GPU (torch's move_constructors_to_gpu)
        node = reader.get(model.Node, node_id)
        if node.graph in graphs and not node.arguments.startswith(OF_PYTHON_NUMBERS):
            copied = reader.get(model.Node, copied_id)
            copies.append(_copy(reader, graphs[node.graph], node, copied))
    return copies


def _in_generated_code(reader: SessionReader, nodes: list[int]) -> set[int]:
    """Return those of the nodes that a kernel for a GPU computes: it reads nothing of the CPU's."""
    kernels = kernels_of_each(reader, nodes)
    rows = reader.by_ids(model.Kernel, {kernel for ids in kernels.values() for kernel in ids})
    on_gpu = {row.id for row in rows if row.language == "triton"}
    return {node for node, ids in kernels.items() if on_gpu.intersection(ids)}


def _graphs_that_run(reader: SessionReader) -> dict[int, model.Compilation]:
    """Return the graphs that represent the code that runs, each with its compilation."""
    graphs: dict[int, model.Compilation] = {}
    for compilation in variants_in_use(reader):
        rows = reader.rows(model.Graph, compilation=compilation.id)
        for direction in ("forward", "inference", "backward"):
            ways = [row for row in rows if row.direction == direction and row.stage in _STAGES]
            stages = {row.stage for row in ways}
            first = next((stage for stage in _STAGES if stage in stages), None)
            graphs.update({row.id: compilation for row in ways if row.stage == first})
    return graphs


def _producers(reader: SessionReader, node: model.Node) -> list[model.Node]:
    edges = reader.rows(model.Edge, consumer=node.id)
    return reader.by_ids(model.Node, [edge.producer for edge in edges])


def _copy(
    reader: SessionReader, owner: model.Compilation, node: model.Node, copied: model.Node
) -> DeviceCopy:
    path = reader.get(model.SourceFile, node.file).path if node.file else ""
    return DeviceCopy(
        node.id,
        tensor(copied.dtype, copied.shape),
        copied.device,
        node.device,
        path,
        node.line,
        tuple(dict.fromkeys(_inputs(reader, owner, copied))),
    )


def _inputs(reader: SessionReader, owner: model.Compilation, copied: model.Node) -> Iterator[Input]:
    """Yield the inputs of the program from which a node is computed, on the node's own device."""
    waiting, seen = [copied], {copied.id}
    while waiting and len(seen) < MOST_NODES:
        node = waiting.pop()
        if node.op in ("placeholder", "get_attr"):
            yield input_of(reader, owner, node)
            continue
        for producer in _producers(reader, node):
            if producer.device == copied.device and producer.id not in seen:
                seen.add(producer.id)
                waiting.append(producer)


def input_of(reader: SessionReader, owner: model.Compilation, node: model.Node) -> Input:
    """Return the program's input for an input of a graph of any stage."""
    seen = {node.id}
    while True:
        source = _source(reader, owner, node)
        if source:
            plain = _OF_CLASS.sub(r"\1.\2", source)
            return Input(plain_source(plain, owner), _kind(plain), source)
        links = [link for link in reader.rows(model.Link, child=node.id) if link.parent not in seen]
        earlier = reader.by_ids(model.Node, [link.parent for link in links])
        inputs = [row for row in earlier if row.op in ("placeholder", "get_attr")]
        if not inputs:
            return Input("", "argument")
        node = inputs[0]
        seen.add(node.id)


def _source(reader: SessionReader, owner: model.Compilation, node: model.Node) -> str:
    """Return torch's source of an input of Dynamo's graph; empty for another node."""
    for row in reader.rows(model.LocalTensor, node=node.id):
        if row.is_input:
            return row.source
    if node.op != "placeholder" or not node.target.startswith(("G_", "L_", "dict_type_")):
        return ""
    for check in reader.rows(model.GuardCheck, compilation=owner.id, kind="TENSOR_MATCH"):
        if _mangled(check.source) == node.target.strip("_"):
            return check.source
    return ""


def _mangled(source: str) -> str:
    """Return the name that Dynamo gives the input of a source: ``G_table`` for ``G['table']``."""
    return re.sub("_+", "_", _NO_NAME.sub("_", source)).strip("_")


def _kind(source: str) -> Kind:
    if source.startswith("G["):
        return "global"
    if re.search(r"\._(?:parameters|buffers)\['[^']*'\]$", source):
        return "module"
    if re.search(r"\.\w+$", source):
        return "attribute"
    return "argument"
