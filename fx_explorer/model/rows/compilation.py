"""These rows are about a compilation (one frame going through torch.compile) and the texts it
leaves behind, the options in force, and what else was run for or beside it: other front ends, child
processes, and a comparison with the original program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.model.rows.stepping import Gate
from fx_explorer.model.stage import Direction, Stage

Status = Literal["running", "ok", "broke", "failed", "skipped", "restarted", "left"]
"""``broke``: compiled, but only up to a graph break. ``skipped``: Dynamo left the frame to Python.
``restarted``: an attempt that left a compiled graph behind before Dynamo began the compilation
again; the one that counts has its name without ``_N``. ``left``: at a gate the user chose another
variant, ran the graph eagerly or aborted; everything up to there is kept.
"""


@dataclass(frozen=True, slots=True)
class Compilation:
    """One frame compiled once: torch's ``[frame/recompile]``.

    Restarts are counted in ``attempts``; only an attempt that left a compiled graph behind has a
    row of its own, ``0/0_0``.
    """

    id: int
    name: str
    """As torch writes it, without brackets: ``0/1``; ``!1/0/0`` under compiled autograd; ``0/1#2``
    when the program called ``torch._dynamo.reset()`` and torch gave the number a second time;
    ``0/1~2`` for the second variant beside ``0/1``. What the program gave to a compiler itself,
    without Dynamo, is ``inductor/0/0``, ``aot/1/0``, ``make_fx/2/0`` or ``precompile/3/0``.
    """
    frame: int
    recompile: int
    function: str
    """Qualified name of the Python function: ``MLP.forward``; ``MLP.forward (no_grad)`` for the
    function that the decorator ``no_grad`` put around it; or torch's
    ``torch_dynamo_resume_in_forward_at_12``.
    """
    file: str
    line: int
    stack: int = 0
    """Where the user's program called the frame (a Stack)."""
    status: Status = "running"
    attempts: int = 1
    restart_reasons: tuple[str, ...] = ()
    backend: str = ""
    error: str = ""
    """First line of what stopped it, empty when nothing did; the whole is in a Failure."""
    start_s: float = 0.0
    """Seconds since the session began."""
    duration_s: float = 0.0
    missing_stages: dict[str, str] | None = None
    """Stage → why this backend or run does not have it."""
    variant_of: str = ""
    """Name of the variant this one set out from; empty for a first variant."""
    variant_from: Gate | None = None
    """The gate this variant set out from; what came before is shared with that one, and not
    repeated.
    """
    changes: dict[str, object] | None = None
    """``Changes.to_json()`` of this variant; None for a first variant."""
    in_use: bool = True
    """Whether this is the variant that the program runs. Exactly one of a compilation's variants
    is, unless it was aborted.
    """
    saved_s: float = 0.0
    """Seconds that the stages it shares had taken the first time."""
    argument_names: dict[str, str] | None = None
    """torch's name of an argument that a decorator hands on → what the function calls it that the
    decorator was put around: ``L['args'][0]`` → ``input_ids``. None where there is none, or that
    was not recorded.
    """


