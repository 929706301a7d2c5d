"""This module has the rows about a compilation (one frame going through torch.compile): its texts,
the options in force, and other runs for it: other front ends, child processes, and a comparison
with the original program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.model.column_types import Direction, Stage
from fx_explorer.model.rows.stepping import Gate

Status = Literal["running", "ok", "broke", "failed", "skipped", "restarted", "left"]
"""State of a compilation. ``broke``: compiled, but only up to a graph break. ``skipped``: Dynamo
runs the frame in eager mode. ``restarted``: an attempt with a compiled graph after which Dynamo
began again; the final one has the name without ``_N``. ``left``: at a gate the user chose another
variant, ran the graph in eager mode or aborted; everything up to there is kept.
"""


@dataclass(frozen=True, slots=True)
class Compilation:
    """The compilation of one frame: torch's ``[frame/recompile]``.

    Restarts are counted in ``attempts``; only an attempt that left a compiled graph behind has a
    row of its own, ``0/0_0``.
    """

    id: int
    name: str
    """Name as torch writes it, without brackets: ``0/1``; ``!1/0/0`` under compiled autograd;
    ``0/1#2`` when the program called ``torch._dynamo.reset()`` and torch reused the number;
    ``0/1~2`` for the second variant beside ``0/1``. Compilations that the program requested itself,
    without Dynamo, are ``inductor/0/0``, ``aot/1/0``, ``make_fx/2/0`` or ``precompile/3/0``.
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
    """Stack of the user's call of the frame (a Stack)."""
    status: Status = "running"
    attempts: int = 1
    restart_reasons: tuple[str, ...] = ()
    backend: str = ""
    error: str = ""
    """First line of the error that ended it, empty without one; the whole is in a Failure."""
    start_s: float = 0.0
    """Seconds since the session began."""
    duration_s: float = 0.0
    missing_stages: dict[str, str] | None = None
    """Stage → why this backend or run does not have it."""
    variant_of: str = ""
    """Name of the variant from which this one began; empty for a first variant."""
    variant_from: Gate | None = None
    """The gate at which this variant began; earlier results are shared with the other variant, and
    not repeated.
    """
    changes: dict[str, object] | None = None
    """``Changes.to_json()`` of this variant; None for a first variant."""
    in_use: bool = True
    """Whether the program runs this variant. Exactly one of a compilation's variants is in use,
    unless it was aborted.
    """
    saved_s: float = 0.0
    """Seconds that the shared stages took the first time."""
    argument_names: dict[str, str] | None = None
    """torch's name of an argument that a decorator passes on → its name in the decorated function:
    ``L['args'][0]`` → ``input_ids``. None without such names, or if they were not recorded.
    """
    receiver: int = 0
    """Number, from 1, of the object that the method was compiled for, among those that the same
    code was compiled for: ``layers[0]`` and ``layers[1]`` of one class are 1 and 2. So are models
    that torch calls from its own wrapper. 0 for a plain function, for what torch refused to
    compile, and in a log.
    """


