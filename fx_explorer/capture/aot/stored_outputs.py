"""Which storage each output of a lowered graph lies in, as Inductor's IR has it when its code is
generated.

What AOTAutograd saves is an output of the forward graph. Whether that is a view of an input, a
buffer of its own or a copy with other strides is decided while the graph is lowered
(``GraphLowering``, torch/_inductor/graph.py), and a small view keeps all of the storage that it
looks into.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fx_explorer.capture.torch_compat.versions import size_hint_of


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """``storage`` is the name of the buffer that holds the output; empty for a number or None."""

    storage: str
    size_bytes: int = -1
    """Size of the whole storage; -1 for an input, whose storage is the caller's, and where a size
    has no hint.
    """
    is_input: bool = False


def stored_outputs(lowering: Any) -> tuple[StoredOutput, ...]:
    return tuple(_stored(node, lowering) for node in lowering.graph_outputs)


def _stored(node: Any, lowering: Any) -> StoredOutput:
    if type(node).__name__ in ("NoneAsConstantBuffer", "ShapeAsConstantBuffer") or not hasattr(
        node, "get_name"
    ):
        return StoredOutput("")
    name = node.get_name()
    if name in lowering.graph_inputs:
        return StoredOutput(name, is_input=True)
    buffer = lowering.name_to_buffer.get(name)
    return StoredOutput(name) if buffer is None else _of_buffer(buffer, lowering)


def _of_buffer(buffer: Any, lowering: Any) -> StoredOutput:
    layout = buffer.layout
    owner = {"NonOwningLayout": "view", "MutationLayoutSHOULDREMOVE": "target"}.get(
        type(layout).__name__
    )
    if owner:  # a part of a concatenation, or an operation in place
        return _stored(getattr(layout, owner), lowering)
    maker = buffer.inputs[0] if type(buffer).__name__ == "MultiOutput" else None
    if type(maker).__name__ == "InvokeSubgraph":
        return _of_region(buffer, maker, lowering)
    return StoredOutput(buffer.get_name(), _bytes(layout, lowering))


def _of_region(buffer: Any, call: Any, lowering: Any) -> StoredOutput:
    """Return where the result of a nested compile region is stored. It may be one of the region's
    operands, or a view of one.
    """
    inner = call.subgraph.graph
    found = _stored(inner.graph_outputs[buffer.indices[0][1]], inner)
    if found.is_input:
        return _stored(call.inputs[list(inner.graph_inputs).index(found.storage)], lowering)
    return StoredOutput(f"{call.get_name()}.{found.storage}", found.size_bytes)


def _bytes(layout: Any, lowering: Any) -> int:
    try:
        elements = size_hint_of(lowering.sizevars, layout.storage_size())
    except (TypeError, ValueError, NotImplementedError):  # a size that only the data tells
        return -1
    return -1 if elements is None else elements * int(layout.dtype.itemsize)
