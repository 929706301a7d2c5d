"""This module takes one graph through the gates: at each its passes are applied and the user is
waited for, and the graph is compiled as one variant after another, as the user asks.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.exc import RestartAnalysis

from fx_explorer.capture.graph_copies import snapshot
from fx_explorer.capture.inspecting import runnable_copy
from fx_explorer.capture.options import settings
from fx_explorer.capture.stepping.gate_commands import allow_at_gate, obey_at_gate
from fx_explorer.capture.stepping.gates import AnotherVariant, GateReached, LeftAtGate, Skipped
from fx_explorer.capture.stepping.new_variant import new_variant
from fx_explorer.capture.stepping.stepper import Stepper
from fx_explorer.capture.stepping.variant import CapturedSegment, Variant
from fx_explorer.errors import PassProblem, UsageError
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
    published = f"{stage} of {backend}" if backend else stage
    _wait(stepper, variant, "backend", direction, None, published)


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


# The graph compiled as the user asks for it.


_NEEDS_DYNAMO = (
    "Dynamo would have to capture the frame again for this, and is through with it; capture "
    "again with these options"
)
CompileHere = Callable[[torch.fx.GraphModule], Any]


def compile_as_asked(
    stepper: Stepper,
    kept: CapturedSegment,
    variant: Variant,
    module: torch.fx.GraphModule,
    compile_here: CompileHere,
) -> Any:
    """Compile ``module`` as this variant. Leave it for another one whenever the user asks for
    one.
    """
    try:
        at_gate(stepper, "dynamo", "", module)
        made = compile_here(module)
        variant.compiled_with = stepper.settings.for_variant(variant)
        return made
    except Skipped:
        stepper.rows.leave(variant, "the user ran this graph eagerly")
        return runnable_copy(kept.dynamo)
    except AnotherVariant as other:
        stepper.rows.leave(variant, "the user chose another variant")
        # Only Dynamo can do this: ``stepped_boundary.py`` has it restart the frame.
        if settings.SETTING in other.command.changes.settings:
            raise
        other_variant, graph = new_variant(stepper, kept, other.command, variant)
        made = run_variant(
            stepper,
            kept,
            other_variant,
            lambda: compile_as_asked(stepper, kept, other_variant, graph, compile_here),
        )
        stepper.rows.use(kept, other_variant)
        return made
    # It is left for now only, and its row continues when it is taken up again.
    except GateReached:
        raise
    except LeftAtGate:
        stepper.rows.leave(variant, "the user aborted here")
        raise


def run_variant(
    stepper: Stepper, kept: CapturedSegment, variant: Variant, compile_variant: Callable[[], Any]
) -> Any:
    """Compile ``variant`` in place of the one before. Its settings are in force meanwhile."""
    variant.began, variant.waited_s = time.monotonic(), 0.0
    with stepper.as_current(kept, variant), stepper.settings.of(variant):
        try:
            result = compile_variant()
        except RestartAnalysis as error:
            # Dynamo waits for it, and restarts the frame.
            if not stepper.is_outside:
                raise
            stepper.rows.change(variant, status="failed", error=_NEEDS_DYNAMO)
            raise UsageError(_NEEDS_DYNAMO) from error
        except Exception as error:
            stepper.rows.fail(variant, error)
            raise
        except GateReached:
            stepper.rows.add_time(variant)
            variant.pause()
            raise
    stepper.rows.finish(variant)
    return result
