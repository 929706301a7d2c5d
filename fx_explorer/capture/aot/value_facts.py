"""This module records what AOTAutograd knows of the inputs and outputs of a graph: which inputs are
changed and where, which overlap, and which outputs are inputs or views.

AOTAutograd finds that by running the graph once with functional tensors
(``ViewAndMutationMeta``, torch/_functorch/_aot_autograd/schemas.py). Hook:
``aot_stage1_graph_capture`` (torch/_functorch/aot_autograd.py), which is given it as the user's
function has its inputs, and leaves it as the traced graph has them: where inputs overlap, one
takes their place. What is seen there is stored with the forward graph.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

from fx_explorer.capture.aot.distributed_facts import watching_redistributions
from fx_explorer.capture.recording.compilation_state import RecordedGraph, Segment
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import functorch_aot_autograd
from fx_explorer.model.rows.values import GraphValues, ValueFact, ValueKind

_PLAIN_OUTPUT = "non_alias"
_UNCHANGED = "not_mutated"

_CHANGES = {
    "mutates_data": "data",
    "mutates_metadata": "metadata",
    "mutates_storage_metadata": "storage",
    "mutation_inductor_storage_resize": "storage size",
    "mutations_hidden_from_autograd": "hidden from autograd",
    "mutations_under_no_grad_or_inference_mode": "under no_grad",
}
"""Field of torch's ``InputAliasInfo`` → our word for what it says."""

_BASES = ("ViewBaseAOTInput", "SyntheticBaseAOTInput")
"""Descriptors of an input that stands for several that overlap (descriptors.py)."""


@dataclass
class _Input:
    kind: ValueKind
    changes: tuple[str, ...]
    size_bytes: int
    base: int = -1


@dataclass(frozen=True)
class _Output:
    kind: ValueKind
    base: int


@dataclass
class SeenValues:
    """What AOTAutograd said of a graph's inputs and outputs before it traced the graph."""

    inputs: list[_Input]
    outputs: list[_Output]
    intermediate_bases: int
    tangents: int
    synthetic_bases: int
    is_training: bool


@contextlib.contextmanager
def value_fact_hook(recording: Recording) -> Iterator[None]:
    """Keep what AOTAutograd says of the values of each graph, for the segment of the graph."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def aot_stage1_graph_capture(aot_state: Any, *args: Any, **kwargs: Any) -> Any:
            seen = None
            with recording.noting("aliases and changes of values", "joint"):
                seen = _seen(aot_state)
            with watching_redistributions(recording):
                captured = original(aot_state, *args, **kwargs)
            if seen is not None and not recording.here.is_nested:
                with recording.noting("aliases and changes of values", "joint"):
                    _note_common_bases(seen, captured)
                    recording.segment().values = seen
            return captured

        return aot_stage1_graph_capture

    with patched(functorch_aot_autograd, "aot_stage1_graph_capture", make):
        yield


def _seen(aot_state: Any) -> SeenValues:
    metadata = aot_state.fw_metadata
    arguments = aot_state.flat_args
    inputs = [
        _input(info, argument)
        for info, argument in zip(metadata.input_info, arguments, strict=True)
    ]
    outputs = [
        _Output(info.output_type.name, -1 if info.base_idx is None else info.base_idx)
        for info in metadata.output_info
    ]
    return SeenValues(
        inputs,
        outputs,
        metadata.num_intermediate_bases,
        len(metadata.traced_tangents),
        0,
        bool(aot_state.needs_autograd),
    )


def _input(info: Any, argument: object) -> _Input:
    kind = cast(ValueKind, info.mutation_type.name.lower())
    if kind == _UNCHANGED:
        return _Input(kind, (), -1)
    changes = [word for name, word in _CHANGES.items() if getattr(info, name, False)]
    return _Input(kind, tuple(changes), _size_bytes(argument))


def _size_bytes(value: object) -> int:
    """Return the size of a tensor's elements; -1 for other values, and where a size is symbolic."""
    if not isinstance(value, torch.Tensor):
        return -1
    # A symbolic size is not compared: that would add a guard.
    if not all(isinstance(size, int) for size in value.shape):
        return -1
    return value.numel() * value.element_size()


def _note_common_bases(seen: SeenValues, captured: Any) -> None:
    """Note which inputs overlap, so that AOTAutograd traced the graph with a common base of them
    (``AOTSyntheticBaseWrapper``, runtime_wrappers.py).
    """
    positions = list(range(len(seen.inputs)))
    for wrapper in captured.wrappers:
        kept = getattr(wrapper, "keep_arg_mask", None)
        if kept and wrapper.needs_post_compile:  # an input that was given twice is left out first
            positions = [at for at, is_kept in zip(positions, kept, strict=True) if is_kept]
        groups = getattr(wrapper, "base_groups", None)
        if not groups:
            continue
        seen.synthetic_bases = len(groups)
        for number, members in enumerate(groups.values()):
            for member in members:
                seen.inputs[positions[member]].base = number


