"""The forward saves values for the backward; this module records which values, in which storages,
and of how many bytes.

AOTAutograd's partition says which values are saved: each is an output of the forward graph. Whether
that is a view of an input, a buffer of its own or a copy with other strides is decided while
Inductor lowers the graph (``GraphLowering``, torch/_inductor/graph.py). So the rows are first made
from AOTAutograd's fake tensors, and corrected when the forward was lowered. A view, however small,
keeps all of the storage that it looks into, which may be that of an input.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fx_explorer.capture.recording.compilation_state import RecordedGraph, Segment
from fx_explorer.capture.recording.fx_graphs import (
    describe_value,
    is_region_call,
    node_value,
    short_dtype,
    sizes,
)
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.versions import size_hint_of
from fx_explorer.model import SavedTensor
from fx_explorer.model.rows.observation import SavedKind


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """Where an output is stored. ``storage`` is the name of its buffer; empty for a number or
    None.
    """

    storage: str
    size_bytes: int = -1
    """Size of the whole storage; -1 for an input, whose storage is the caller's, and where a size
    has no hint.
    """
    is_input: bool = False


def stored_outputs(lowering: Any) -> tuple[StoredOutput, ...]:
    return tuple(_stored(node, lowering) for node in lowering.graph_outputs)


def _stored(node: Any, lowering: Any) -> StoredOutput:
    is_constant = type(node).__name__ in ("NoneAsConstantBuffer", "ShapeAsConstantBuffer")
    if is_constant or not hasattr(node, "get_name"):
        return StoredOutput("")
    name = node.get_name()
    if name in lowering.graph_inputs:
        return StoredOutput(name, is_input=True)
    buffer = lowering.name_to_buffer.get(name)
    if buffer is None:
        return StoredOutput(name)
    return _of_buffer(buffer, lowering)


def _of_buffer(buffer: Any, lowering: Any) -> StoredOutput:
    layout = buffer.layout
    owner = {"NonOwningLayout": "view", "MutationLayoutSHOULDREMOVE": "target"}.get(
        type(layout).__name__
    )
    if owner:  # a part of a concatenation, or an operation in place
        return _stored(getattr(layout, owner), lowering)
    if type(buffer).__name__ == "MultiOutput":
        maker = buffer.inputs[0]
    else:
        maker = None
    if type(maker).__name__ == "InvokeSubgraph":
        return _of_region(buffer, maker, lowering)
    return StoredOutput(buffer.get_name(), _bytes(layout, lowering))


def _of_region(buffer: Any, call: Any, lowering: Any) -> StoredOutput:
    """Return where the result of a nested compile region is stored: in a buffer, or in one of the
    region's operands (perhaps as a view).
    """
    inner = call.subgraph.graph
    output = _stored(inner.graph_outputs[buffer.indices[0][1]], inner)
    if output.is_input:
        return _stored(call.inputs[list(inner.graph_inputs).index(output.storage)], lowering)
    return StoredOutput(f"{call.get_name()}.{output.storage}", output.size_bytes)


def _bytes(layout: Any, lowering: Any) -> int:
    try:
        elements = size_hint_of(lowering.sizevars, layout.storage_size())
    except (TypeError, ValueError, NotImplementedError):  # a size that only the data determines
        return -1
    if elements is None:
        return -1
    return elements * int(layout.dtype.itemsize)


# Saved values as rows.


@dataclass(frozen=True, slots=True)
class _Storage:
    """A storage in the forward graph. ``first`` is the first node whose value is in it, an input if
    it is an input's.
    """

    first: torch.fx.Node
    size_bytes: int


def add_saved_tensors(recording: Recording, segment: Segment) -> None:
    """Add a row per saved value. The partitioner gives a saved value's backward placeholder the
    name of the forward node it is.
    """
    forward, backward = segment.aot["forward"], segment.aot["backward"]
    output = next(node for node in forward.ids if node.op == "output")
    returned: Sequence[Any] = output.args[0]
    # A value that the program gets and the backward needs is returned twice; what is saved comes
    # last.
    from_the_end = {}
    for at, node in enumerate(returned):
        if isinstance(node, torch.fx.Node):
            from_the_end[node.name] = at - len(returned)
    live = {node.name: node for node in output.all_input_nodes}
    storages = dict(_storages(forward))
    for node, consumer in backward.ids.items():
        if node.op == "placeholder" and _takes_memory(live.get(node.name)):
            row = _row(recording, segment, live[node.name], storages)
            at = from_the_end[node.name]
            row = replace(row, producer=forward.ids[live[node.name]], consumer=consumer, output=at)
            segment.saved[at] = replace(row, id=recording.writer.add(row))


def _takes_memory(node: torch.fx.Node | None) -> bool:
    """Return whether a node of the forward graph has a tensor or a number. The backward of a
    DTensor also receives the mesh, which is not a saved value.
    """
    values = (torch.Tensor, int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)
    return node is not None and isinstance(node_value(node), values)


def settle_saved_tensors(
    recording: Recording, segment: Segment, outputs: Sequence[StoredOutput]
) -> None:
    """Correct the rows after the forward was lowered; ``outputs`` are its outputs."""
    forward = segment.aot["forward"]
    inputs = {node.name: node for node in forward.ids if node.op == "placeholder"}
    storages = dict(_storages(forward))
    for at, row in segment.saved.items():
        if row.kind == "number" or -at > len(outputs):  # a number is in no storage
            continue
        stored = outputs[at]
        if stored.is_input and inputs.get(stored.storage) in storages:
            settled = _placed(segment, row, storages[inputs[stored.storage]])
        else:
            kind: SavedKind = "copy" if row.kind in ("parameter", "buffer", "input") else row.kind
            settled = replace(
                row, kind=kind, storage=stored.storage, storage_bytes=stored.size_bytes
            )
        if row.compilation == recording.variant_id():
            recording.writer.update(settled)
        else:  # that of the variant that this one set out from
            settled = replace(settled, id=0, compilation=recording.variant_id())
            settled = replace(settled, id=recording.writer.add(settled))
        segment.saved[at] = settled


def _row(
    recording: Recording,
    segment: Segment,
    node: torch.fx.Node,
    storages: dict[torch.fx.Node, _Storage],
) -> SavedTensor:
    """Make the row of a saved value: a number, or a tensor with its shape, size and storage."""
    value = node_value(node)
    variant = recording.variant_id()
    if not isinstance(value, torch.Tensor):
        return SavedTensor(
            0, variant, node.name, "number", (), describe_value(value), 0, 0, 0, storage_bytes=0
        )
    kind: SavedKind = "constant" if node.op == "get_attr" else "activation"
    row = SavedTensor(
        id=0,
        compilation=variant,
        name=node.name,
        kind=kind,
        shape=sizes(value.shape),
        dtype=short_dtype(value.dtype),
        size_bytes=max(0, known_bytes(value.numel() * value.element_size())),
        producer=0,
        consumer=0,
    )
    if node not in storages:
        return row
    return _placed(segment, row, storages[node])


def _placed(segment: Segment, row: SavedTensor, storage: _Storage) -> SavedTensor:
    if storage.first.op == "placeholder":
        kind = _kind_of_input(segment, storage.first)
    else:
        kind = row.kind
    return replace(row, kind=kind, storage=storage.first.name, storage_bytes=storage.size_bytes)


def _storages(graph: RecordedGraph) -> Iterator[tuple[torch.fx.Node, _Storage]]:
    """Yield the storage of each node, from the fake tensors with which AOTAutograd traced: their
    views share a storage as real ones do.
    """
    return _storages_of(graph.module)


def _storages_of(module: torch.fx.GraphModule) -> Iterator[tuple[torch.fx.Node, _Storage]]:
    """Yield the storage of each node that has a tensor. A result of a nested region shares the
    storage that the region's call gives it.
    """
    known: dict[object, _Storage] = {}
    storages: dict[torch.fx.Node, _Storage] = {}
    for node in module.graph.nodes:
        value = node_value(node)
        if not isinstance(value, torch.Tensor):
            continue
        try:
            storage = value.untyped_storage()
        except NotImplementedError:  # sparse, and subclasses that wrap others
            continue
        region = _result_of_region(module, node)
        of_node = _Storage(node, known_bytes(storage.nbytes()))
        if isinstance(region, torch.fx.Node) and region in storages:
            storages[node] = storages[region]
        else:
            storages[node] = known.setdefault(region or storage._cdata, of_node)
        yield node, storages[node]


def _result_of_region(
    module: torch.fx.GraphModule, node: torch.fx.Node
) -> torch.fx.Node | tuple[object, ...] | None:
    """Trace a value that a nested compile region returns: to the operand whose storage it shares,
    else to a tuple that distinguishes its storage from those of other calls. None for other values.

    All calls of a region carry the fake values of its one graph, so these cannot tell them apart.
    """
    call = node.args[0] if node.target is operator.getitem else None
    if not isinstance(call, torch.fx.Node) or not is_region_call(call):
        return None
    inner = getattr(module, str(call.args[0].target))
    results: Any = next(node for node in inner.graph.nodes if node.op == "output").args[0]
    result = results[node.args[1]]
    storage = dict(_storages_of(inner)).get(result)
    if storage is None:
        return call, result
    if storage.first.op != "placeholder":
        return call, storage.first
    inputs = [node for node in inner.graph.nodes if node.op == "placeholder"]
    operand = call.args[2 + inputs.index(storage.first)]
    if isinstance(operand, torch.fx.Node):
        return operand
    return None


def _kind_of_input(segment: Segment, node: torch.fx.Node) -> SavedKind:
    """Return the kind of an input of the forward graph. AOTAutograd describes which input of the
    traced graph it is, and that graph has the owner.
    """
    inputs = segment.traced.inputs if segment.traced else ()
    description = node.meta.get("desc")
    index, target = getattr(description, "idx", None), getattr(description, "target", "")
    if index is None and segment.traced and target in segment.traced.held:
        held = segment.traced.held[target]
        if isinstance(node_value(held), torch.nn.Parameter):
            return "parameter"
        sources = getattr(segment.traced.module, "_param_name_to_source", None) or {}
        if "_buffers" in _name_of(sources.get(target)):
            return "buffer"
        return "input"
    if index is None or index >= len(inputs):
        return "input"
    if isinstance(node_value(inputs[index]), torch.nn.Parameter):
        return "parameter"
    source = getattr(inputs[index].meta.get("grapharg"), "source", None)
    if "_buffers" in _name_of(source):
        return "buffer"
    return "input"


def _name_of(source: Any) -> str:
    """Return the name of a source, ``L['self']._buffers['scale']``: it is a method up to torch
    2.12, a property since.
    """
    name = getattr(source, "name", "")
    if callable(name):
        name = name()
    return str(name)


def known_bytes(size: Any) -> int:
    """Return a size, using the hint of a symbolic one; -1 without a hint."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    hint = size.node.hint
    return -1 if hint is None else int(hint)
