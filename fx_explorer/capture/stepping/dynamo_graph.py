"""A graph as it comes from Dynamo, which waits for it: compiled now, or kept until the program is through.

Dynamo can begin the frame anew as long as it waits, and no longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch._dynamo.exc import RestartAnalysis

from fx_explorer.capture.graph_copies import snapshot
from fx_explorer.capture.inspecting import runnable_copy
from fx_explorer.capture.stepping.deferring import can_wait, must_be_traced
from fx_explorer.capture.stepping.following import CompileHere, follow
from fx_explorer.capture.stepping.gates import AnotherWay, Reached
from fx_explorer.capture.stepping.steering import Steering
from fx_explorer.capture.stepping.variants.ways import KeptSegment, Way
from fx_explorer.model import Changes, Command

_ANEW = "the user had it captured with other dynamic shapes"


def compile_segment(
    steering: Steering, output_graph: Any, module: torch.fx.GraphModule, inputs: list[Any], here: CompileHere
) -> Any:
    """What Dynamo's call of the backend does: now, or when the program is through. ``here`` is that call."""
    _tell_sources(output_graph, module)
    kept = _keep(steering, output_graph, module, inputs)
    way = kept.ways[0]
    if not (steering.defers and can_wait(kept)):
        way.is_finished = steering.defers  # whatever comes of it, it comes of it now
        return _compile_in_dynamo(steering, kept, way, module, output_graph, here)
    if must_be_traced(kept):
        _probe(steering, way, lambda: here(snapshot(module)))
    kept.settle()
    return runnable_copy(module)


def _keep(steering: Steering, output_graph: Any, module: torch.fx.GraphModule, inputs: list[Any]) -> KeptSegment:
    """The graph as it can be compiled again, with its first way."""
    recording = steering.recording
    name = recording.compilation_name()
    row = recording.row(name)
    files = recording.sources.remember((row.file, *_traced_files(output_graph)))
    kept = KeptSegment(name, output_graph.compiler_fn, inputs, snapshot(module), traced_s=0.0, files=files)
    kept.traced_s = recording.elapsed() - row.start_s
    changes = steering.settings.changes.plus(steering.carried.pop(name, Changes()))
    kept.ways.append(Way(row, recording.segment(), changes, {("dynamo", ""): kept.dynamo}))
    steering.kept[name] = kept
    return kept


def _compile_in_dynamo(
    steering: Steering, kept: KeptSegment, way: Way, module: torch.fx.GraphModule, output_graph: Any, here: CompileHere
) -> Any:
    """While Dynamo waits for it. Raises RestartAnalysis for a frame that is to be begun anew."""

    def compile_way(graph: torch.fx.GraphModule) -> Any:
        before = output_graph.compiler_fn
        output_graph.compiler_fn = steering.compiler(kept)
        try:
            return here(graph)
        finally:
            output_graph.compiler_fn = before

    steering.current[kept.name], steering.in_dynamo = way, kept
    try:
        with steering.settings.of(way):
            return follow(steering, kept, way, module, compile_way)
    except RestartAnalysis:
        steering.carried[kept.name] = kept.ways[-1].changes
        raise
    except AnotherWay as other:
        _capture_anew(steering, kept, other.command)
    finally:
        steering.in_dynamo = None


def _probe(steering: Steering, way: Way, compile_here: Callable[[], object]) -> None:
    """Trace it while Dynamo can still begin anew, should that be what AOTAutograd wants. What is traced is kept."""
    name, steering.is_probing = way.row.name, True
    steering.current[name] = way
    try:
        compile_here()
    except Reached:
        pass
    except BaseException:
        way.is_finished = True  # Dynamo makes of it what it makes of it without a pause
        raise
    finally:
        steering.is_probing = False
        del steering.current[name]


def _capture_anew(steering: Steering, kept: KeptSegment, command: Command) -> NoReturn:
    """Have Dynamo begin the frame again, with the settings of ``command``; what there is of it becomes another row."""
    steering.settings.set(command.changes.settings, command.gate)
    steering.settings.dynamic_shapes.hold()
    steering.recording.set_aside(kept.name, _ANEW)
    raise RestartAnalysis(restart_reason=_ANEW)


def _traced_files(output_graph: Any) -> set[str]:
    """Files of the functions that Dynamo inlined, those that left no node included."""
    return {code.co_filename for code in getattr(output_graph, "traced_code", ())}


def _tell_sources(output_graph: Any, module: torch.fx.GraphModule) -> None:
    """Where each input comes from: AOTAutograd decides by it what is a parameter. Dynamo writes it only within its own call of
    the backend (torch/_dynamo/output_graph.py, ``_call_user_compiler``)."""
    for node in module.graph.find_nodes(op="placeholder"):
        if not hasattr(node, "_dynamo_source"):
            node._dynamo_source = node.meta["grapharg"].source
    module._param_name_to_source = output_graph.param_name_to_source
    module._source_to_user_stacks = output_graph.source_to_user_stacks