ArtifactKind = Literal[
    "bytecode_original",
    "bytecode_modified",
    "bytecode_python",
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
"""Kind of a text. ``candidate``: the source of another configuration of a template. ``published``:
a text of a backend's own stage (PublishedStage). ``ttir`` and later ones: a kernel at one level
below its Triton source, in one configuration (KernelBuild).
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
    """A language of highlight.py: ``python``, ``cpp``, ``triton``, ``bytecode``, ``ir``, ``json``,
    ``text``.
    """
    text: int
    """Id in the text table; ``reader.text(artifact.text)``."""
    line_count: int = 0


# Options that decide what torch.compile does, as they were in force, and who set each.


SetBy = Literal["default", "program", "fx-explorer", "environment", "not recorded"]
"""Who set an option. ``program``: the user's own code. ``fx-explorer``: an option of the command
line or of the app. ``not recorded``: a log has values without their origin.
"""

STANCE = "compiler.stance"
"""``torch.compiler.set_stance``, among the full names of options."""

ONCE_COMPILED: tuple[str, ...] = ("eager_on_recompile", "fail_on_recompile")
"""Stances that matter once something is compiled: set from the start, they leave nothing to
compile.
"""

SECOND_CALL: tuple[str, ...] = ("eager_then_compile", "aot_eager_then_compile")
"""Stances that compile a function at its second call."""

CACHE_OPTIONS: tuple[str, ...] = (
    "inductor.force_disable_caches",
    "inductor.fx_graph_cache",
    "inductor.fx_graph_remote_cache",
    "inductor.autotune_local_cache",
    "functorch.enable_autograd_cache",
)
"""Options that turn torch's compile caches on and off; recorded where a capture leaves them as they
are.
"""

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
    "inductor.emulate_precision_casts",
    "functorch.activation_memory_budget",
)
"""The options that decide about breaks, guards, recompiles, dynamic shapes and fusion, in the order
of their explanations. Those that a torch lacks are left out.
"""

WHOLE_CAPTURE: tuple[str, ...] = (
    "compile.fullgraph",
    "compile.options",
    "compile.disable",
    "compile.recompile_limit",
    "compile.isolate_recompiles",
    STANCE,
)
"""Options that cannot be changed at a gate, because they decide whether and how Dynamo is entered.
"""


@dataclass(frozen=True, slots=True)
class OptionInForce:
    """One value that an option had while a function was, or could have been, compiled. Each other
    value is a new row.
    """

    id: int
    name: str
    """Full name: ``compile.mode``, ``compiler.stance``, ``dynamo.recompile_limit``."""
    value: str
    """Value as JSON; an object that is not plain data is given by its name."""
    set_by: SetBy
    function: str = ""
    """For ``compile.*``: the function that was passed to torch.compile; empty for options that
    apply to all.
    """
    file: str = ""
    line: int = 0
    """The program's line that set it; 0 where it is not known."""
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
"""Front end → its name in PyTorch."""

FRONT_END_LIMIT_S = 120.0
"""Seconds that a front end may take, unless another limit is set."""

FrontEndState = Literal["made", "refused", "timed_out"]


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """One front end, called once with the target and its example inputs."""

    id: int
    name: FrontEndName
    state: FrontEndState
    graph: int = 0
    """The Graph of stage ``front_end``; 0 if it made none."""
    error: str = ""
    """The error that it raised: the type's name and the message."""
    traceback: int = 0
    """Id in the text table; 0 without an error."""
    file: str = ""
    """File of the innermost line outside torch at which the front end refused."""
    line: int = 0
    code: str = ""
    duration_s: float = 0.0
    is_training: bool = False
    """Whether the module was in training mode."""
    inputs: dict[str, object] | None = None
    """For ``export``: number of its graph's inputs of each kind (``PARAMETER``, ``USER_INPUT``)."""
    outputs: dict[str, object] | None = None
    """For ``export``: number of outputs of each kind (``BUFFER_MUTATION``, ``USER_OUTPUT``)."""
    ranges: dict[str, object] | None = None
    """For ``export``: dynamic size → its allowed range."""
    remarks: tuple[str, ...] = ()
    """Sentences on changes that were needed before the front end could run, and on effects of its
    run.
    """


# Processes that the program forked or started.


Beginning = Literal["forked", "started"]
"""How a child process began. ``forked``: by ``os.fork`` or multiprocessing; ``started``: as a
program of its own (spawn, subprocess, exec).
"""

FindingKind = Literal["break", "recompile", "guards", "left", "error"]


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A process that used torch.compile, or that may have done so unseen."""

    id: int
    pid: int
    """Id of the process; 0 when the process could not be seen."""
    beginning: Beginning
    command: str
    """The command line of the process."""
    unseen: str = ""
    """Why the process's compilations are not known; empty when they are."""
    compilations: int = 0
    graphs: int = 0
    graph_breaks: int = 0
    """Number of hits of graph breaks."""
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
    """torch's id of a graph break (``GB0059``); empty without one."""
    text: str
    count: int = 1
    """Number of occurrences; for ``guards``, the number of the compilation's guards."""


# A changed program, compiled, compared with the original one in eager mode.


@dataclass(frozen=True, slots=True)
class Verification:
    """One comparison of two programs: the same calls, with the same seeds and the same state."""

    id: int
    is_equal: bool
    """Whether everything except printed output is equal: outputs, gradients, state, changed inputs,
    and exceptions.
    """
    prints_equal: bool
    calls: tuple[str, ...]
    """The inputs of each call, in words: ``the example inputs``, ``the example inputs negated``
    …
    """
    compared: dict[str, int]
    """Kind of value (``output``, ``gradient`` …) → how many were compared, over all calls."""
    largest_difference: float
    """The largest absolute difference between two floating-point values; infinite where only one is
    finite.
    """
    where: str
    """Its place: ``gradient of fc1.weight, with the example inputs negated``; empty without a
    difference.
    """
    differences: tuple[str, ...]
    """The first differences, in words; empty when all is equal."""
    lost_lines: tuple[str, ...]
    """The first lines printed or logged by the original alone."""
    new_lines: tuple[str, ...]
    """The first lines printed or logged by the changed program alone."""
    problem: str = ""
    """Why no comparison was possible; the other fields are then empty."""
    moved_line: str = ""
    """The first line that is printed at another position than in the original; empty when the order
    is the same, or the lines differ.
    """
    not_compared: tuple[str, ...] = ()
    """Possible effects of the calls that could not be compared, in words; empty without any."""
    not_tried: tuple[str, ...] = ()
    """Inputs that the programs were not called with, and ways of running that were left out, in
    words.
    """
    other_messages: tuple[str, ...] = ()
    """The first exceptions, in words, that both programs raise with another text in the changed
    one, or with another type because a check of the graph precedes the failing operation.
    """
    is_built: bool = False
    """Whether the changed program's code was also built and run, beside the run of its graphs by
    PyTorch's own operators.
    """
