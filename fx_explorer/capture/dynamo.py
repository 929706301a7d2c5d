"""Dynamo: the graph of every segment, the bytecode it rewrote, and the guards it installed.

Hooks: ``OutputGraph.call_user_compiler`` (torch/_dynamo/output_graph.py; called once for each graph, whatever the backend),
``convert_frame.register_bytecode_hook`` and ``CheckFunctionManager.__init__`` (torch/_dynamo/guards.py).
"""

from __future__ import annotations

import contextlib
import dis
import functools
import re
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch._dynamo import convert_frame
from torch._dynamo.exc import RestartAnalysis
from torch._dynamo.guards import CheckFunctionManager
from torch._dynamo.output_graph import OutputGraph

from fx_explorer.capture.patching import patched
from fx_explorer.capture.recording import BackendError, Recording, Segment
from fx_explorer.model import ArtifactKind, Guard, LineSource


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


def guard_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def __init__(self: Any, f_code: Any, output_graph: Any, *args: Any, **kwargs: Any) -> None:
            original(self, f_code, output_graph, *args, **kwargs)
            with recording.noting("guards", "dynamo"):
                checks = tree_checks(recording.guard_trees.pop(recording.compilation_name(), ""))
                guards = sorted(output_graph.guards)
                rows = [_guard(recording, i, guard, checks) for i, guard in enumerate(guards)]
                _add_guards(recording, rows)

        return __init__

    return patched(CheckFunctionManager, "__init__", make)


_LEAF = re.compile(r"\+- (?P<kind>[A-Z_]+): (?P<check>.*?)(?:\s+# .*)?$")
_TENSOR_SOURCE = re.compile(r"^check_tensor\((?P<source>.+?), \w+, DispatchKeySet")


def tree_checks(tree: str) -> dict[tuple[str, str], list[str]]:
    """(guard type, source) → what the guard tree checks, for the guards whose own code list leaves it out.

    Shape and state guards have no source; torch calls the former SYMBOLIC_SHAPE_GUARD in the tree and SHAPE_ENV in the list.
    """
    checks: dict[tuple[str, str], list[str]] = {}
    for line in tree.splitlines():
        leaf = _LEAF.search(line)
        if leaf is None:
            continue
        tensor = _TENSOR_SOURCE.match(leaf["check"])
        kind = "SHAPE_ENV" if leaf["kind"] == "SYMBOLIC_SHAPE_GUARD" else leaf["kind"]
        checks.setdefault((kind, tensor["source"] if tensor else ""), []).append(leaf["check"])
    return checks


def _add_guards(recording: Recording, rows: list[Guard]) -> None:
    recording.writer.add_all(row for row in rows if row.kind != "SHAPE_ENV")
    for row in rows:
        if row.kind == "SHAPE_ENV":  # lowering may have more to ask of sizes
            recording.shape_guards[recording.compilation_name()] = replace(row, id=recording.writer.add(row))


def _guard(recording: Recording, position: int, guard: Any, checks: dict[tuple[str, str], list[str]]) -> Guard:
    source = guard.name if isinstance(guard.name, str) else guard.name()
    kind = guard.create_fn_name()
    parts = [*checks.get((kind, source), []), *(guard.code_list or ())]
    code = " and ".join(dict.fromkeys(parts))
    user = _user_frame(recording, list(guard.user_stack or ()))
    if user is None:
        return Guard(0, recording.compilation_id(), position, kind, source, code, code)
    verbose = f"{code}  # {user.line}" if user.line else code
    return Guard(0, recording.compilation_id(), position, kind, source, code, verbose.strip(), user.filename, user.lineno or 0)


def _user_frame(recording: Recording, stack: list[Any]) -> Any:
    """The innermost frame outside torch, else the innermost; None without a stack."""
    outside = [frame for frame in stack if not recording.sources.is_torch(frame.filename)]
    return (outside or stack or [None])[-1]
