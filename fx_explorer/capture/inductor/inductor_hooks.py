"""This module hooks into Inductor's stages, from the passes over its graphs to its IR, its output
code and kernels.

Recorded are the graphs after the pre- and post-grad passes, the joint graph where the passes over
it changed something, and the IR before and after fusion. Hooks: ``_recursive_pre_grad_passes`` and
``_recursive_post_grad_passes`` (torch/_inductor/compile_fx.py), ``Scheduler.fuse_nodes``
(torch/_inductor/scheduler.py), and generated.py for generated code.

Hook for the joint graph: ``_recursive_joint_graph_passes`` (torch/_inductor/compile_fx.py), which
Inductor's partition function calls right before it cuts the graph. For an inference graph it is
called while the graph is lowered, and what it does there is in the post-grad graph.

The IR is written as text: what each scheduler node loops over, loads, computes and stores, and the
FX nodes it came from. Scheduler nodes are torch/_inductor/scheduler.py, loop bodies
torch/_inductor/loop_body.py. torch's own ``debug_str`` takes seconds on a large model (it makes a
GraphModule per loop body and prints every index expression again), this milliseconds.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch

from fx_explorer.capture.aot.regional import as_traced
from fx_explorer.capture.aot.saved_tensors import settle_saved_tensors
from fx_explorer.capture.inductor.generated import LoweredKernels, kernel_recording
from fx_explorer.capture.inductor.kernel_rows import add_lowered
from fx_explorer.capture.inductor.lines_by_node import node_of_buffer, node_of_operation
from fx_explorer.capture.inductor.pass_changes import (
    StagePasses,
    add_passes,
    keep_for_later,
    stage_passes,
)
from fx_explorer.capture.node_links import copied_links
from fx_explorer.capture.recording.compilation_state import Segment
from fx_explorer.capture.recording.graphs import short_dtype
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import V, compile_fx, inductor_scheduler
from fx_explorer.model import AFTER_PASSES, ArtifactKind, Gate, LineNode


@contextlib.contextmanager
def pass_hooks(recording: Recording) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            _pass_hook(recording, "pre_grad", functools.partial(_after_pre_grad, recording))
        )
        stack.enter_context(
            _pass_hook(recording, "post_grad", functools.partial(_after_post_grad, recording))
        )
        yield


@contextlib.contextmanager
def kernel_hooks(recording: Recording) -> Iterator[None]:
    # A GPU that is not there cannot be asked.
    asks = recording.request.workspaces and not recording.request.gpu
    with kernel_recording(
        functools.partial(_on_kernels, recording), notes_library_calls=asks
    ) as kernels:
        for view, reason in kernels.unavailable.items():
            recording.unavailable(view, reason)
        yield


def _pass_hook(
    recording: Recording, gate: Gate, after: Callable[[torch.fx.GraphModule, StagePasses], None]
) -> contextlib.AbstractContextManager[None]:
    """Call ``after`` with the graph and the passes that ran once the outermost call is done; the
    function calls itself for nested graphs.
    """
    depth = 0

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run_passes(module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
            def run() -> torch.fx.GraphModule:
                nonlocal depth
                with contextlib.ExitStack() as stack:
                    passes = None
                    if depth == 0:
                        passes = stack.enter_context(stage_passes(recording, gate, module))
                    depth += 1
                    try:
                        result = original(module, *args, **kwargs)
                    finally:
                        depth -= 1
                made = result if isinstance(result, torch.fx.GraphModule) else module
                if passes is not None:
                    after(made, passes)
                return made

            is_region = recording.here.is_nested
            if gate == "pre_grad" and recording.here.direction:
                is_region = True
            if depth or is_region:
                made = run()
            else:
                made = recording.boundary.passes(gate, recording.here.direction, module, run)
            # Post-grad passes change the graph they are given.
            return made if gate == "pre_grad" else None

        return run_passes

    return patched(compile_fx, f"_recursive_{gate}_passes", make)


def _after_pre_grad(
    recording: Recording, module: torch.fx.GraphModule, passes: StagePasses
) -> None:
    with recording.noting("the pre-grad graph", "pre_grad"):
        segment = recording.segment()
        if segment.subgraph:
            return
        segment.pre_grad = recording.add_graph(module, "pre_grad")
        recording.writer.add_all(copied_links(segment.pre_grad, segment.dynamo))
        add_passes(recording, passes, segment.pre_grad)


def _after_post_grad(
    recording: Recording, module: torch.fx.GraphModule, passes: StagePasses
) -> None:
    with recording.noting("the post-grad graph", "post_grad"):
        segment, direction = recording.segment(), recording.here.direction
        earlier = segment.aot.get(direction)
        parent = earlier.graph.id if earlier and segment.subgraph else 0
        recorded = recording.add_graph(
            module, "post_grad", direction, name=segment.subgraph, parent=parent
        )
        segment.post_grad[direction] = recorded
        recording.writer.add_all(as_traced(segment, copied_links(recorded, earlier)))
        add_passes(recording, passes, recorded)


def fusion_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Record Inductor's IR before and after fusion, and wait at the gates there."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def fuse_nodes(self: Any, nodes: list[Any]) -> list[Any]:
            with recording.noting("IR before fusion", "schedule"):
                _add_ir(recording, "ir_pre_fusion", "IR before fusion", nodes)
            recording.boundary.gate("pre_fusion", recording.here.direction)
            fused: list[Any] = original(self, nodes)
            with recording.noting("IR after fusion", "schedule"):
                _add_ir(recording, "ir_post_fusion", "IR after fusion", fused)
            recording.boundary.gate("post_fusion", recording.here.direction)
            return fused

        return fuse_nodes

    return patched(inductor_scheduler.Scheduler, "fuse_nodes", make)


def _add_ir(recording: Recording, kind: ArtifactKind, title: str, nodes: list[Any]) -> None:
    text, line_nodes = describe(nodes)
    direction, segment = recording.here.direction, recording.segment()
    whole = segment.post_grad.get(direction)
    graph = whole and (whole.find(V.graph.module) or whole)
    if graph:
        part = graph.graph.label or graph.graph.name
    else:
        part = segment.subgraph
    artifact = recording.add_artifact(
        kind, "schedule", text, title=f"{title} {part}".strip(), language="ir", direction=direction
    )
    if graph is not None:
        ids = graph.by_name
        lines = (
            (artifact, line, ids[name], "origins", 0) for line, name in line_nodes if name in ids
        )
        recording.writer.add_values(LineNode, lines)


def _on_kernels(recording: Recording, lowered: LoweredKernels) -> None:
    with recording.noting("generated code", "output_code"):
        add_lowered(recording, lowered)
    segment = recording.segment()
    is_forward = not (
        lowered.is_backward or lowered.is_inference or lowered.subgraph or segment.subgraph
    )
    if is_forward and lowered.outputs and segment.saved:
        with recording.noting("what the lowered forward saves", "output_code"):
            settle_saved_tensors(recording, segment, lowered.outputs)
    if not lowered.subgraph and not lowered.error:
        recording.boundary.gate("output_code", recording.here.direction)


# The joint graph after the passes over it.


Signature = dict[torch.fx.Node, tuple[object, ...]]


def joint_pass_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Record the joint graph once more when the passes over it are done."""
    running: set[int] = set()
    """Threads in which the passes run: they may start again over a part of the graph."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run_passes(module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
            thread = threading.get_ident()
            if thread in running:
                return original(module, *args, **kwargs)
            segment, before = None, {}
            with recording.noting("the joint graph before Inductor's passes", "joint"):
                segment = _cut_segment(recording)
                before = _signature(module) if segment else {}
            running.add(thread)
            try:
                with stage_passes(recording, "joint", module) as passes:
                    made = original(module, *args, **kwargs)
            finally:
                running.discard(thread)
            if segment and isinstance(made, torch.fx.GraphModule):
                with recording.noting("the joint graph after Inductor's passes", "joint"):
                    _add_if_changed(recording, segment, made, before, passes)
            elif isinstance(made, torch.fx.GraphModule):
                # Of an inference graph the one after the post-grad passes is recorded.
                keep_for_later(made, passes)
            return made

        return run_passes

    return patched(compile_fx, "_recursive_joint_graph_passes", make)


def _cut_segment(recording: Recording) -> Segment | None:
    """Return the segment whose joint graph is about to be partitioned; None where the passes run
    over a part of a graph, or over a graph that has been lowered.
    """
    here = recording.here
    if here.direction or here.is_in_regions or here.is_nested:
        return None
    segment = recording.segment()
    if segment.joint is None or segment.subgraph or segment.aot:
        return None
    return segment


def _signature(module: torch.fx.GraphModule) -> Signature:
    return {node: (node.target, node.args, node.kwargs) for node in module.graph.nodes}


def _add_if_changed(
    recording: Recording,
    segment: Segment,
    module: torch.fx.GraphModule,
    before: Signature,
    passes: StagePasses,
) -> None:
    if _signature(module) == before:
        return
    segment.joint_after_passes = recording.add_graph(module, "joint", name=AFTER_PASSES)
    recording.writer.add_all(copied_links(segment.joint_after_passes, segment.joint))
    add_passes(recording, passes, segment.joint_after_passes)


# Inductor's IR as text.


LineNodes = list[tuple[int, str]]
"""(line from 1, name of a post-grad node)."""

_Line = tuple[str, tuple[str, ...]]
"""(text of a line, nodes that it computes)."""


def describe(scheduler_nodes: Iterable[Any]) -> tuple[str, LineNodes]:
    """Return the listing of ``scheduler_nodes``, before or after fusion, with the post-grad nodes
    of its lines.

    The line that names an operation has all its origins; a line of a loop body has the node it was
    traced for, which is known inside ``lines.line_recording()`` only.
    """
    printer = _Printer()
    lines: list[_Line] = []
    for scheduler_node in scheduler_nodes:
        lines += printer.operation(scheduler_node)
        lines.append(("", ()))
    text = "\n".join(line for line, _ in lines)
    line_nodes: list[tuple[int, str]] = []
    for number, (_, nodes) in enumerate(lines, 1):
        line_nodes += [(number, node) for node in nodes]
    return text.rstrip("\n"), line_nodes


class _Printer:
    """Prints each index expression once, because repeated layers have the same ones."""

    def __init__(self) -> None:
        self._printed: dict[Any, str] = {}

    def expression(self, value: Any) -> str:
        text = self._printed.get(value)
        if text is None:
            text = self._printed[value] = str(value)
        return text

    def sizes(self, values: Iterable[Any]) -> str:
        return "[" + ", ".join(map(self.expression, values)) + "]"

    def operation(self, scheduler_node: Any) -> Iterator[_Line]:
        members = getattr(scheduler_node, "snodes", None)
        if members:
            kind = _split_camel_case(type(scheduler_node).__name__.removesuffix("SchedulerNode"))
            yield (
                f"{scheduler_node.get_name()}: {kind}, {len(members)} operations in one kernel",
                _origins(scheduler_node),
            )
            for member in members:
                for text, nodes in self.operation(member):
                    yield f"    {text}", nodes
        else:
            yield from self._single(scheduler_node)

    def _single(self, scheduler_node: Any) -> Iterator[_Line]:
        origins = _origins(scheduler_node)
        comment = f"  # {', '.join(origins)}" if origins else ""
        outputs = ", ".join(self._buffer(output.node) for output in scheduler_node.get_outputs())
        yield (
            (
                f"{scheduler_node.get_name()}: {_kind(scheduler_node.node)} → "
                f"{outputs or 'nothing'}{comment}"
            ),
            origins,
        )
        body = getattr(scheduler_node, "_body", None)
        if hasattr(body, "root_block"):
            yield from self._loop(body, node_of_buffer(scheduler_node.node))
        else:
            yield from self._dependencies(scheduler_node)

    def _buffer(self, buffer: Any) -> str:
        layout = getattr(buffer, "layout", None)
        dtype, size = getattr(layout, "dtype", None), getattr(layout, "size", None)
        if layout is None or dtype is None or size is None:
            return str(buffer.get_name())
        return (
            f"{buffer.get_name()} {short_dtype(dtype)}{self.sizes(size)} stride "
            f"{self.sizes(layout.stride)} {layout.device}"
        )

    def _dependencies(self, scheduler_node: Any) -> Iterator[_Line]:
        """Yield the reads and writes of an operation without a loop body (a library call, a
        concatenation).
        """
        accesses = scheduler_node.read_writes
        for verb, dependencies in (("reads", accesses.reads), ("writes", accesses.writes)):
            names = list(dict.fromkeys(dependency.name for dependency in dependencies))
            if names:
                yield f"    {verb} {', '.join(names)}", ()

    def _loop(self, body: Any, stored: str | None) -> Iterator[_Line]:
        """Yield the lines of a loop; ``stored`` is the post-grad node whose value the loop
        stores.
        """
        known = _bodies.get(body)
        if known is None:
            known = _bodies[body] = list(self._loop_lines(body, stored))
        yield from known

    def _loop_lines(self, body: Any, stored: str | None) -> Iterator[_Line]:
        reduced = set(body.reduce_vars)
        ranges = []
        for variable, size in body.var_ranges.items():
            text = f"{variable} < {self.expression(size)}"
            if variable in reduced:
                text = f"reduce {text}"
            ranges.append(text)
        yield f"    for {', '.join(ranges) or 'one element'}:", ()
        yield from _LoopBodyText(self, body, stored).lines(body.root_block, "        ")


_bodies: WeakKeyDictionary[Any, list[_Line]] = WeakKeyDictionary()
"""Loop body → its lines. They are cached, because most loop bodies are the same after fusion as
before it.
"""


class _LoopBodyText:
    """Prints the small FX graph of a loop body; a masked part stands indented under its mask."""

    def __init__(self, printer: _Printer, body: Any, stored: str | None) -> None:
        self._printer = printer
        self._body = body
        self._stored = stored
        self._names: dict[Any, str] = {}
        """Node of a loop body → the name of its value in later lines."""
        self._count = 0

    def lines(self, block: Any, indent: str) -> Iterator[_Line]:
        for node in block.graph.nodes:
            if node.op == "call_module":
                yield from self._call_module(node, indent)
            elif node.op == "call_method" and node.target == "constant":
                self._names[node] = str(node.args[1])
            elif node.op == "call_method":
                text = self._operation(str(node.target), node)
                if str(node.target).startswith("store"):
                    result = ""
                else:
                    result = f"{self._name(node)} = "
                yield f"{indent}{result}{text}", self._nodes(node)
            elif node.op == "output" and block is not self._body.root_block:
                yield f"{indent}{self._argument(node.args[0])}", ()

    def _name(self, node: Any) -> str:
        """Return the name in the generated code, ``tmp0``. The names of the loop body's own nodes
        would look like FX nodes.
        """
        self._names[node] = name = f"tmp{self._count}"
        self._count += 1
        return name

    def _call_module(self, node: Any, indent: str) -> Iterator[_Line]:
        target, arguments = str(node.target), node.args
        if target == "get_index":
            self._names[node] = self._printer.expression(self._body.indexing_exprs[arguments[0]])
        elif target in self._body.subblocks:
            mask, other = (self._argument(argument) for argument in arguments[:2])
            yield f"{indent}{self._name(node)} = {other} unless {mask}:", self._nodes(node)
            yield from self.lines(self._body.subblocks[target], indent + "    ")
        else:  # set_indirect3: the value becomes an index
            self._names[node] = target.removeprefix("set_")
            yield f"{indent}{self._names[node]} = {self._argument(arguments[0])}", self._nodes(node)

    def _operation(self, operation: str, node: Any) -> str:
        arguments = [self._argument(argument) for argument in node.args[1:]]
        if operation == "load":
            return f"{arguments[0]}[{arguments[1]}]"
        if operation in ("store", "store_reduction"):
            if len(arguments) > 3 and arguments[3] != "None":
                mode = f"  ({arguments[3]})"
            else:
                mode = ""
            return f"{arguments[0]}[{arguments[1]}] = {arguments[2]}{mode}"
        if operation == "reduction":
            return f"reduce {arguments[2]}({', '.join(arguments[3:])}) as {arguments[0]}"
        arguments += [f"{name}={self._argument(value)}" for name, value in node.kwargs.items()]
        return f"{operation}({', '.join(arguments)})"

    def _nodes(self, operation: Any) -> tuple[str, ...]:
        """Return the post-grad nodes of an operation. Storing and reducing are not part of the
        element function of the node whose value is stored, so they get that node here.
        """
        name = node_of_operation(operation) or self._stored
        return (name,) if name else ()

    def _argument(self, value: Any) -> str:
        if isinstance(value, (tuple, list)):
            return "(" + ", ".join(map(self._argument, value)) + ")"
        if isinstance(value, torch.fx.Node) and value in self._names:
            return self._names[value]
        return str(value).removeprefix("torch.")


def _kind(ir_node: Any) -> str:
    """Return ``reduction``, ``pointwise``, or the library function that an extern node calls."""
    kernel = getattr(ir_node, "python_kernel_name", None)
    if kernel:
        return str(kernel)
    return _split_camel_case(type(getattr(ir_node, "data", ir_node)).__name__)


def _split_camel_case(class_name: str) -> str:
    """Turn a class name into words: ``OuterLoopFused`` → ``outer loop fused``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", class_name).lower()


def _origins(scheduler_node: Any) -> tuple[str, ...]:
    """Return the names of the FX nodes that a scheduler node computes, in graph order as FX sorts
    nodes.
    """
    members: Sequence[Any] = scheduler_node.get_nodes()
    origins: set[Any] = set()
    for member in members:
        if member.node is not None:
            origins |= set(member.node.origins)
    return tuple(node.name for node in sorted(origins))
