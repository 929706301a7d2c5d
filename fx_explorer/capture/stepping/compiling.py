"""Compile one graph as the user asks for it, and leave it for another variant whenever one is asked
for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.exc import RestartAnalysis

from fx_explorer.capture.inspecting import runnable_copy
from fx_explorer.capture.options import dynamic_shapes
from fx_explorer.capture.stepping.at_gate import at_gate
from fx_explorer.capture.stepping.gates import AnotherVariant, GateReached, LeftAtGate, Skipped
from fx_explorer.capture.stepping.new_variant import new_variant
from fx_explorer.capture.stepping.stepper import Stepper
from fx_explorer.capture.stepping.variants.variant import CapturedSegment, Variant
from fx_explorer.errors import UsageError

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
        if dynamic_shapes.SETTING in other.command.changes.settings:
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
