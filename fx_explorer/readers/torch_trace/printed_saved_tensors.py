"""This module finds what a forward saves for its backward in the graphs that torch printed: a value
that the forward returns and the backward takes under the same name.

AOTAutograd's partitioner gives a saved value's placeholder in the backward the name of the node
that it is in the forward (torch/_functorch/partitioners.py, ``_extract_fwd_bwd_modules``). The
storage of a view is that of the value it looks into. Whether Inductor made a copy of it is decided
while the forward is lowered, and no record says it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fx_explorer.model import Graph, SavedTensor
from fx_explorer.model.rows.observation import SavedKind
from fx_explorer.torch_texts.printed_graph import PrintedGraph, PrintedNode
from fx_explorer.torch_texts.size_expressions import size_of
from fx_explorer.torch_texts.torch_names import VIEWS

_INPUT = re.compile(
    r'^[ \t]*(?P<name>\w+): "[^"\n]*",?  # '
    r"(?P<what>PlainAOTInput|ParamAOTInput|BufferAOTInput)\((?:idx=(?P<index>\d{1,9}))?",
    re.MULTILINE,
)
"""Matches torch's comment on an input of AOTAutograd's graphs, from 2.11 on."""

_PRIMAL = re.compile(r"primals_(?P<number>\d{1,9})$")

_BITS = re.compile(r"[a-z]+(?P<bits>\d{1,3})")

_COPIES = frozenset({"aten.lift_fresh_copy"})
"""Operations among ``VIEWS`` whose result has a storage of its own."""


@dataclass(frozen=True, slots=True)
class AotGraph:
    """A forward or backward graph of AOTAutograd's, as it was read."""

    row: Graph
    graph: PrintedGraph
    ids: Mapping[str, int]
    text: str
    """The graph as torch printed it."""


def saved_tensors(
    forward: AotGraph,
    backward_inputs: Mapping[str, int],
    compilation: int,
    hints: Mapping[str, int],
    traced_inputs: Sequence[str],
) -> Iterator[SavedTensor]:
    """Yield a row for each saved value. ``backward_inputs`` are the placeholders of the backward,
    ``hints`` the values of symbols at the first call, and ``traced_inputs`` the names of the inputs
    that AOTAutograd was given.
    """
    nodes = {node.name: node for node in forward.graph.nodes}
    returned = _returned(forward.graph)
    from_the_end = {name: at - len(returned) for at, name in enumerate(returned)}
    kinds = dict(_kinds_of_inputs(forward, traced_inputs))
    for name, consumer in backward_inputs.items():
        node = nodes.get(name)
        if node is None or name not in from_the_end:
            continue
        row = _row(node, nodes, hints, kinds)
        if row is not None:
            yield replace(
                row,
                compilation=compilation,
                producer=forward.ids[name],
                consumer=consumer,
                output=from_the_end[name],
            )


def _returned(graph: PrintedGraph) -> list[str]:
    output = next((node for node in reversed(graph.nodes) if node.op == "output"), None)
    if output is None:
        return []
    parts = [part.strip(" ()[]\n") for part in output.arguments.split(",")]
    return [part for part in parts if part]


def _row(
    node: PrintedNode,
    nodes: Mapping[str, PrintedNode],
    hints: Mapping[str, int],
    kinds: Mapping[str, SavedKind],
) -> SavedTensor | None:
    """Return the row of a value; None for what is neither a tensor nor a number."""
    if not node.dtype:
        if not node.value.startswith("Sym("):
            return None
        return SavedTensor(0, 0, node.name, "number", (), node.value, 0, 0, 0, storage_bytes=0)
    kind: SavedKind = "constant" if node.op == "get_attr" else "activation"
    storage = _storage(node, nodes)
    return SavedTensor(
        id=0,
        compilation=0,
        name=node.name,
        kind=kinds.get(storage.name, kind),
        shape=node.shape or (),
        dtype=node.dtype,
        size_bytes=max(0, _elements(node, hints)) * _item_size(node),
        producer=0,
        consumer=0,
        storage=storage.name,
        storage_bytes=_storage_bytes(storage, hints),
    )


def _storage(node: PrintedNode, nodes: Mapping[str, PrintedNode]) -> PrintedNode:
    """Return the first value in the storage of a value."""
    while node.inputs and _is_view(node, nodes) and node.inputs[0] in nodes:
        node = nodes[node.inputs[0]]
    return node


def _is_view(node: PrintedNode, nodes: Mapping[str, PrintedNode]) -> bool:
    if node.op != "call_function":
        return False
    if node.target == "operator.getitem":  # a part of a split
        whole = nodes.get(node.inputs[0])
        return whole is not None and not whole.dtype and _is_view(whole, nodes)
    operation = node.target.rpartition(".")[0]
    return operation in VIEWS and operation not in _COPIES


def _elements(node: PrintedNode, hints: Mapping[str, int]) -> int:
    """Return the number of elements; -1 where a size has no value."""
    sizes = [size_of(size, hints) for size in node.shape or ()]
    known = [size for size in sizes if size is not None]
    return math.prod(known) if len(known) == len(sizes) else -1


def _storage_bytes(node: PrintedNode, hints: Mapping[str, int]) -> int:
    """Return the size of the storage that a value begins; -1 where it is not known."""
    elements = _elements(node, hints)
    strides = [size_of(stride, hints) for stride in node.stride or ()]
    if elements > 0 and strides and None not in strides:
        last = 0
        for size, stride in zip(node.shape or (), strides, strict=False):
            last += ((size_of(size, hints) or 1) - 1) * (stride or 0)
        elements = last + 1
    return elements * _item_size(node) if elements >= 0 else -1


def _item_size(node: PrintedNode) -> int:
    match = _BITS.match(node.dtype)
    return max(1, int(match["bits"]) // 8) if match else 0


def _kinds_of_inputs(
    forward: AotGraph, traced_inputs: Sequence[str]
) -> Iterator[tuple[str, SavedKind]]:
    """Yield each input of the forward with its owner, if the name that Dynamo gave it shows the
    owner.
    """
    described = {match["name"]: match for match in _INPUT.finditer(forward.text)}
    for node in forward.graph.nodes:
        if node.op != "placeholder":
            continue
        match = described.get(node.name)
        if match and match["what"] != "PlainAOTInput":
            yield node.name, "parameter" if match["what"] == "ParamAOTInput" else "buffer"
            continue
        primal = _PRIMAL.match(node.name)
        index = -1
        if match and match["index"]:
            index = int(match["index"])
        elif primal:
            index = int(primal["number"]) - 1
        name = traced_inputs[index] if 0 <= index < len(traced_inputs) else ""
        yield node.name, _kind_of_name(name)


def _kind_of_name(name: str) -> SavedKind:
    """Return whose an input is by Dynamo's name of it, ``L_self_modules_1_parameters_weight_``."""
    if "_parameters_" in name:
        return "parameter"
    return "buffer" if "_buffers_" in name else "input"
