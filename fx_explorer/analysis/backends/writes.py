"""Operators that write into memory, and what reads it in another part that runs out of turn.

torch's partitioner follows values only. A write in place gives no value to those who read the same
memory later, or read it before, so a segment may take the write to another place in the order, and
results differ from PyTorch's. Pure functions over the nodes of a graph and its parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.backends.parts import Part

_IN_PLACE = re.compile(r"(?:add|sub|mul|matmul|truediv|floordiv|mod|pow|and|or|xor|lshift|rshift)")
_VIEWS = {
    "view",
    "view_as",
    "reshape",
    "flatten",
    "unflatten",
    "transpose",
    "permute",
    "t",
    "swapaxes",
    "movedim",
    "squeeze",
    "unsqueeze",
    "expand",
    "expand_as",
    "unbind",
    "split",
    "chunk",
    "narrow",
    "select",
    "detach",
    "diagonal",
    "getitem",
}
"""Functions and methods that give the memory that they take, or may."""


@dataclass(frozen=True, slots=True)
class OutOfTurn:
    """A write and a reading of the same memory, which a possible order of the parts turns around."""

    write: model.Node
    reader: model.Node
    segment: int
    """The segment that the write is in, or else the reader."""


def out_of_turn(
    nodes: Sequence[model.Node], edges: Iterable[tuple[int, int]], parts: Sequence[Part]
) -> list[OutOfTurn]:
    """Return the first reader of each write that comes out of turn, where the parts run in their order.
    ``nodes`` are all nodes of the graph.
    """
    writes = [node for node in nodes if writes_in_place(node)]
    if not writes:
        return []
    place = {node: i for i, part in enumerate(parts) for node in part.nodes}
    segments = {node: part.segment for part in parts for node in part.nodes}
    memory = _memory(nodes)
    known = {node.id: node for node in nodes}
    readers: dict[int, list[model.Node]] = {}
    for producer, consumer in edges:
        if producer in memory and consumer in place and not _passes_on(known[consumer]):
            readers.setdefault(memory[producer], []).append(known[consumer])
    found = []
    for write in writes:
        if write.id not in place:
            continue
        for reader in readers.get(memory.get(write.id, 0), ()):
            before = reader.position < write.position
            if reader.id != write.id and (
                place[reader.id] > place[write.id] if before else place[reader.id] < place[write.id]
            ):
                found.append(OutOfTurn(write, reader, segments[write.id] or segments[reader.id]))
                break
    return found


def writes_in_place(node: model.Node) -> bool:
    """Return whether a call writes into its first argument: ``x.add_(1)``, ``x += 1``, ``x[0] = 1``."""
    if not node.op.startswith("call_"):
        return False
    name = _name(node)
    if node.target.startswith("_operator."):
        return name == "setitem" or (
            node.shape is not None and name[:1] == "i" and bool(_IN_PLACE.fullmatch(name[1:]))
        )
    return (name.endswith("_") and not name.endswith("__")) or "inplace = True" in node.arguments


def _name(node: model.Node) -> str:
    """Return ``add_`` for ``aten.add_.Tensor``, ``relu`` for ``torch.relu``."""
    words = node.target.split(".")
    return words[1] if words[0] == "aten" and len(words) > 1 else words[-1]


def _passes_on(node: model.Node) -> bool:
    """Return whether a call gives the memory that it takes, and reads nothing of it."""
    return (node.is_view or _name(node) in _VIEWS) and not writes_in_place(node)


def _memory(nodes: Sequence[model.Node]) -> dict[int, int]:
    """Return the node that has made the memory of each node, through views and writes in place."""
    by_name: dict[str, int] = {}
    memory: dict[int, int] = {}
    for node in nodes:
        taken = by_name.get(
            re.split(r"[,\s)\]]", node.arguments.lstrip("(["), maxsplit=1)[0], node.id
        )
        gives_what_it_takes = node.op.startswith("call_") and (
            _passes_on(node) or writes_in_place(node)
        )
        memory[node.id] = memory.get(taken, node.id) if gives_what_it_takes else node.id
        by_name[node.name] = node.id
    return memory
