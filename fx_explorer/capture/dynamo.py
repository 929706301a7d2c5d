"""Dynamo: the graph of every segment, the bytecode it rewrote, and the guards it installed.

Hooks: ``OutputGraph.call_user_compiler`` (torch/_dynamo/output_graph.py; called once for each graph, whatever the backend),
``convert_frame.register_bytecode_hook`` and ``CheckFunctionManager.__init__`` (torch/_dynamo/guards.py).
"""

from __future__ import annotations

import contextlib
import dis
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._dynamo import convert_frame
from torch._dynamo.exc import RestartAnalysis
from torch._dynamo.output_graph import OutputGraph

from fx_explorer.capture.patching import patched
from fx_explorer.capture.recording import BackendError, Recording, Segment
from fx_explorer.model import ArtifactKind, LineSource


def graph_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call_user_compiler(self: Any, module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
            name = recording.compilation_name()
            with recording.noting("a Dynamo graph", "dynamo"):
                if name in recording.segments:
                    recording.set_aside(name, recording.restart_reason(name))
                recording.backends[name] = backend_name(self.compiler_fn) or recording.request.backend
                recording.segments[name] = Segment(dynamo=recording.add_graph(module, "dynamo"))
                reason = getattr(module, "compile_subgraph_reason", None)
                if reason is not None and reason.graph_break:
                    recording.broke[name] = True
            try:
                if recording.steering and len(args) == 1:
                    here = functools.partial(_with_inputs, original, self, *args)
                    return recording.steering.compile_segment(self, module, *args, here)
                return original(self, module, *args, **kwargs)
            except RestartAnalysis as error:
                if name in recording.segments:  # at once: what Dynamo finds from here on belongs to the next attempt
                    recording.set_aside(name, error.restart_reason or type(error).__name__)
                raise
            except Exception as error:
                recording.errors[name] = BackendError(error, recording.stage)
                raise

        return call_user_compiler

    return patched(OutputGraph, "call_user_compiler", make)


def _with_inputs(call: Callable[..., Any], output_graph: Any, inputs: Any, module: torch.fx.GraphModule) -> Any:
    return call(output_graph, module, inputs)


def backend_name(compiler: Any) -> str:
    """``inductor`` for torch's own wrapper, else the function's name."""
    name = getattr(compiler, "compiler_name", None) or getattr(compiler, "__name__", None)
    inner = getattr(compiler, "_torchdynamo_orig_backend", None)
    if inner is not None and inner is not compiler:
        return backend_name(inner)
    return "inductor" if name == "compile_fx" else str(name or "")


@contextlib.contextmanager
def bytecode_hook(recording: Recording) -> Iterator[None]:
    def hook(original: types.CodeType, modified: types.CodeType) -> None:
        with recording.noting("bytecode", "dynamo"):
            name = recording.compilation_name()
            recording.change_compilation(name, function=getattr(original, "co_qualname", original.co_name))
            _add_bytecode(recording, "bytecode_original", original)
            _add_bytecode(recording, "bytecode_modified", modified)

    handle = convert_frame.register_bytecode_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _add_bytecode(recording: Recording, kind: ArtifactKind, code: types.CodeType) -> None:
    rows = list(disassemble(code))
    title = f"{kind.removeprefix('bytecode_')} bytecode of {code.co_name}"
    artifact = recording.add_artifact(kind, "dynamo", "\n".join(text for text, _ in rows), title=title, language="bytecode")
    file = recording.sources.file(code.co_filename)
    links = (LineSource(artifact, i, file, source_line) for i, (_, source_line) in enumerate(rows, 1) if source_line)
    recording.writer.add_all(links)


def disassemble(code: types.CodeType) -> Iterator[tuple[str, int]]:
    """(text, source line) of each instruction; 0 for those without a line."""
    line = 0
    for instruction in dis.get_instructions(code):
        starts = instruction.starts_line
        if starts is not None and not isinstance(starts, bool):
            line = starts
        positions = getattr(instruction, "positions", None)
        if positions is not None and positions.lineno:
            line = positions.lineno
        jump = ">>" if instruction.is_jump_target else "  "
        argument = (
            ""
            if instruction.arg is None
            else f"{instruction.arg:>4} {f'({instruction.argrepr})' if instruction.argrepr else ''}"
        )
        yield f"{jump} {instruction.offset:>5} {instruction.opname:<28}{argument}".rstrip(), line
