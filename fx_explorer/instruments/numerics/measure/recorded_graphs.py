"""This module records the graphs of one call of the compiled program: as AOTAutograd gave them to
Inductor, after each group of passes, and with the inputs and outputs of their compiled code.

Hooks (torch/_inductor/compile_fx.py): ``compile_fx`` takes the function that compiles one graph as
``inner_compile``; ``_recursive_pre_grad_passes``, ``_recursive_joint_graph_passes`` and
``_recursive_post_grad_passes`` each change a graph. Kernels are seen at ``define_kernel`` of the
scheduling of each device, with the node of every line (capture/inductor/lines_by_node.py).
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from fx_explorer.capture.inductor import lines_by_node
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import (
    CompileContext,
    TracingContext,
    compile_fx,
    inductor_config,
    tracing,
)
from fx_explorer.instruments.numerics.measure.interpreting import (
    as_list,
    copied_graph,
    copied_inputs,
)

MOST_CALLS = 2
"""How many calls of one graph are kept: the example inputs, and other values."""

SCHEDULINGS = (
    ("torch._inductor.codegen.cpp", "CppScheduling"),
    ("torch._inductor.codegen.triton", "TritonScheduling"),
    ("torch._inductor.codegen.halide", "HalideScheduling"),
)


@dataclass
class RecordedCall:
    """One call of a graph's compiled code."""

    inputs: list[Any]
    outputs: list[Any]
    random_state: torch.Tensor | None = None
    """The state of the CPU's random numbers at its beginning."""

    @contextlib.contextmanager
    def random_numbers(self) -> Iterator[None]:
        """Let operators draw the random numbers of the call inside the block."""
        with torch.random.fork_rng(devices=[]):
            if self.random_state is not None:
                torch.set_rng_state(self.random_state)
            yield


@dataclass
class WrittenKernel:
    """A kernel that Inductor wrote."""

    name: str
    text: str
    lines: tuple[tuple[int, str], ...]
    """(line of the text, name of the node that it computes)."""


@dataclass
class LoweredGraph:
    """One graph that Inductor compiled."""

    name: str
    """``[0/0] forward``."""
    before: fx.GraphModule
    """The graph as AOTAutograd made it, after the joint passes."""
    example_inputs: list[Any]
    options: dict[str, Any]
    """Keyword arguments of ``compile_fx_inner``."""
    context: Any
    """The tracing context that it was compiled in."""
    after: fx.GraphModule | None = None
    """The graph after the post-grad passes; None where it was not seen."""
    calls: list[RecordedCall] = field(default_factory=list)
    kernels: list[WrittenKernel] = field(default_factory=list)
    compiled: Callable[[list[Any]], Any] | None = None
    """The compiled code; None for a graph without a call."""

    @property
    def lowered(self) -> fx.GraphModule:
        """Return the graph that was lowered."""
        return self.after or self.before

    def compiled_with(
        self, graph_module: fx.GraphModule, changes: dict[str, Any] | None = None
    ) -> Callable[[list[Any]], Any]:
        """Compile another graph with the same inputs, without passes: only lowering and code.
        ``changes`` are options of Inductor's.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(tracing(self.context))
            stack.enter_context(
                patched(compile_fx, "_recursive_post_grad_passes", lambda original: _no_passes)
            )
            stack.enter_context(
                inductor_config.patch({"force_disable_caches": True, **(changes or {})})
            )
            options = dict(self.options)
            options.pop("cudagraphs", None)
            compiled = compile_fx.compile_fx_inner(graph_module, self.example_inputs, **options)
        function: Callable[[list[Any]], Any] = compiled
        return function


@dataclass
class PassGroup:
    """A graph before and after a group of passes."""

    kind: str
    """``pre_grad`` or ``joint``."""
    name: str
    before: fx.GraphModule
    after: fx.GraphModule


@dataclass
class DynamoGraph:
    """A graph of Dynamo's, with the inputs of its first calls."""

    name: str
    graph: fx.GraphModule
    calls: list[RecordedCall] = field(default_factory=list)


@dataclass
class RecordedProgram:
    """The graphs of a program, in the order in which they were compiled."""

    dynamo: list[DynamoGraph] = field(default_factory=list)
    graphs: list[LoweredGraph] = field(default_factory=list)
    passes: list[PassGroup] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)
    """What could not be run by itself while the operator was looked for, a sentence each."""
    depth: int = 0
    """How many calls of a group of passes are within each other at the moment."""


