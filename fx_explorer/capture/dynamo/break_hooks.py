"""torch's records of graph breaks leave out where in the line a break is, through which calls it
was reached and which tensors cross it: these hooks note that.

Hooks: ``InstructionTranslatorBase.log_graph_break`` (torch/_dynamo/symbolic_convert.py, writes the
record) and Dynamo's call of the backend (backend_calls.py), where the names of locals and the nodes
that compute them are known together.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch

from fx_explorer.capture.dynamo.backend_calls import seen_backend_calls
from fx_explorer.capture.dynamo.fallbacks import BreakContext, Extent, breaking
from fx_explorer.capture.recording.dynamo_code import LocalName, ResumeCode, plain_name
from fx_explorer.capture.recording.fx_graphs import module_path
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import (
    BaseListVariable,
    ConstDictVariable,
    InstructionTranslatorBase,
    LazyVariableTracker,
    TensorVariable,
)
from fx_explorer.capture.torch_compat.versions import name_of
from fx_explorer.model import Frame, LocalTensor


def extent_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Record where a graph break is, and through which calls it was reached, while Dynamo writes
    its record.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def log_graph_break(self: Any, *args: Any, **kwargs: Any) -> Any:
            context = BreakContext()
            with recording.noting("where a graph break is", "dynamo"):
                # Not every caller hands over the error; else it is the one that is being handled.
                # No variable here holds it: it would be in a circle with its own traceback.
                context = _context(
                    recording, self, _first_error((*args, *kwargs.values(), sys.exc_info()[1]))
                )
            token = breaking.set(context)
            try:
                return original(self, *args, **kwargs)
            finally:
                breaking.reset(token)

        return log_graph_break

    return patched(InstructionTranslatorBase, "log_graph_break", make)


def _first_error(values: Iterable[object]) -> BaseException | None:
    for value in values:
        if isinstance(value, BaseException):
            return value
    return None


def _context(recording: Recording, translator: Any, error: BaseException | None) -> BreakContext:
    extents = {}
    innermost = inlined = _innermost(translator, error)
    while inlined is not None:
        file, positions = inlined.f_code.co_filename, inlined.current_instruction.positions
        if positions is not None:
            extents[file, positions.lineno] = _extent(file, positions)
        inlined = getattr(inlined, "parent", None)
    stack = getattr(error, "real_stack", None) or ()
    chain = tuple(
        Frame(frame.filename, frame.lineno, plain_name(frame.name), (frame.line or "").strip())
        for frame in stack
    )
    made = recording.resume_code(translator.output.root_tx.f_code)
    return BreakContext(chain, extents, _module(innermost, made))


def _module(translator: Any, made: ResumeCode) -> str:
    """Return the path of the innermost module whose call is being traced; empty for none. Dynamo
    keeps it for the nodes it creates (``nn_module_stack``).
    """
    called = list(getattr(translator, "nn_module_stack", {}).values())
    if not called:
        return ""
    return module_path(made.original(str(called[-1][0])))


def _innermost(translator: Any, error: BaseException | None) -> Any:
    """Return the translator that raised: that of the function that was inlined last."""
    traceback: types.TracebackType | None = error.__traceback__ if error else None
    while traceback is not None:
        inner = traceback.tb_frame.f_locals.get("self")
        if isinstance(inner, InstructionTranslatorBase):
            translator = inner
        traceback = traceback.tb_next
    return translator


def _extent(file: str, positions: Any) -> Extent:
    """Make an extent of ``dis.Positions``, whose columns are UTF-8 bytes from 0 and whose end is
    behind the last byte. It is unknown without the source.
    """
    if None in (
        positions.lineno,
        positions.end_lineno,
        positions.col_offset,
        positions.end_col_offset,
    ):
        return Extent()
    if not linecache.getline(file, positions.lineno):
        return Extent()
    column = _characters(file, positions.lineno, positions.col_offset) + 1
    return Extent(
        column,
        positions.end_lineno,
        _characters(file, positions.end_lineno, positions.end_col_offset),
    )


def _characters(file: str, line: int, offset: int) -> int:
    return len(linecache.getline(file, line).encode()[:offset].decode(errors="replace"))


def skipped_rest_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Record the line from which a function runs in eager mode because torch cannot resume after
    its break. Dynamo compiles the part before it, and jumps back into the function's own bytecode.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def step_graph_break(self: Any, continue_inst: Any) -> None:
            with recording.noting("where eager mode begins", "dynamo"):
                hit = recording.of(recording.compilation_name()).skipping
                if hit is not None:
                    line = getattr(continue_inst.positions, "lineno", None) or self.lineno
                    recording.writer.update(replace(hit, rest_line=line))
            original(self, continue_inst)

        return step_graph_break

    return patched(InstructionTranslatorBase, "step_graph_break", make)


Locals = list[tuple[LocalName, str]]
"""Locals that have a tensor, each with the name of its node."""


def local_tensor_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Record which local tensors a graph takes, and which ones it hands over at a break."""

    # Dynamo's names are at hand before the call, and the graph that the rows point to is recorded
    # in it.
    def look(output_graph: Any, module: torch.fx.GraphModule) -> tuple[Locals, Locals]:
        taken: Locals = []
        handed_over: Locals = []
        with recording.noting("tensors at a graph break", "dynamo"):
            name = recording.compilation_name()
            recording.of(name).resume_code = recording.resume_code(output_graph.root_tx.f_code)
            taken = list(_taken(recording, output_graph, module))
            handed_over = list(_handed_over(output_graph, module))
        return taken, handed_over

    def add(compiled: Any, seen: tuple[Locals, Locals]) -> Any:
        taken, handed_over = seen
        with recording.noting("tensors at a graph break", "dynamo"):
            _add(recording, taken, is_input=True)
            _add(recording, handed_over, is_input=False)
        return compiled

    return seen_backend_calls(before=look, after=add)


