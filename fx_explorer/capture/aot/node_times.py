"""This module tells the clock which node AOTAutograd traces and Inductor lowers: the user's line
and module that it came from.

``PropagateUnbackedSymInts.run_node`` (torch/fx/experimental/symbolic_shapes.py) calls each node of
Dynamo's graph while AOTAutograd traces it; ``GraphLowering.run_node`` (torch/_inductor/graph.py)
makes Inductor's IR of each node of a final graph. The backward that autograd traces by itself is of
no line.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch

from fx_explorer.capture.compile_time import UserLine
from fx_explorer.capture.recording.graphs import module_of
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.model import Stage


def traced_node_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Tell the clock, inside the block, which node AOTAutograd traces."""
    from torch.fx.experimental.symbolic_shapes import PropagateUnbackedSymInts

    return patched(
        PropagateUnbackedSymInts, "run_node", functools.partial(_observed, recording, "joint")
    )


def lowered_node_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Tell the clock, inside the block, which node Inductor lowers."""
    from torch._inductor.graph import GraphLowering

    return patched(GraphLowering, "run_node", functools.partial(_observed, recording, "schedule"))


def _observed(
    recording: Recording, stage: Stage, original: Callable[..., Any]
) -> Callable[..., Any]:
    known: dict[tuple[str, str], UserLine | None] = {}
    """Stack and module → the line: the nodes of one line share their stack's text."""
    phases = recording.phases

    @functools.wraps(original)
    def run_node(interpreter: Any, n: torch.fx.Node) -> Any:
        # It runs for thousands of nodes, so Dynamo is kept out of what is new only.
        try:
            key = n.meta.get("stack_trace") or "", module_of(n)[0]
            if key not in known:
                with recording.noting("the time of a node", stage):
                    known[key] = _line_of(recording, *key)
            phases.turn_to(known.get(key))
        except Exception as error:  # noqa: BLE001 - stored: no fault of the compile's
            recording.add_fault("the time of a node", stage, error)
        try:
            return original(interpreter, n)
        finally:
            phases.turn_to(None)

    return run_node


def _line_of(recording: Recording, stack_trace: str, module: str) -> UserLine | None:
    frame = recording.sources.user_frame(recording.sources.parse(stack_trace))
    if frame is None:
        return None
    return UserLine(frame.file, frame.line, module)
