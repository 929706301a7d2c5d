"""Compiling one graph the way the user wants, and on another way as often as one is taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.exc import RestartAnalysis

from fx_explorer.capture.inspecting import runnable_copy
from fx_explorer.capture.options import dynamic_shapes
from fx_explorer.capture.stepping.at_gate import at_gate
from fx_explorer.capture.stepping.branching import branch
from fx_explorer.capture.stepping.gates import AnotherWay, Left, Reached, Skipped
from fx_explorer.capture.stepping.steering import Steering
from fx_explorer.capture.stepping.variants.ways import KeptSegment, Way
from fx_explorer.errors import UsageError

_NEEDS_DYNAMO = "Dynamo would have to capture the frame anew for this, and is through with it; capture again with these options"
CompileHere = Callable[[torch.fx.GraphModule], Any]


def follow(steering: Steering, kept: KeptSegment, way: Way, module: torch.fx.GraphModule, compile_here: CompileHere) -> Any:
    """Compile ``module`` the way the user wants; leaves it as often as another one is taken."""
    try:
        at_gate(steering, "dynamo", "", module)
        made = compile_here(module)
        way.compiled_with = steering.settings.for_way(way)
        return made
    except Skipped:
        steering.rows.leave(way, "the user ran this graph eagerly")
        return runnable_copy(kept.dynamo)
    except AnotherWay as other:
        steering.rows.leave(way, "the user took another way")
        if dynamic_shapes.SETTING in other.command.changes.settings:
            raise
        following, graph = branch(steering, kept, other.command, way)
        made = taking(steering, kept, following, lambda: follow(steering, kept, following, graph, compile_here))
        steering.rows.use(kept, following)
        return made
    except Reached:
        raise
    except Left:
        steering.rows.leave(way, "the user aborted here")
        raise


def taking(steering: Steering, kept: KeptSegment, way: Way, compile_way: Callable[[], Any]) -> Any:
    """Compile along ``way``, in place of the one before; its settings hold meanwhile."""
    way.began, way.waited_s = time.monotonic(), 0.0
    with steering.as_current(kept, way), steering.settings.of(way):
        try:
            result = compile_way()
        except RestartAnalysis as error:
            if not steering.is_outside:
                raise
            steering.rows.change(way, status="failed", error=_NEEDS_DYNAMO)
            raise UsageError(_NEEDS_DYNAMO) from error
        except Exception as error:
            steering.rows.fail(way, error)
            raise
        except Reached:
            steering.rows.add_time(way)
            way.pause()
            raise
    steering.rows.finish(way)
    return result
