"""Options that decide what torch.compile does, as they were in force: arguments, the stance, and
configs, and who set each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
    """JSON; what is no plain data is named."""
    set_by: SetBy
    function: str = ""
    """``compile.*``: what torch.compile was given; empty: it holds for all."""
    file: str = ""
    line: int = 0
    """Where the program set it; empty where that is not known."""
    variable: str = ""
    """The environment variable that set it."""