def recording_backend(
    record: RecordedProgram, config_patches: dict[str, Any] | None
) -> Callable[..., Any]:
    """Return a backend that compiles as ``inductor`` does, and records."""

    def backend(graph_module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        dynamo = DynamoGraph(_compile_name(), copied_graph(graph_module))
        record.dynamo.append(dynamo)
        compiled = compile_fx.compile_fx(
            graph_module,
            example_inputs,
            inner_compile=_recording_compile(record),
            config_patches=config_patches,
        )

        def call(*inputs: Any) -> Any:
            if len(dynamo.calls) >= MOST_CALLS:
                return compiled(*inputs)
            before = copied_inputs(inputs)
            outputs = compiled(*inputs)
            dynamo.calls.append(RecordedCall(before, copied_inputs(as_list(outputs))))
            return outputs

        return call

    return backend


@contextlib.contextmanager
def recording(record: RecordedProgram) -> Iterator[None]:
    """Record passes and kernels inside the block."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(lines_by_node.line_recording())
        hooks = {
            "_recursive_post_grad_passes": _post_grad_passes(record),
            "_recursive_joint_graph_passes": _other_passes(record, "joint"),
            "_recursive_pre_grad_passes": _other_passes(record, "pre_grad"),
        }
        for name, make in hooks.items():
            if hasattr(compile_fx, name):
                stack.enter_context(patched(compile_fx, name, make))
        for module, name in SCHEDULINGS:
            scheduling = getattr(importlib.import_module(module), name, None)
            if scheduling is not None and "define_kernel" in vars(scheduling):
                stack.enter_context(patched(scheduling, "define_kernel", _define_kernel(record)))
        yield


def _no_passes(*_: Any, **__: Any) -> None:
    """Leave the graph as it is: it has been through the passes already."""


def _compile_name() -> str:
    compile_id = CompileContext.current_compile_id()
    return f"[{compile_id}]" if compile_id is not None else "[?]"


def _recording_compile(record: RecordedProgram) -> Callable[..., Any]:

    def inner_compile(
        graph_module: fx.GraphModule, example_inputs: Sequence[Any], **options: Any
    ) -> Any:
        direction = "forward"
        if options.get("is_backward"):
            direction = "backward"
        elif options.get("is_inference"):
            direction = "inference"
        graph = LoweredGraph(
            f"{_compile_name()} {direction}",
            copied_graph(graph_module),
            list(example_inputs),
            dict(options),
            TracingContext.try_get(),
        )
        record.graphs.append(graph)
        compiled = compile_fx.compile_fx_inner(graph_module, example_inputs, **options)
        if not hasattr(compiled, "current_callable"):
            return compiled  # a graph without a call, which returns what it was given
        graph.compiled = original = compiled.current_callable

        def call(inputs: list[Any]) -> Any:
            if len(graph.calls) >= MOST_CALLS:
                return original(inputs)
            before, state = copied_inputs(inputs), torch.get_rng_state()
            outputs = original(inputs)
            graph.calls.append(RecordedCall(before, copied_inputs(as_list(outputs)), state))
            return outputs

        compiled.current_callable = call
        return compiled

    return inner_compile


Passes = Callable[..., Any]


def _outermost(record: RecordedProgram, note: Callable[..., None]) -> Callable[[Any], Passes]:
    """Return what makes a replacement of a group of passes: ``note`` is called with the graph
    before it and its result, for whole graphs and not for those within them.
    """

    def make(original: Any) -> Passes:
        def passes(graph_module: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
            if record.depth:
                return original(graph_module, *args, **kwargs)
            before = copied_graph(graph_module)
            record.depth += 1
            try:
                result = original(graph_module, *args, **kwargs)
            finally:
                record.depth -= 1
            after = result if isinstance(result, fx.GraphModule) else graph_module
            note(before, copied_graph(after))
            return result

        return passes

    return make


def _post_grad_passes(record: RecordedProgram) -> Callable[[Any], Passes]:
    def note(before: fx.GraphModule, after: fx.GraphModule) -> None:
        if record.graphs and record.graphs[-1].after is None:
            record.graphs[-1].before = before
            record.graphs[-1].after = after

    return _outermost(record, note)


def _other_passes(record: RecordedProgram, kind: str) -> Callable[[Any], Passes]:
    def note(before: fx.GraphModule, after: fx.GraphModule) -> None:
        record.passes.append(PassGroup(kind, _compile_name(), before, after))

    return _outermost(record, note)


def _define_kernel(record: RecordedProgram) -> Callable[[Any], Callable[..., Any]]:
    def make(original: Any) -> Callable[..., Any]:
        def define_kernel(
            scheduling: Any, src_code: str, node_schedule: Any, *args: Any, **kwargs: Any
        ) -> Any:
            name = original(scheduling, src_code, node_schedule, *args, **kwargs)
            if record.graphs:
                lines = tuple(lines_by_node.lines_of(src_code))
                record.graphs[-1].kernels.append(WrittenKernel(str(name), src_code, lines))
            return name

        return define_kernel

    return make
