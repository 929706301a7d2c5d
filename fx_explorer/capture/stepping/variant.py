"""This module describes a variant: one way to compile a Dynamo graph. A variant keeps the result of
each stage, which a later variant may use again, even when it lowers only a single region again.

A variant that sets out from a gate runs torch's own functions from the beginning. Those that come
before the gate are answered from what was kept (AOTAutograd's tracing, the partition, a graph after
its passes), so that every context torch needs is there and only what follows is computed. Nothing
is kept in a capture that nobody steps through.

The variant begins with the graph as it was before the edits at that gate, and makes all its edits
at that gate and at later ones. Earlier edits are in what was kept, so each is made once. Inductor's
IR is consumed when code is made from it: a variant from fusion or later lowers the post-grad graph
again.

The options and modes in force when Dynamo captured the graph are kept with it, and restored when a
deferred graph is compiled. The program continues meanwhile: it leaves the block in which an option
of torch's held, switches autocast off, resizes an input. Besides the graph, three things decide
about generated code: options of the compiler, modes of the process, and properties of the inputs.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fx_explorer.capture.aot.regional import configs_in_force
from fx_explorer.capture.graph_copies import snapshot
from fx_explorer.capture.option_catalogue import (
    MODULES,
    names,
    set_entry,
    value_of,
    value_set_by_user,
)
from fx_explorer.capture.recording.boundary import Key, LoweringRequest
from fx_explorer.capture.recording.compilation_state import Segment
from fx_explorer.capture.recording.fx_graphs import describe_value, node_value
from fx_explorer.capture.torch_compat.private_names import (
    CompileContext,
    TracingContext,
    compile_context,
    dynamo_timed,
    get_metrics_context,
    is_fake,
    tracing,
)
from fx_explorer.errors import UsageError
from fx_explorer.model import GATES, Changes, Command, Compilation, Direction, Gate, SettingGroup
from fx_explorer.model.rows.stepping import stage_at

_PLAIN = (bool, int, float, str, bytes, type(None))

_MODES: tuple[tuple[Callable[[], Any], Callable[[Any], object]], ...] = (
    (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    (torch.backends.cuda.mem_efficient_sdp_enabled, torch.backends.cuda.enable_mem_efficient_sdp),
    (torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
)
"""(getter, setter) of each mode. Grad mode is missing, because the kept graph has its own."""

_AUTOCAST = ("cpu", "cuda")
"""Device types with an autocast state of their own."""

Option = tuple[SettingGroup, str]


@dataclass(frozen=True)
class OptionsAndModes:
    """The compiler's options and torch's modes, as they were when Dynamo captured one graph."""

    options: dict[Option, object]
    modes: tuple[Any, ...]
    autocast: dict[str, tuple[bool, torch.dtype]]
    is_inference: bool

    @classmethod
    def now(cls) -> OptionsAndModes:
        """Return the options and modes in force now. This takes about 2 ms."""
        options = {}
        for group in MODULES:
            for name in names(group):
                options[group, name] = value_of(group, name)
        autocast = {}
        for device in _AUTOCAST:
            is_on, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
            autocast[device] = (is_on, dtype)
        modes = tuple(asked() for asked, _ in _MODES)
        return cls(options, modes, autocast, torch.is_inference_mode_enabled())

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Apply these options and modes inside the block."""
        with contextlib.ExitStack() as stack:
            for (group, name), value in self.options.items():
                if _differs(value, value_of(group, name)):
                    stack.callback(set_entry(group, name, value))
            for (asked, put), value in zip(_MODES, self.modes, strict=True):
                before = asked()
                if before != value:
                    put(value)
                    stack.callback(put, before)
            for device, (enabled, dtype) in self.autocast.items():
                if (enabled, dtype) != (
                    torch.is_autocast_enabled(device),
                    torch.get_autocast_dtype(device),
                ):
                    stack.enter_context(torch.autocast(device, dtype=dtype, enabled=enabled))
            if self.is_inference != torch.is_inference_mode_enabled():
                stack.enter_context(torch.inference_mode(self.is_inference))
            yield

    @property
    def program_is_called(self) -> bool:
        """Return whether an option is a function of the program's that is called during
        compilation: a custom pass.
        """
        functions = [option for option, value in self.options.items() if callable(value)]
        return any(value_set_by_user(*option) for option in functions)


def _differs(value: object, other: object) -> bool:
    if value is other:
        return False
    # Only plain values are compared: others may answer ``==`` with anything, an array for one.
    if type(value) not in _PLAIN or type(value) is not type(other):
        return True
    return bool(value != other)


# Variants, and the graph that they are ways to compile.