def _add(recording: Recording, tensors: Iterable[tuple[LocalName, str]], *, is_input: bool) -> None:
    graph = recording.segment().dynamo
    if graph is None:
        return
    owner = recording.compilation_id()
    rows = []
    for local, node in tensors:
        if node in graph.by_name:
            number = graph.by_name[node]
            rows.append(LocalTensor(0, owner, local.source, number, is_input, local.depth))
    recording.writer.add_all(rows)


def _taken(
    recording: Recording, output_graph: Any, module: torch.fx.GraphModule
) -> Iterator[tuple[LocalName, str]]:
    """Yield (local, node) for each value that a graph takes from the locals of its function."""
    made = recording.resume_code(output_graph.root_tx.f_code)
    for node in module.graph.nodes:
        source = getattr(node.meta.get("grapharg"), "source", None)
        if node.op == "get_attr":
            # So it is with install_free_tensors, and for what torch installs in its graph.
            source = (output_graph.param_name_to_source or {}).get(str(node.target))
        if node.op in ("placeholder", "get_attr") and source is not None:
            name = name_of(source)
            if name.startswith("L["):
                yield made.local_name(name), node.name


def _handed_over(
    output_graph: Any, module: torch.fx.GraphModule
) -> Iterator[tuple[LocalName, str]]:
    """Yield (local, node) for each tensor that the graph before a break returns. The locals are
    those of the function at that moment, and of the functions that were inlined into it down to the
    break.
    """
    reason = getattr(module, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return
    returned = {
        node.name for node in module.graph.output_node().all_input_nodes if node.op != "placeholder"
    }
    named = set()
    locals_of_frames = []
    for depth, frame in enumerate(_frames(output_graph)):
        for source, node in _locals_of(frame):
            if node in returned:
                named.add(node)
                locals_of_frames.append((LocalName(depth, source), node))
    yield from locals_of_frames
    for node in sorted(returned - named):
        yield LocalName(0, ""), node


def _locals_of(translator: Any) -> Iterator[tuple[str, str]]:
    """Yield (source, node) for each tensor among the locals of a frame, and among the values on its
    stack that are left for the resume function.
    """
    for name, value in translator.symbolic_locals.items():
        yield from _tensors(f"L['{name}']", value, ())
    kept = (value for value in _kept(translator) if type(value).__name__ != "NullVariable")
    for i, value in enumerate(kept):
        yield from _tensors(f"L['___stack{i}']", value, ())


def _frames(output_graph: Any) -> list[Any]:
    """Return the translators of the compiled function and of the functions inlined into it down to
    the break. Without nested graph breaks Dynamo ends the compiled function alone.
    """
    translator = _compile_subgraph_locals().get("tx", output_graph.root_tx)
    frames = []
    while translator is not None:
        frames.append(translator)
        translator = getattr(translator, "parent", None)
    return frames[::-1]


def _kept(translator: Any) -> list[Any]:
    """Return the values on a frame's stack that are handed to its resume function. In the frame
    that broke these are all but the operands of the breaking instruction.
    """
    subgraph = _compile_subgraph_locals()
    if not subgraph:
        return []
    if translator is subgraph.get("tx"):
        operands = subgraph.get("stack_pops", 0)
    else:
        operands = 0
    stack: list[Any] = translator.stack
    return stack[: len(stack) - operands]


def _compile_subgraph_locals() -> dict[str, Any]:
    """Return the locals of ``OutputGraph.compile_subgraph``, which is on the stack below this hook.
    It has the innermost frame (``tx``), and the number of operands of the instruction that broke.
    """
    frame: types.FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != "compile_subgraph":
        frame = frame.f_back
    return frame.f_locals if frame else {}


def _tensors(source: str, value: Any, inside: tuple[Any, ...]) -> Iterator[tuple[str, str]]:
    """Yield the tensors in a local: the local itself, or the items of lists, tuples and dicts,
    however deep.
    """
    if isinstance(value, LazyVariableTracker):
        # To realize it would have Dynamo guard on it.
        if not value.is_realized():
            return
        value = value.realize()
    if isinstance(value, TensorVariable):
        yield source, value.proxy.node.name
    # A list may hold itself.
    elif any(value is outer for outer in inside):
        return
    elif isinstance(value, BaseListVariable):
        for i, item in enumerate(value.items):
            yield from _tensors(f"{source}[{i}]", item, (*inside, value))
    elif isinstance(value, ConstDictVariable):
        for key, item in value.items.items():
            if key.vt.is_python_constant():
                yield from _tensors(
                    f"{source}[{key.vt.as_python_constant()!r}]", item, (*inside, value)
                )
