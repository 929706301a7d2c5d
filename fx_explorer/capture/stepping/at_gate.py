"""A stage is finished: the passes for it are applied, and the user is waited for."""

from __future__ import annotations

import functools
import time

import torch

from fx_explorer.capture.graph_copies import snapshot
from fx_explorer.capture.stepping.gates import Reached
from fx_explorer.capture.stepping.orders import allow_at_gate, obey_at_gate
from fx_explorer.capture.stepping.steering import Steering
from fx_explorer.capture.stepping.variants.ways import Way
from fx_explorer.errors import PassProblem
from fx_explorer.model import Direction, Gate, Notice

_BEFORE: dict[Gate, Gate] = {"dynamo": "dynamo", "post_grad": "pre_fusion"}
"""Where a graph that was edited is kept for ways that set out from later on; other gates have kept what was made of it."""


def at_gate(steering: Steering, gate: Gate, direction: Direction, module: torch.fx.GraphModule | None = None) -> None:
    """A stage is finished. Applies the passes this way has for it, and waits if the user wants to stop here."""
    way = steering.way
    if way is None:
        return
    key = (gate, direction)
    way.reached.add(key)
    if key in way.passed:
        return
    if steering.is_probing and gate in ("joint", "partition"):
        raise Reached
    steering.gates.arrive(gate)
    is_stuck = module is not None and _is_stuck(steering, steering.edits.apply_passes(way, gate, direction, module))
    if is_stuck or steering.gates.stops_at(gate):
        _wait(steering, way, gate, direction, module)
    way.passed.add(key)
    if module is not None and key in way.edited and gate in _BEFORE:
        way.kept[(_BEFORE[gate], direction)] = snapshot(module)


def _wait(steering: Steering, way: Way, gate: Gate, direction: Direction, module: torch.fx.GraphModule | None) -> None:
    began = time.monotonic()
    try:
        obey = functools.partial(obey_at_gate, steering, way, gate, direction, module)
        steering.gates.wait(gate, way.row.name, direction, obey, functools.partial(allow_at_gate, steering))
    finally:
        waited_s = time.monotonic() - began
        way.waited_s += waited_s
        steering.recording.waited_s += waited_s


def _is_stuck(steering: Steering, problems: list[str]) -> bool:
    """Whether to wait for what the user makes of passes that cannot be; without a user there, raises PassProblem."""
    if problems and steering.is_outside:
        raise PassProblem(problems[0])
    for problem in problems:
        steering.recording.notify(Notice("note", text=problem))
    return bool(problems)
