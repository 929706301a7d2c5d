"""A graph as it comes from Dynamo, which waits for the backend's answer: the graph is compiled now,
or kept until the program has ended.

Dynamo can begin the frame anew as long as it waits, and no longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch._dynamo.exc import RestartAnalysis

from fx_explorer.capture.graph_copies import snapshot
from fx_explorer.capture.inspecting import runnable_copy
from fx_explorer.capture.stepping.compiling import CompileHere, compile_as_asked
from fx_explorer.capture.stepping.deferring import can_wait, must_be_traced
from fx_explorer.capture.stepping.gates import AnotherVariant, GateReached
from fx_explorer.capture.stepping.stepper import Stepper
from fx_explorer.capture.stepping.variants.variant import CapturedSegment, Variant
from fx_explorer.model import Changes, Command

_ANEW = "the user had it captured with other dynamic shapes"


def compile_segment(
    stepper: Stepper,
    output_graph: Any,
    module: torch.fx.GraphModule,
    inputs: list[Any],
    here: CompileHere,
) -> Any:
    """Answer Dynamo's call of the backend: compile now, or when the program has ended. ``here`` is
    that call.
    """
    _tell_sources(output_graph, module)
    kept = _keep(stepper, output_graph, module, inputs)
    variant = kept.variants[0]
    # Whoever captured it ahead of time has called for the graph, and cannot go on without it.
    is_ahead = kept.name in stepper.recording.captured_ahead
    if not stepper.defers or is_ahead or not can_wait(kept):
        variant.is_finished = stepper.defers  # however it ends, it ends now
        return _compile_in_dynamo(stepper, kept, variant, module, output_graph, here)
    if must_be_traced(kept):
        _probe(stepper, variant, lambda: here(snapshot(module)))
    kept.settle()
    return runnable_copy(module)


def _keep(
    stepper: Stepper, output_graph: Any, module: torch.fx.GraphModule, inputs: list[Any]
) -> CapturedSegment:
    """Keep the graph so that it can be compiled again, with its first variant."""
    recording = stepper.recording
    name = recording.compilation_name()
    row = recording.row(name)
    files = recording.sources.remember((row.file, *_traced_files(output_graph)))
    kept = CapturedSegment(
        name, output_graph.compiler_fn, inputs, snapshot(module), traced_s=0.0, files=files
    )
    kept.traced_s = recording.elapsed() - row.start_s
    changes = stepper.settings.changes.plus(stepper.carried.pop(name, Changes()))
    kept.variants.append(Variant(row, recording.segment(), changes, {("dynamo", ""): kept.dynamo}))
    stepper.kept[name] = kept
    return kept


def _compile_in_dynamo(
    stepper: Stepper,
    kept: CapturedSegment,
    variant: Variant,
    module: torch.fx.GraphModule,
    output_graph: Any,
    here: CompileHere,
) -> Any:
    """Compile while Dynamo waits for the result. Raises RestartAnalysis for a frame that is to be
    begun anew.
    """

    def compile_variant(graph: torch.fx.GraphModule) -> Any:
        # ``here`` is Dynamo's own call, which takes the backend from there.
        before = output_graph.compiler_fn
        output_graph.compiler_fn = stepper.compiler(kept)
        try:
            return here(graph)
        finally:
            output_graph.compiler_fn = before

    stepper.current[kept.name], stepper.in_dynamo = variant, kept
    try:
        with stepper.settings.of(variant):
            return compile_as_asked(stepper, kept, variant, module, compile_variant)
    except RestartAnalysis:
        stepper.carried[kept.name] = kept.variants[-1].changes
        raise
    # Any other variant was compiled in place of this one (compiling.py).
    except AnotherVariant as other:
        _capture_anew(stepper, kept, other.command)
    finally:
        stepper.in_dynamo = None


def _probe(stepper: Stepper, variant: Variant, compile_here: Callable[[], object]) -> None:
    """Trace the graph while Dynamo can still begin the frame anew, in case AOTAutograd asks for
    that. The trace is kept.
    """
    name, stepper.is_probing = variant.row.name, True
    stepper.current[name] = variant
    try:
        compile_here()
    except GateReached:
        pass
    except BaseException:
        variant.is_finished = True  # Dynamo treats the error as it does without a pause
        raise
    finally:
        stepper.is_probing = False
        del stepper.current[name]


def _capture_anew(stepper: Stepper, kept: CapturedSegment, command: Command) -> NoReturn:
    """Have Dynamo begin the frame anew, with the settings of ``command``. What was recorded of the
    frame becomes a row of its own.
    """
    stepper.settings.set(command.changes.settings, command.gate)
    stepper.settings.dynamic_shapes.hold()
    stepper.recording.set_aside(kept.name, _ANEW)
    raise RestartAnalysis(restart_reason=_ANEW)


def _traced_files(output_graph: Any) -> set[str]:
    """Return the files of the functions that Dynamo inlined, including those that left no node."""
    return {code.co_filename for code in getattr(output_graph, "traced_code", ())}


def _tell_sources(output_graph: Any, module: torch.fx.GraphModule) -> None:
    """Tell AOTAutograd the source of each input, by which it decides what is a parameter. Dynamo
    sets it only within its own call of the backend (torch/_dynamo/output_graph.py,
    ``_call_user_compiler``).
    """
    for node in module.graph.find_nodes(op="placeholder"):
        if not hasattr(node, "_dynamo_source"):
            node._dynamo_source = node.meta["grapharg"].source
    module._param_name_to_source = output_graph.param_name_to_source
    module._source_to_user_stacks = output_graph.source_to_user_stacks