def add_value_facts(recording: Recording, segment: Segment, recorded: RecordedGraph) -> None:
    """Store what was seen, with the forward or inference graph that is just recorded."""
    seen = segment.values
    if seen is None:
        return
    segment.values = None
    traced = segment.traced
    summary = GraphValues(
        id=0,
        compilation=recorded.graph.compilation,
        graph=recorded.graph.id,
        traced=traced.graph.id if traced else 0,
        inputs=len(seen.inputs),
        outputs=len(seen.outputs),
        intermediate_bases=seen.intermediate_bases,
        tangents=seen.tangents,
        synthetic_bases=seen.synthetic_bases,
        is_training=seen.is_training,
    )
    owner = recording.writer.add(summary)
    input_rows = [traced.ids[node] for node in traced.inputs] if traced else []
    result_rows = _result_rows(traced)
    recording.writer.add_all(_input_facts(seen, owner, input_rows, recorded))
    recording.writer.add_all(_output_facts(seen, owner, input_rows, result_rows))


def _input_facts(
    seen: SeenValues, owner: int, rows: Sequence[int], recorded: RecordedGraph
) -> Iterator[ValueFact]:
    written = _written_values(recorded)
    of_base = {seen.inputs[at].base: row for at, row in written.items()}
    for position, given in enumerate(seen.inputs):
        if given.kind == _UNCHANGED and given.base < 0:
            continue
        value = 0
        if given.kind != _UNCHANGED:
            # Of those that overlap torch names the first only.
            value = written.get(position) or (of_base.get(given.base, 0) if given.base >= 0 else 0)
        yield ValueFact(
            id=0,
            graph_values=owner,
            role="input",
            position=position,
            node=_row(rows, position),
            kind=given.kind,
            base=given.base,
            changes=given.changes,
            written=value,
            size_bytes=given.size_bytes,
        )


def _output_facts(
    seen: SeenValues, owner: int, inputs: Sequence[int], results: Sequence[int]
) -> Iterator[ValueFact]:
    for position, output in enumerate(seen.outputs):
        if output.kind == _PLAIN_OUTPUT:
            continue
        base_row = 0
        if output.kind in ("alias_of_input", "is_input"):
            base_row = _row(inputs, output.base)
        elif output.kind == "alias_of_intermediate_base_is_user_output":
            base_row = _row(results, output.base)
        yield ValueFact(
            id=0,
            graph_values=owner,
            role="output",
            position=position,
            node=_row(results, position),
            kind=output.kind,
            base=output.base,
            base_node=base_row,
        )


def _row(rows: Sequence[int], position: int) -> int:
    return rows[position] if 0 <= position < len(rows) else 0


def _result_rows(traced: RecordedGraph | None) -> list[int]:
    """Return the row of each result of the traced graph; 0 for one that is no node."""
    output = _output_node(traced.module) if traced else None
    if traced is None or output is None:
        return []
    results = output.args[0] if output.args else ()
    if not isinstance(results, list | tuple):
        results = (results,)
    rows = []
    for result in results:
        is_node = isinstance(result, torch.fx.Node)
        rows.append(traced.ids.get(result, 0) if is_node else 0)
    return rows


def _output_node(module: torch.fx.GraphModule) -> torch.fx.Node | None:
    return next((node for node in reversed(module.graph.nodes) if node.op == "output"), None)


def _written_values(recorded: RecordedGraph) -> Mapping[int, int]:
    """Return, for the inputs that a graph changes, the row of the node that made the last value.

    The graph writes it itself (``copy_`` at its end), or returns it first, and it is copied after
    the graph.
    """
    written: dict[int, int] = {}
    for node in recorded.module.graph.nodes:
        if node.op != "call_function" or str(node.target) != "aten.copy_.default":
            continue
        target, value = node.args[0], node.args[1]
        position = _position(target.meta.get("desc"))
        if position >= 0 and isinstance(value, torch.fx.Node):
            written[position] = recorded.ids.get(_with_line(value), 0)
    output = _output_node(recorded.module)
    described = output.meta.get("desc") if output is not None else None
    if output is None or not isinstance(described, list | tuple):
        return written
    for description, value in zip(described, cast("Sequence[Any]", output.args[0]), strict=False):
        changed = getattr(description, "mutated_input", None)
        position = _position(changed)
        if position >= 0 and isinstance(value, torch.fx.Node):
            written.setdefault(position, recorded.ids.get(_with_line(value), 0))
    return written


def _position(description: Any) -> int:
    """Return which input of the traced graph a descriptor is about; -1 where it is none of them."""
    while description is not None:
        if type(description).__name__ == "PlainAOTInput":
            return int(description.idx)
        is_base = type(description).__name__ in _BASES
        description = getattr(description, "base_of" if is_base else "base", None)
    return -1


def _with_line(value: torch.fx.Node) -> torch.fx.Node:
    """Return the nearest node at or before this one that has a line of the user's: AOTAutograd
    writes a part of an input into the whole after the fact, without one.
    """
    near = [value]
    seen = set(near)
    for node in near:
        if node.meta.get("stack_trace"):
            return node
        for producer in reversed(node.all_input_nodes):
            if producer.op != "placeholder" and producer not in seen:
                seen.add(producer)
                near.append(producer)
    return value
