"""What happens at a gate: the passes for it are applied, and the user is waited for."""

from __future__ import annotations

import functools
import time

import torch

from fx_explorer.capture.graph_copies import snapshot
from fx_explorer.capture.stepping.gate_commands import allow_at_gate, obey_at_gate
from fx_explorer.capture.stepping.gates import GateReached
from fx_explorer.capture.stepping.stepper import Stepper
from fx_explorer.capture.stepping.variants.variant import Variant
from fx_explorer.errors import PassProblem
from fx_explorer.model import Direction, Gate, Notice

_BEFORE: dict[Gate, Gate] = {"dynamo": "dynamo", "post_grad": "pre_fusion"}
"""Where an edited graph is kept for variants that set out from later gates. Other gates have kept
what was made of it.
"""


def at_gate(
    stepper: Stepper, gate: Gate, direction: Direction, module: torch.fx.GraphModule | None = None
) -> None:
    """Apply the passes that this variant has for a finished stage, and wait if the user wants to
    stop here.
    """
    variant = stepper.variant
    if variant is None:
        return
    key = (gate, direction)
    variant.reached.add(key)
    if key in variant.passed:
        return
    # Whatever AOTAutograd has to tell Dynamo comes from tracing, which is done by then.
    if stepper.is_probing and gate in ("joint", "partition"):
        raise GateReached
    stepper.gates.arrive(gate)
    is_stuck = module is not None and _is_stuck(
        stepper, stepper.edits.apply_passes(variant, gate, direction, module)
    )
    if is_stuck or stepper.gates.stops_at(gate):
        _wait(stepper, variant, gate, direction, module)
    variant.passed.add(key)
    if module is not None and key in variant.edited and gate in _BEFORE:
        variant.kept[(_BEFORE[gate], direction)] = snapshot(module)


def after_published(stepper: Stepper, stage: str, direction: Direction) -> None:
    """Wait if the user wants to stop after each stage that a backend publishes. Nothing is changed
    there: only the backend knows what it makes of the stage.
    """
    variant = stepper.variant
    if variant is None or not stepper.gates.stops_at("backend"):
        return
    stepper.gates.arrive("backend")
    backend = stepper.recording.of(stepper.recording.compilation_name()).backend
    _wait(
        stepper, variant, "backend", direction, None, f"{stage} of {backend}" if backend else stage
    )


def _wait(
    stepper: Stepper,
    variant: Variant,
    gate: Gate,
    direction: Direction,
    module: torch.fx.GraphModule | None,
    published: str = "",
) -> None:
    began = time.monotonic()
    try:
        obey = functools.partial(obey_at_gate, stepper, variant, gate, direction, module)
        allow = functools.partial(allow_at_gate, stepper)
        stepper.gates.wait(gate, variant.row.name, direction, obey, allow, published)
    finally:
        waited_s = time.monotonic() - began
        variant.waited_s += waited_s
        stepper.recording.waited_s += waited_s


def _is_stuck(stepper: Stepper, problems: list[str]) -> bool:
    """Return whether to wait for the user because passes failed. Without a user, raises
    PassProblem.
    """
    if problems and stepper.is_outside:
        raise PassProblem(problems[0])
    for problem in problems:
        stepper.recording.notify(Notice("note", text=problem))
    return bool(problems)