ArtifactKind = Literal[
    "bytecode_original",
    "bytecode_modified",
    "guard_tree",
    "ir_pre_fusion",
    "ir_post_fusion",
    "output_code",
    "kernel",
    "candidate",
    "config",
    "compile_options",
    "listing",
    "published",
    "ttir",
    "ttgir",
    "llir",
    "ptx",
    "amdgcn",
    "sass",
]
"""``candidate``: the source of another configuration of a template. ``published``: a text of a
backend's own stage (PublishedStage). ``ttir`` and what follows: a kernel at one level below its
Triton source, in one configuration (KernelBuild).
"""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One text of a compilation: bytecode, IR, generated code. Its lines can be linked (LineNode,
    LineSource).
    """

    id: int
    compilation: int
    kind: ArtifactKind
    stage: Stage
    direction: Direction
    title: str
    language: str
    """What highlight.py knows: ``python``, ``cpp``, ``triton``, ``bytecode``, ``ir``, ``json``,
    ``text``.
    """
    text: int
    """Id in the text table; ``reader.text(artifact.text)``."""
    line_count: int = 0


# Options that decide what torch.compile does, as they were in force, and who set each.


SetBy = Literal["default", "program", "fx-explorer", "environment"]
"""``program``: the user's own code. ``fx-explorer``: an option of the command line or of the
app.
"""

STANCE = "compiler.stance"
"""``torch.compiler.set_stance``, among the full names of options."""

ONCE_COMPILED: tuple[str, ...] = ("eager_on_recompile", "fail_on_recompile")
"""Stances that matter when something is compiled already: set from the start, they leave nothing to
compile.
"""

SECOND_CALL: tuple[str, ...] = ("eager_then_compile", "aot_eager_then_compile")
"""Stances that compile what is called a second time."""

CONSOLE: tuple[str, ...] = (
    "compile.fullgraph",
    "compile.dynamic",
    "compile.backend",
    "compile.mode",
    "compile.options",
    "compile.disable",
    "compile.recompile_limit",
    "compile.isolate_recompiles",
    STANCE,
    "dynamo.capture_scalar_outputs",
    "dynamo.capture_dynamic_output_shape_ops",
    "dynamo.nested_graph_breaks",
    "dynamo.suppress_errors",
    "dynamo.disable",
    "dynamo.trace_numpy",
    "dynamo.allow_rnn",
    "dynamo.recompile_limit",
    "dynamo.accumulated_recompile_limit",
    "dynamo.error_on_recompile",
    "dynamo.fail_on_recompile_limit_hit",
    "dynamo.assume_static_by_default",
    "dynamo.automatic_dynamic_shapes",
    "dynamo.specialize_int",
    "dynamo.specialize_float",
    "dynamo.allow_unspec_int_on_nn_module",
    "dynamo.force_parameter_static_shapes",
    "dynamo.prefer_deferred_runtime_asserts_over_guards",
    "dynamo.guard_nn_modules",
    "dynamo.inline_inbuilt_nn_modules",
    "dynamo.skip_nnmodule_hook_guards",
    "dynamo.skip_no_tensor_aliasing_guards_on_parameters",
    "dynamo.skip_tensor_guards_with_matching_dict_tags",
    "dynamo.skip_guards_on_constant_func_defaults",
    "dynamo.use_recursive_dict_tags_for_guards",
    "dynamo.use_lamba_guard_for_object_aliasing",
    "dynamo.enable_cpp_symbolic_shape_guards",
    "inductor.max_fusion_size",
    "inductor.epilogue_fusion",
    "inductor.prologue_fusion",
    "inductor.aggressive_fusion",
    "inductor.max_autotune",
    "inductor.coordinate_descent_tuning",
    "inductor.freezing",
    "functorch.activation_memory_budget",
)
"""The options that decide about breaks, guards, recompiles, dynamic shapes and fusion, in the order
they are explained. A torch that lacks one of them leaves it out.
"""

WHOLE_CAPTURE: tuple[str, ...] = (
    "compile.fullgraph",
    "compile.options",
    "compile.disable",
    "compile.recompile_limit",
    "compile.isolate_recompiles",
    STANCE,
)
"""What cannot be changed at a gate: it decides whether and how Dynamo is entered at all."""


@dataclass(frozen=True, slots=True)
class OptionInForce:
    """One value that an option had while something was compiled, or could have been. A new row for
    each other value.
    """

    id: int
    name: str
    """Full name: ``compile.mode``, ``compiler.stance``, ``dynamo.recompile_limit``."""
    value: str
    """Value as JSON; an object that is no plain data is given by its name."""
    set_by: SetBy
    function: str = ""
    """For ``compile.*``: the function that torch.compile was given; empty for options that hold for
    all.
    """
    file: str = ""
    line: int = 0
    """Where the program set it; empty where that is not known."""
    variable: str = ""
    """The environment variable that set it."""


# What another front end than Dynamo made of the target, or why it refused.


FrontEndName = Literal["symbolic_trace", "export", "make_fx"]

FRONT_ENDS: tuple[FrontEndName, ...] = ("symbolic_trace", "export", "make_fx")

FRONT_END_CALLS: dict[str, str] = {
    "symbolic_trace": "torch.fx.symbolic_trace",
    "export": "torch.export.export",
    "make_fx": "make_fx",
}
"""What a front end is called in PyTorch."""

FRONT_END_LIMIT_S = 120.0
"""Seconds that one of them may take, unless another limit is asked for."""

FrontEndState = Literal["made", "refused", "timed_out"]


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """One front end, called once with the target and its example inputs."""

    id: int
    name: FrontEndName
    state: FrontEndState
    graph: int = 0
    """The Graph that it made, of stage ``front_end``; 0 when it made none."""
    error: str = ""
    """What it raised: the type's name and the message."""
    traceback: int = 0
    """Id in the text table; 0 when nothing was raised."""
    file: str = ""
    """The innermost line outside torch at which it refused."""
    line: int = 0
    code: str = ""
    duration_s: float = 0.0
    is_training: bool = False
    """Whether the module was in training mode."""
    inputs: dict[str, object] | None = None
    """Of ``export``: how many inputs of its graph are of each kind (``PARAMETER``, ``USER_INPUT``).
    """
    outputs: dict[str, object] | None = None
    """Of ``export``: how many outputs are of each kind (``BUFFER_MUTATION``, ``USER_OUTPUT``)."""
    ranges: dict[str, object] | None = None
    """For ``export``: dynamic size → its allowed range."""
    remarks: tuple[str, ...] = ()
    """Sentences on what had to be done before the front end could run, and on what its run has
    changed.
    """


