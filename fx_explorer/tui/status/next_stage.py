"""Which key goes on from a pause, and to what."""

from __future__ import annotations

from collections.abc import Mapping

from fx_explorer.model import Direction, Gate
from fx_explorer.tui.commands import Keymap, by_id
from fx_explorer.tui.keys.bindings import first_key

_NEXT: Mapping[Gate, str] = {
    "dynamo": "the pre-grad passes",
    "pre_grad": "AOTAutograd",
    "joint": "the partitioner, which makes a forward and a backward of it",
    "partition": "Inductor's passes over the {graph}",
    "post_grad": "lowering: loops and library calls instead of operations",
    "pre_fusion": "fusion: which of the loops become one",
    "post_fusion": "code generation",
    "output_code": "what is left: the next graph, or the end",
}


def next_key(keymap: Keymap, gate: Gate, direction: Direction, *, is_inductors: bool) -> str:
    """Return ``. goes on to fusion: …``. What another backend than Inductor does next is not known."""
    key = first_key(by_id("step.next"), keymap)
    if not key:
        return ""
    if not is_inductors or gate not in _NEXT:
        return f"{key} goes on."
    done = "; the forward is through" if (gate, direction) == ("partition", "backward") else ""
    return f"{key} goes on to {_NEXT[gate].format(graph=f'{direction} graph' if direction else 'graph')}{done}."