RegionKey = tuple[Direction, str]
"""A region of one direction, by torch's name of the subgraph."""

Settings = Mapping[str, object]
"""Full name → value: ``inductor.max_fusion_size``."""


@dataclass(frozen=True)
class CompiledRegion:
    """Inductor's result for one region."""

    name: str
    """The name in the annotation; empty for a region without one."""
    signature: str
    """The input of the region's compilation as text: the graph with the types of its values, and
    its own configs.
    """
    compiled: Any
    took_s: float


@dataclass
class Variant:
    """One way to compile a Dynamo graph: one run through the stages that follow Dynamo."""

    row: Compilation
    segment: Segment
    changes: Changes = field(default_factory=Changes)
    kept: dict[Key, Any] = field(default_factory=dict)
    """Results of its stages, including those shared with the variant from which it began."""
    took_s: dict[Key, float] = field(default_factory=dict)
    """Seconds that each result took to compile, without waiting. ``lowered`` contains
    ``post_grad``.
    """
    kept_at_s: float = 0.0
    """Seconds that had been spent when the last result was stored."""
    replays: frozenset[Key] = frozenset()
    """The stages whose results are taken from ``kept`` instead of being computed."""
    regions: dict[RegionKey, CompiledRegion] = field(default_factory=dict)
    """Regions that regional_inductor compiled, for this variant or for the one from which it began.
    """
    region: str = ""
    """The only region to lower again; the others are taken from ``regions``. Empty: all are
    lowered.
    """
    spared_s: float = 0.0
    """Seconds saved by reusing regions."""
    compiled_with: Settings | None = None
    """The settings with which it was compiled, including those for all variants; None for a variant
    that was not finished.
    """
    lowered_with: dict[Key, Settings] = field(default_factory=dict)
    """The settings by direction (``lowered``), and by region (its subgraph and direction). Shared
    results keep their own settings.
    """
    is_rebuilt: bool = False
    """Whether it only repeats another variant, each part with that part's settings."""
    reached: set[Key] = field(default_factory=set)
    """The gates that it has reached, including those of shared stages."""
    passed: set[Key] = field(default_factory=set)
    """The gates that it has passed. Nothing is done there when it continues later."""
    edited: set[Key] = field(default_factory=set)
    """The gates at which its graph was changed."""
    began: float = field(default_factory=time.monotonic)
    waited_s: float = 0.0
    earlier_s: float = 0.0
    """Seconds spent before it was left at a gate for later."""
    is_finished: bool = False

    @property
    def is_taken_up(self) -> bool:
        """Return whether Dynamo's graph was already edited in an earlier variant, so that the
        session has the edits.
        """
        return any(name != "dynamo" for name, _ in self.replays)

    def spent_s(self) -> float:
        return self.earlier_s + self.spent_now_s()

    def spent_now_s(self) -> float:
        return time.monotonic() - self.began - self.waited_s

    def keep(self, key: Key, made: Any, took_s: float | None = None) -> None:
        """Store the result of a stage. ``took_s`` is by default the time since the last result was
        stored.
        """
        spent_s = self.spent_s()
        self.kept[key] = made
        if took_s is None:
            self.took_s[key] = spent_s - self.kept_at_s
        else:
            self.took_s[key] = took_s
        self.kept_at_s = spent_s

    def shared_s(self, replays: frozenset[Key]) -> float:
        """Return the seconds that these stages took."""
        inside = {("post_grad", direction) for name, direction in replays if name == "lowered"}
        return sum(self.took_s.get(key, 0.0) for key in replays - inside)

    def reusable_region(self, key: RegionKey, name: str, signature: str) -> CompiledRegion | None:
        """Return the region's result from an earlier variant; None if the region has changed or is
        to be lowered again.
        """
        if not self.region or name == self.region:
            return None
        known = self.regions.get(key)
        if known is None or known.signature != signature:
            return None
        return known

    def region_names(self, direction: Direction) -> list[str]:
        """Return the regions that were compiled in this direction; an empty direction means
        both.
        """
        names: dict[str, None] = {}
        for (of_direction, _), region in self.regions.items():
            if region.name and direction in ("", of_direction):
                names[region.name] = None
        return list(names)

    def all_settings(self) -> list[Settings]:
        """Return the settings of every part of this variant's compiled code."""
        if self.compiled_with is None:
            return []
        return [self.compiled_with, *self.lowered_with.values()]

    def settings_again(self, key: Key) -> Settings:
        """Return the settings for lowering a part again. In a direction with regions, each region
        has its own, and nothing else is lowered.
        """
        name, direction = key
        if name == "lowered" and any(of == direction for of, _ in self.regions):
            return {}
        return self.lowered_with.get(key, {})

    def rebuilt(self) -> Variant:
        """Return a variant that repeats this one. Only lowering runs again."""
        kept = {key: made for key, made in self.kept.items() if key[0] != "lowered"}
        segment = shared_segment(self.segment, GATES[-1], "")
        variant = Variant(
            self.row, segment, self.changes, kept, replays=frozenset(kept), is_rebuilt=True
        )
        variant.lowered_with, variant.regions = dict(self.lowered_with), dict(self.regions)
        variant.passed = set(self.passed)
        return variant

    def pause(self) -> None:
        """Leave the variant at a gate; it can continue later."""
        self.earlier_s = self.spent_s()


