"""This module has the boundary between two stages of a capture that is stepped through.

It gives again what an earlier variant made, and keeps what is made again for a later one. So with
what AOTAutograd traced, which need not be traced again for what comes after. Hooks:
``run_functionalized_fw_and_collect_metadata`` (torch/_functorch/aot_autograd.py) and
``aot_dispatch_autograd_graph`` and ``aot_dispatch_base_graph``
(torch/_functorch/_aot_autograd/graph_compile.py).
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import torch
from torch.fx import GraphModule

from fx_explorer.capture.backends.users_backend import users_backend
from fx_explorer.capture.graph_copies import become, snapshot
from fx_explorer.capture.inspecting import runnable_copy
from fx_explorer.capture.recording.boundary import Compile, Key, LoweringRequest, T
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.stepping.gates import AnotherVariant, GateReached
from fx_explorer.capture.stepping.stepper import Stepper
from fx_explorer.capture.stepping.through_the_gates import (
    CompileHere,
    after_published,
    at_gate,
    compile_as_asked,
)
from fx_explorer.capture.stepping.variant import CapturedSegment, CompiledRegion, Variant, signature
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import (
    RestartAnalysis,
    SymT,
    is_traceable_wrapper_subclass,
    symbol_is_type,
    tree_leaves,
)
from fx_explorer.capture.torch_compat.versions import prints_subclasses_it_compiles
from fx_explorer.model import Changes, Command, Direction, Gate, RegionLowering


class SteppedBoundary:
    """The ``Boundary`` (recording/boundary.py) of a capture that is stepped through."""

    def __init__(self, stepper: Stepper) -> None:
        self.stepper = stepper

    @property
    def is_outside(self) -> bool:
        return self.stepper.is_outside

    @property
    def settings(self) -> Mapping[str, object]:
        return self.stepper.settings.changes.settings

    def is_deferred(self, name: str) -> bool:
        return self.stepper.is_deferred(name)

    def set_aside(self, name: str, aside: str) -> None:
        if name in self.stepper.kept:
            self.stepper.rows.set_aside(self.stepper.kept[name], aside)

    def lowered_ahead(self, name: str, lowering: LoweringRequest) -> None:
        if name in self.stepper.kept:
            self.stepper.kept[name].lower_as(lowering)

    def captured(
        self,
        output_graph: Any,
        module: torch.fx.GraphModule,
        inputs: list[Any],
        compile_here: Compile,
    ) -> Any:
        return compile_segment(self.stepper, output_graph, module, inputs, compile_here)

    def pass_through(self, key: Key, make: Callable[[], T], copy: Callable[[T], T]) -> T:
        known: T | None = self.stepper.replay(key)
        if known is not None:
            return copy(known)
        made = make()
        self.stepper.keep(key, copy(made))
        return made

    def passes(
        self,
        gate: Gate,
        direction: Direction,
        module: torch.fx.GraphModule,
        run: Callable[[], torch.fx.GraphModule],
    ) -> torch.fx.GraphModule:
        """Return the graph after its passes, which change ``module`` in place. If another variant
        has already run them, its result is copied into ``module``.
        """
        key = (gate, direction)
        known = self._after_passes(key)
        if known is not None:
            become(module, known)
            made = module
        else:
            made = run()
            self.stepper.keep(key, snapshot(made))
        self.gate(gate, direction, made)
        return made

    def _after_passes(self, key: Key) -> Any:
        """Return the stored graph after its passes; for a variant that begins at a later gate,
        including the edits made there.
        """
        gate, direction = key
        if gate == "post_grad":
            edited = self.stepper.replay(("pre_fusion", direction))
            if edited is not None:
                return edited
        return self.stepper.replay(key)

    def lowered(
        self, direction: Direction, module: torch.fx.GraphModule, lower: Callable[[], Any]
    ) -> Any:
        stepper, key = self.stepper, ("lowered", direction)
        known = stepper.replay(key)
        if known is not None:
            return known
        with stepper.lazily():
            self.gate("partition", direction, module)
            began_s = stepper.spent_s()
            with stepper.lowering(key):
                made = lower()
            stepper.keep(key, made, stepper.spent_s() - began_s)
            return made

    def region(
        self,
        row: RegionLowering,
        module: torch.fx.GraphModule,
        compile_region: Callable[[], Any],
        again: Callable[[], None],
    ) -> Any:
        """Return Inductor's result for a region, or its result for an equal region of an earlier
        variant.
        """
        variant = self.stepper.variant
        if variant is None:
            return compile_region()
        key, made_from = (row.direction, row.subgraph), signature(module)
        known = variant.reusable_region(key, row.name, made_from)
        if known is not None:
            variant.spared_s += known.took_s
            again()
            return known.compiled
        began_s = variant.spent_s()
        with self.stepper.lowering((row.subgraph, row.direction)):
            compiled = compile_region()
        variant.regions[key] = CompiledRegion(
            row.name, made_from, compiled, variant.spent_s() - began_s
        )
        return compiled

    def gate(
        self, gate: Gate, direction: Direction, module: torch.fx.GraphModule | None = None
    ) -> None:
        at_gate(self.stepper, gate, direction, module)

    def published(self, stage: str, direction: Direction) -> None:
        after_published(self.stepper, stage, direction)


@contextlib.contextmanager
def stepping_hook(recording: Recording) -> Iterator[None]:
    """Install, inside the block, the hooks that stepping through a capture needs. Without a
    stepper, nothing is installed.
    """
    from fx_explorer.capture.stepping.after_the_program import deferred_until_reset

    stepper = stepper_of(recording)
    if stepper is None:
        yield
        return
    with tracing_hooks(recording), stepper.settings.in_force(), deferred_until_reset(stepper):
        yield


def stepper_of(recording: Recording) -> Stepper | None:
    """Return the stepper of a capture; None for a capture that is not stepped through."""
    if not isinstance(recording.boundary, SteppedBoundary):
        return None
    return recording.boundary.stepper


# A graph as it comes from Dynamo, which waits for the backend's answer.

_ANEW = "the user had it captured with other dynamic shapes"


def compile_segment(
    stepper: Stepper,
    output_graph: Any,
    module: torch.fx.GraphModule,
    inputs: list[Any],
    here: CompileHere,
) -> Any:
    """Answer Dynamo's call of the backend: compile the graph now, or defer it until the program has
    ended. ``here`` is that call.

    Dynamo can restart the frame as long as it waits, and no longer.
    """
    _set_sources(output_graph, module)
    kept = _keep(stepper, output_graph, module, inputs)
    variant = kept.variants[0]
    # Whoever captured it ahead of time has called for the graph, and cannot continue without it.
    is_ahead = kept.name in stepper.recording.ahead_of_time.captured
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
    """Store the graph so that it can be compiled again, with its first variant."""
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
    """Compile while Dynamo waits for the result. Raises RestartAnalysis when Dynamo must restart
    the frame.
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
    # Any other variant was compiled in place of this one (through_the_gates.py).
    except AnotherVariant as other:
        _capture_anew(stepper, kept, other.command)
    finally:
        stepper.in_dynamo = None


