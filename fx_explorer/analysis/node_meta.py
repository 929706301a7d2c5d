"""This module reads what ``node.meta`` holds of a node, key by key, in the texts that the capture
made of the values.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.session import SessionReader, answered_once

SHOWN_AS: Mapping[str, str] = {
    "val": "its value",
    "example_value": "its value",
    "tensor_meta": "its value",
    "stack_trace": "your line",
    "nn_module_stack": "its module",
    "fwd_nn_module_stack": "its module",
    "seq_nr": "seq_nr",
    "custom": "its annotations",
}
"""Key whose value the details show by themselves → as what."""

MEANINGS: Mapping[str, str] = {
    "original_aten": "the operator before decomposition",
    "from_node": "the nodes it was made from, and the pass that made it",
    "source_fn_stack": "the Dynamo node it comes from, and the function that the program called",
    "fwd_source_fn_stack": "the same for the forward node, when this is a backward node",
    "recompute": "what activation checkpointing asks for",
    "ac_graph_id": "the checkpoint that contains it",
    "partitioner_tag": "where the partitioner put it",
    "autograd_backward": "traced while autograd ran the backward",
    "desc": "AOTAutograd's description of an input or of the outputs",
    "mutation_region_id": "its position among changes of inputs; Inductor moves no node across one",
    "eager_input_vals": "values of its arguments, for lowering that matches eager mode",
    "unbacked_bindings": "sizes it produces that are unknown at compile time",
    "grapharg": "Dynamo's record of the input",
    "tensor_dict": "attributes of the input tensor that Dynamo keeps",
    "creation_timestamp": "the order in which Dynamo made the nodes",
    "has_backward_hook": "a hook reads its gradient",
    "is_gradient_acc": "it adds up gradients",
    "user_visible_output_idxs": "outputs whose strides must be those of eager mode",
    "original_output_strides": "strides of the outputs before Inductor's passes",
    "output_stack_traces": "your lines of the outputs",
    "quantization_tag": "the quantizer's tag",
}
"""Key → what torch puts there."""


@dataclass(frozen=True, slots=True)
class MetaEntry:
    """A key of ``node.meta`` with the text of its value."""

    key: str
    text: str
    """The value's text; empty where the details of a node have it by itself."""

    @property
    def meaning(self) -> str:
        return MEANINGS.get(self.key, "")


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of a key in a graph: each for a range of positions, in their order."""

    firsts: list[int]
    lasts: list[int]
    texts: list[str]

    def at(self, position: int) -> str | None:
        """Return the value of the node at a position; None where it has none."""
        at = bisect_right(self.firsts, position) - 1
        if at >= 0 and self.lasts[at] >= position:
            return self.texts[at]
        return None


def meta_of_node(reader: SessionReader, node: model.Node) -> list[MetaEntry]:
    """Return what ``node.meta`` holds, in torch's order of the keys; [] where it was not kept."""
    entries = []
    for key, values in _meta_of_graph(reader, node.graph).items():
        text = values.at(node.position)
        if text is not None:
            entries.append(MetaEntry(key, text))
    return entries


def requires_grad(reader: SessionReader, node: model.Node) -> bool | None:
    """Return whether the tensor of one of Dynamo's nodes needs a gradient; None where that was not
    recorded: of later graphs, in which autograd is a part.
    """
    values = _meta_of_graph(reader, node.graph).get("example_value")
    text = values.at(node.position) if values else None
    return text == model.GRADIENT if text else None


@answered_once
def _meta_of_graph(reader: SessionReader, graph: int) -> dict[str, _Values]:
    rows = reader.rows(model.NodeMeta, graph=graph)
    if not rows:
        return {}
    try:
        held = json.loads(reader.text(rows[0].text))
    except ValueError:  # a stranger's file
        return {}
    by_key: dict[str, _Values] = {}
    for key, by_text in held.items() if isinstance(held, dict) else ():
        if isinstance(by_text, dict):
            by_key[key] = _values(by_text)
    return by_key


def _values(by_text: Mapping[str, object]) -> _Values:
    ranges = []
    for text, positions in by_text.items():
        for part in str(positions).split(","):
            first, _, last = part.partition("-")
            if first.isdecimal() and (not last or last.isdecimal()):
                ranges.append((int(first), int(last or first), text))
    ranges.sort()
    return _Values(
        [first for first, _, _ in ranges],
        [last for _, last, _ in ranges],
        [text for _, _, text in ranges],
    )