@dataclass
class CapturedSegment:
    """A Dynamo graph with everything needed to compile it again, also after the program has
    ended.
    """

    name: str
    """Name of the compilation that captured it."""
    compiler: Callable[..., Any]
    inputs: list[Any]
    dynamo: torch.fx.GraphModule
    """The graph as Dynamo made it. Only copies of it are compiled."""
    traced_s: float
    """Seconds that Dynamo took to trace the graph."""
    files: frozenset[str]
    """The source files that Dynamo read to trace the graph."""
    variants: list[Variant] = field(default_factory=list)
    tracing_context: Any = field(default_factory=TracingContext.try_get)
    compile_context: Any = field(default_factory=CompileContext.try_get)
    has_grad: bool = field(default_factory=torch.is_grad_enabled)
    options_and_modes: OptionsAndModes = field(default_factory=OptionsAndModes.now)
    symbolic: list[tuple[Any, Any]] = field(init=False)
    """(input, its symbolic sizes). torch discards these when it has finished a frame."""
    fakes: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    """(input, the tensor that AOTAutograd traces in its place). If empty, AOTAutograd makes these
    itself.
    """

    def __post_init__(self) -> None:
        known = self.tracing_context.tensor_to_context
        tensors = [value for value in self.inputs if isinstance(value, torch.Tensor)]
        self.symbolic = [(tensor, known[tensor]) for tensor in tensors if tensor in known]

    def lower_as(self, lowering: LoweringRequest) -> None:
        """Take over the graph, inputs and compiler of ``lowering``. The graph was captured ahead of
        time, and may have been edited since.
        """
        self.compiler, self.dynamo = lowering.compiler, snapshot(lowering.module)
        self.inputs = list(lowering.inputs)  # Dynamo's own list is left alone
        self.variants[0].kept["dynamo", ""] = self.dynamo

    def settle(self) -> None:
        """Make fake tensors for the inputs as they are now, since the program may change them, or
        give them gradients, before they are traced. Follows ``process_inputs``
        (torch/_functorch/_aot_autograd/frontend_utils.py).
        """
        mode = self.tracing_context.fake_mode
        if mode is None:
            return
        known = self.tracing_context.tensor_to_context
        with mode:
            for tensor in self.inputs:
                if isinstance(tensor, torch.Tensor) and not is_fake(tensor):
                    context = known.get(tensor)
                    source = getattr(context, "tensor_source", None)
                    fake = mode.from_tensor(
                        tensor, symbolic_context=context, source=source, trace=context is None
                    )
                    self.fakes.append((tensor, fake))

    def variant(self, name: str) -> Variant | None:
        """Return the variant whose row is called ``name``; None if there is none."""
        for variant in self.variants:
            if variant.row.name == name:
                return variant
        return None

    def shape_env(self) -> Any:
        """Return torch's ``ShapeEnv``, which knows the symbolic sizes; None without fake
        tensors.
        """
        mode = getattr(self.tracing_context, "fake_mode", None)
        return mode and mode.shape_env

    @contextlib.contextmanager
    def as_in_dynamo(self) -> Iterator[None]:
        """Restore, inside the block, the state that a backend expects when Dynamo calls it
        (torch/_dynamo/output_graph.py, ``call_user_compiler``).
        """
        for tensor, context in self.symbolic:
            self.tracing_context.tensor_to_context[tensor] = context
        for tensor, fake in self.fakes:  # torch forgets them, too
            self.tracing_context.fake_mode.fake_tensor_converter.set_tensor_memo(tensor, fake)
        with contextlib.ExitStack() as stack:
            stack.enter_context(compile_context(self.compile_context))
            stack.enter_context(tracing(self.tracing_context))
            stack.enter_context(self.options_and_modes.in_force())
            stack.enter_context(torch.set_grad_enabled(self.has_grad))
            stack.enter_context(get_metrics_context())
            stack.enter_context(dynamo_timed("backend_compile", log_pt2_compile_event=True))
            yield