# Processes that the program forked or started.


Beginning = Literal["forked", "started"]
"""``forked``: by ``os.fork`` or multiprocessing; ``started``: as a program of its own (spawn,
subprocess, exec).
"""

FindingKind = Literal["break", "recompile", "guards", "left", "error"]


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A process that used torch.compile, or that may have done so unseen."""

    id: int
    pid: int
    """0 when the process could not be seen."""
    beginning: Beginning
    command: str
    """The command line of the process."""
    unseen: str = ""
    """Why it is not known what the process compiled; empty when it is."""
    compilations: int = 0
    graphs: int = 0
    graph_breaks: int = 0
    """Each time one was hit."""
    recompiles: int = 0


@dataclass(frozen=True, slots=True)
class ChildFinding:
    """Something in a child process that a condition of ``check`` may not allow."""

    id: int
    process: int
    kind: FindingKind
    file: str
    line: int
    cause: str
    """torch's id of a graph break (``GB0059``); empty when there is none."""
    text: str
    count: int = 1
    """How often it happened; of ``guards`` how many the compilation has."""


# A changed program, compiled, compared with the original one in eager mode.


@dataclass(frozen=True, slots=True)
class Verification:
    """One comparison: the same calls, with the same seeds and the same state, of both programs."""

    id: int
    is_equal: bool
    """Everything but what is printed: outputs, gradients, state, changed inputs, and what was
    raised.
    """
    prints_equal: bool
    calls: tuple[str, ...]
    """The inputs of each call, in words: ``the example inputs``, ``the example inputs negated``
    …
    """
    compared: dict[str, int]
    """Kind of value (``output``, ``gradient`` …) → how many were compared, over all calls."""
    largest_difference: float
    """The largest absolute one between two floating-point values that were compared; infinite where
    only one is finite.
    """
    where: str
    """Where it is: ``gradient of fc1.weight, with the example inputs negated``; empty when there is
    none.
    """
    differences: tuple[str, ...]
    """The first differences, in words; empty when all is equal."""
    lost_lines: tuple[str, ...]
    """Printed or logged by the original alone, the first ones."""
    new_lines: tuple[str, ...]
    """Printed or logged by the changed program alone, the first ones."""
    problem: str = ""
    """Why nothing could be compared; the other fields are then empty."""
    moved_line: str = ""
    """The first one that comes where the original printed another; empty when the order is the
    same, or the lines differ.
    """
    not_compared: tuple[str, ...] = ()
    """What the calls may have done that could not be compared, in words; empty when everything
    was.
    """
    not_tried: tuple[str, ...] = ()
    """Inputs that the programs were not called with, and ways of running that were left out, in
    words.
    """
    other_messages: tuple[str, ...] = ()
    """Exceptions that both programs raise and that have another text in the changed one, or are of
    another type because a check of the graph comes before the operation that fails; in words, the
    first ones.
    """
    is_built: bool = False
    """Whether the changed program's code was built and run, beside the run of its graphs by
    PyTorch's own operators.
    """