def _probe(stepper: Stepper, variant: Variant, compile_here: Callable[[], object]) -> None:
    """Trace the graph while Dynamo can still restart the frame, in case AOTAutograd asks for that.
    The traced graph is stored.
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
    """Make Dynamo restart the frame, with the settings of ``command``. The earlier records of the
    frame become a row of their own.
    """
    stepper.settings.set(command.changes.settings, command.gate)
    stepper.settings.dynamic_shapes.hold()
    stepper.recording.set_aside(kept.name, _ANEW)
    raise RestartAnalysis(restart_reason=_ANEW)


def _traced_files(output_graph: Any) -> set[str]:
    """Return the files of the functions that Dynamo inlined, including those that left no node."""
    return {code.co_filename for code in getattr(output_graph, "traced_code", ())}


def _set_sources(output_graph: Any, module: torch.fx.GraphModule) -> None:
    """Give AOTAutograd the source of each input, from which it knows which ones are parameters.
    Dynamo sets it only within its own call of the backend (torch/_dynamo/output_graph.py,
    ``_call_user_compiler``).
    """
    for node in module.graph.find_nodes(op="placeholder"):
        if not hasattr(node, "_dynamo_source"):
            node._dynamo_source = node.meta["grapharg"].source
    module._param_name_to_source = output_graph.param_name_to_source
    module._source_to_user_stacks = output_graph.source_to_user_stacks


# Which graphs can wait until the program has ended.


def can_wait(kept: CapturedSegment) -> bool:
    """Return whether the graph can be compiled after the program instead of now.

    This is impossible with a backend or a pass of the program's own, which expects to be called
    now, and with a tensor subclass where torch prints it, because printing may fail after
    AOTAutograd's tracing.

    A pause must change nothing about what is compiled. A graph that waits runs in eager mode
    meanwhile, and its backend is called when it can no longer report anything to Dynamo
    (``must_be_traced``).
    """
    if prints_subclasses_it_compiles() and _has_wrappers(kept):
        return False
    return _is_no_programs(kept.compiler) and not kept.options_and_modes.program_is_called


def _is_no_programs(compiler: Callable[..., Any]) -> bool:
    """Return whether the backend is torch's or ours, and none of its options is a function of the
    program's.
    """
    asked_for = users_backend(compiler)
    backend = getattr(asked_for, "_torchdynamo_orig_backend", asked_for)
    backend = getattr(backend, "compiler_fn", backend)
    options = getattr(backend, "config", None)
    is_plain = not (isinstance(options, dict) and any(map(callable, options.values())))
    return is_plain and _module_of(backend).partition(".")[0] in (
        "torch",
        "functorch",
        "fx_explorer",
    )


def _module_of(backend: object) -> str:
    return str(getattr(backend, "__module__", "") or type(backend).__module__)


def must_be_traced(kept: CapturedSegment) -> bool:
    """Return whether AOTAutograd may have to tell Dynamo something, so that it must trace the graph
    at once.

    It may tell Dynamo two things: that floats must be constants, so that the frame is restarted
    (TensorifyScalarRestartAnalysis, torch/fx/passes/_tensorify_python_scalars.py), and that
    something cannot be traced, which Dynamo turns into a graph break
    (``exceptions_allowed_to_be_fallback``, torch/_dynamo/output_graph.py).
    """
    return _has_float_symbols(kept) or any(map(_is_wrapper, kept.inputs))


def _has_float_symbols(kept: CapturedSegment) -> bool:
    """Return whether the frame has symbols for floats. Symbols that no longer occur in the graph
    count too, since they may have to become constants.
    """
    shapes = kept.shape_env()
    if shapes is None:
        return False
    return any(symbol_is_type(symbol, SymT.FLOAT) for symbol in shapes.var_to_range)


def _has_wrappers(kept: CapturedSegment) -> bool:
    """Return whether an input or an intermediate value is a traceable tensor subclass."""
    if any(map(_is_wrapper, kept.inputs)):
        return True
    values = [node.meta.get("example_value") for node in kept.dynamo.graph.nodes]
    return any(map(_is_wrapper, tree_leaves(values)))


def _is_wrapper(value: object) -> bool:
    """Return whether the value is a tensor subclass, which runs the program's own operators while
    it is traced.
    """
    return isinstance(value, torch.Tensor) and is_traceable_wrapper_subclass(value)


# What AOTAutograd traced, recalled.


@contextlib.contextmanager
def tracing_hooks(recording: Recording) -> Iterator[None]:
    """Store the graphs that AOTAutograd traces inside the block, and return them for later
    variants.
    """
    from fx_explorer.capture.torch_compat.private_names import functorch_aot_autograd, graph_compile

    with contextlib.ExitStack() as stack:
        stack.enter_context(
            patched(
                functorch_aot_autograd,
                "run_functionalized_fw_and_collect_metadata",
                functools.partial(_metadata, recording),
            )
        )
        for name in ("aot_dispatch_autograd_graph", "aot_dispatch_base_graph"):
            stack.enter_context(
                patched(graph_compile, name, functools.partial(_traced_graph, recording))
            )
        yield


def _metadata(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run_functionalized_fw_and_collect_metadata(*args: Any, **kwargs: Any) -> Any:
        collect = original(*args, **kwargs)

        @functools.wraps(collect)
        def collect_or_recall(*inputs: Any) -> Any:
            if recording.here.direction:
                return collect(*inputs)
            return recording.boundary.pass_through(
                ("metadata", ""), lambda: collect(*inputs), _copy_containers
            )

        return collect_or_recall

    return run_functionalized_fw_and_collect_metadata


def _traced_graph(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the tracing of the joint graph: it is traced once, and later variants get the stored
    graph with the metadata as tracing left it.
    """

    @functools.wraps(original)
    def trace_or_recall(*args: Any, fw_metadata: Any, **kwargs: Any) -> Any:
        if recording.here.direction:
            return original(*args, fw_metadata=fw_metadata, **kwargs)

        def trace() -> Traced:
            module, *rest = original(*args, fw_metadata=fw_metadata, **kwargs)
            return module, tuple(rest), fw_metadata

        module, rest, metadata = recording.boundary.pass_through(("joint", ""), trace, _copied)
        if metadata is not fw_metadata:  # tracing writes into it
            vars(fw_metadata).update(vars(metadata))
        return module, *rest

    return trace_or_recall


Traced = tuple[GraphModule, tuple[Any, ...], Any]
"""The traced graph, the other values returned with it, and the metadata as tracing left it."""


def _copied(traced: Traced) -> Traced:
    module, rest, metadata = traced
    return snapshot(module), tuple(map(_copy_containers, rest)), _copy_containers(metadata)


def _copy_containers(value: Any) -> Any:
    """Copy containers and keep tensors the same: later stages append to the lists, and set
    attributes of the metadata.
    """
    if isinstance(value, list):
        return [_copy_containers(item) for item in value]
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(map(_copy_containers, value))
    if hasattr(value, "__dataclass_fields__") and hasattr(value, "__dict__"):
        copied = copy.copy(value)
        for name, attribute in vars(copied).items():
            if isinstance(attribute, list | dict | set):
                setattr(copied, name, copy.copy(attribute))
        return copied
    return value