def share_gates(origin: Variant, variant: Variant, gate: Gate, direction: Direction) -> None:
    """Record the gates that ``variant``, which begins at ``gate`` of ``origin``, need not pass
    again.
    """

    def is_shared(key: Key) -> bool:
        name, of_direction = key
        if GATES.index(name) < GATES.index(gate):
            return True
        return bool(direction and of_direction and of_direction != direction)

    variant.reached = set(filter(is_shared, origin.reached))
    variant.passed = set(filter(is_shared, origin.passed))
    variant.edited = set(filter(is_shared, origin.edited))


def shared_keys(variant: Variant, gate: Gate, direction: Direction) -> frozenset[Key]:
    """Return the stages that a variant beginning at ``gate`` can reuse: everything before the gate,
    and the other direction's lowering.
    """
    last = GATES.index(gate)
    return frozenset(key for key in variant.kept if _comes_before(key, last, direction))


def _comes_before(key: Key, last: int, direction: Direction) -> bool:
    name, of = key
    if name == "lowered":
        return bool(direction) and of != direction
    if name == "metadata":
        name = "joint"
    return GATES.index(name) <= last


def shared_segment(segment: Segment, gate: Gate, direction: Direction) -> Segment:
    """Return the recorded graphs that a variant beginning at ``gate`` shares with this one, so that
    later graphs link to them.
    """
    last = GATES.index(gate)

    def reached(name: Gate) -> bool:
        return last >= GATES.index(name)

    shared = replace(
        segment,
        pre_grad=None,
        joint=None,
        joint_after_passes=None,
        aot={},
        post_grad={},
        seq_parents={},
        unedited={},
        published=[],
        regions=[],
        saved={},
    )
    if reached("pre_grad"):
        shared.pre_grad = segment.pre_grad
    if reached("joint"):
        shared.joint = segment.joint
        shared.seq_parents = dict(segment.seq_parents)
        shared.regions = list(segment.regions)
    if reached("partition"):
        shared.joint_after_passes = segment.joint_after_passes
        shared.aot = dict(segment.aot)
        shared.saved = dict(segment.saved)
    for of_direction, recorded in segment.post_grad.items():
        if reached("post_grad") or (direction and of_direction != direction):
            shared.post_grad[of_direction] = recorded
    for (of_gate, edited), graph in segment.unedited.items():
        # It begins with the graph before the edits at its gate.
        if of_gate == gate and (not direction or edited in ("", direction)):
            shared.put(stage_at(of_gate, edited), edited, graph)
        elif reached(of_gate):
            shared.unedited[(of_gate, edited)] = graph
    return shared


# One region lowered again, alone.


def check_region(origin: Variant, command: Command) -> None:
    """Raise UsageError when ``command`` asks for a region that ``origin`` did not compile, or for a
    region from another gate than the partition.
    """
    if not command.region:
        return
    if command.gate != "partition":
        raise UsageError(
            "A single region can be lowered again only from the partition, because regions are "
            "cut out of its graphs."
        )
    if {"compile.backend", "compile.mode"} & command.changes.settings.keys():
        raise UsageError(
            "Another backend or mode applies to the whole graph: do not choose a region."
        )
    names, name = origin.region_names(command.direction), origin.row.name
    where = f" in the {command.direction}" if command.direction else ""
    if not names:
        raise UsageError(
            f"regional_inductor has compiled no named region of [{name}]{where}: first mark a "
            "region and restart from Dynamo with the backend regional_inductor."
        )
    if command.region not in names:
        raise UsageError(
            f'[{name}] has no region "{command.region}"{where}; there are {", ".join(names)}.'
        )


def share_regions(origin: Variant, variant: Variant, gate: Gate) -> None:
    """Give ``variant``, which begins at ``gate`` of ``origin``, the regions that it may reuse, in
    each direction.
    """
    if GATES.index(gate) >= GATES.index("partition"):
        variant.regions, variant.lowered_with = dict(origin.regions), dict(origin.lowered_with)


def signature(module: torch.fx.GraphModule) -> str:
    """Return the input of a region's compilation as text. Equal texts lower to equal code under
    equal settings.
    """
    return "\n".join((repr(configs_in_force(module)), *_lines(module)))


def _lines(module: torch.fx.GraphModule) -> Iterator[str]:
    for node in module.graph.nodes:
        if isinstance(node.target, str):
            target = node.target
        else:
            target = repr(node.target)
        yield (
            f"{node.name} {node.op} {target} {node.args} {node.kwargs} "
            f"{describe_value(node_value(node))}"
        )
        inner = getattr(module, target, None) if node.op == "get_attr" else None
        if isinstance(inner, torch.fx.GraphModule):
            yield from _lines(inner)
