"""This module explains what the options of the console do and what their values mean. torch's own
text is in Setting.help.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fx_explorer.model import STANCE


@dataclass(frozen=True, slots=True)
class OptionWords:
    does: str
    """What the option does, in one short sentence."""
    more: str = ""
    """When to use it, and possible surprises."""
    values: Mapping[str, str] = field(default_factory=dict)
    """JSON of a value → its meaning."""


ARGUMENTS: dict[str, OptionWords] = {
    "compile.fullgraph": OptionWords(
        "One graph, or an error at the first graph break.",
        "Use it to learn of a break, instead of paying for one. While it is on, Dynamo also "
        "captures .item() and operations with dynamic output (capture_scalar_outputs, "
        "capture_dynamic_output_shape_ops), so some breaks go away by themselves.",
        {
            "false": "at a graph break, run that code in eager mode, and compile what follows",
            "true": "a graph break raises",
        },
    ),
    "compile.dynamic": OptionWords(
        "Whether the compiled code specializes sizes.",
        "A specialized size costs one recompile for each new value; a dynamic one costs some "
        "speed of the kernels. mark_dynamic is the choice for one dimension of one input.",
        {
            "null": "specialized at first; a size that has changed is dynamic from the "
            "recompile on",
            "true": "dynamic from the first compile on, wherever possible",
            "false": "always specialized: every new size is a recompile",
        },
    ),
    "compile.backend": OptionWords(
        "Who compiles the graphs that Dynamo has captured.",
        "To find which part is at fault, go through eager, aot_eager and inductor: the "
        "first one that fails or differs has it.",
        {
            '"inductor"': "generates fused kernels (Triton, C++): the default",
            '"eager"': "runs Dynamo's graph as it is: tests Dynamo alone",
            '"aot_eager"': "runs AOTAutograd's graphs as they are: tests Dynamo and autograd",
            '"aot_eager_decomp_partition"': "as aot_eager, with Inductor's decompositions and "
            "partitioner",
            '"regional_inductor"': "Inductor for regions marked with annotate, the rest eagerly",
            '"cudagraphs"': "AOTAutograd's graphs as CUDA graphs, without Inductor",
        },
    ),
    "compile.mode": OptionWords(
        "A named set of Inductor's options. Excludes options.",
        "",
        {
            "null": "as default",
            '"default"': "a balance of compile time and speed",
            '"reduce-overhead"': "CUDA graphs: less cost for each launch, more memory (GPU only)",
            '"max-autotune"': (
                "times several versions of matrix products and convolutions, with CUDA "
                "graphs: compiles long"
            ),
            '"max-autotune-no-cudagraphs"': "max-autotune without CUDA graphs",
            '"lite"': (
                "every operation calls its library kernel unless it is marked: compiles "
                "fast, fuses nothing by itself"
            ),
        },
    ),
    "compile.options": OptionWords(
        "Options of Inductor for this call of torch.compile alone. Excludes mode.",
        "A dict of entries of torch._inductor.config, as for --option K=V. The entry "
        "guard_filter_fn, which every backend takes, is a function that says which guards are "
        "kept.",
        {"null": "what torch._inductor.config has"},
    ),
    "compile.disable": OptionWords(
        "Makes this torch.compile do nothing.",
        "For tests: everything runs in eager mode, without a graph.",
        {"false": "compile", "true": "return the function as it is"},
    ),
    "compile.recompile_limit": OptionWords(
        "How many versions this call of torch.compile may make of a function.",
        "Beyond the limit the function runs in eager mode for new inputs; with fullgraph=True "
        "that raises.",
        {"null": "torch._dynamo.config.recompile_limit"},
    ),
    "compile.isolate_recompiles": OptionWords(
        "Whether this call of torch.compile counts its recompiles separately.",
        "Several calls of torch.compile on one function share their compiled versions "
        "and the limit, unless this is set.",
        {"false": "shared with other calls on the same function", "true": "counted and kept apart"},
    ),
}

THE_STANCE: dict[str, OptionWords] = {
    STANCE: OptionWords(
        "What compiled functions do when they are called: torch.compiler.set_stance.",
        "Holds for the whole process, at run time, without touching what is compiled already. "
        "--stance sets it from the start. Rules for recompiles then apply to first compiles, "
        "too. So a target that is not a script is first called without it. For the two that end "
        "with then_compile the target is called twice.",
        {
            '"default"': "compile what is not compiled yet",
            '"force_eager"': "ignore torch.compile: everything runs in eager mode",
            '"eager_on_recompile"': "use compiled code; what would have to be compiled runs in "
            "eager mode",
            '"fail_on_recompile"': "use compiled code; what would have to be compiled raises",
            '"eager_then_compile"': (
                "the first call in eager mode, compiled from the second: sizes that differ are "
                "dynamic at once"
            ),
            '"aot_eager_then_compile"': (
                "the first call with aot_eager, compiled from the second: as above, with "
                "less memory"
            ),
        },
    ),
}

BREAKS: dict[str, OptionWords] = {
    "dynamo.capture_scalar_outputs": OptionWords(
        "Captures .item() and float(tensor) in the graph instead of breaking.",
        "The number is not known when compiling: a branch on it still breaks.",
        {"false": "a graph break at each", "true": "captured as a symbol"},
    ),
    "dynamo.capture_dynamic_output_shape_ops": OptionWords(
        "Captures nonzero, unique and masks instead of breaking.",
        "Their output size depends on values, and becomes a symbol. Mostly wanted "
        "together with capture_scalar_outputs.",
        {"false": "a graph break at each", "true": "captured, with a size that is a symbol"},
    ),
    "dynamo.nested_graph_breaks": OptionWords(
        "Which function a graph break inside an inlined function breaks.",
        "",
        {
            "false": "the caller breaks at the call, the function is compiled separately",
            "true": "the inlined function breaks",
        },
    ),
    "dynamo.suppress_errors": OptionWords(
        "Falls back to eager mode where the compiler fails.",
        "Hides faults: what was not compiled is then easily overlooked. Excludes "
        "fail_on_recompile_limit_hit.",
        {
            "false": "an error of the compiler raises",
            "true": "the function runs in eager mode, with a warning",
        },
    ),
    "dynamo.disable": OptionWords(
        "Turns Dynamo off for the whole process.",
        "The environment variable TORCH_COMPILE_DISABLE=1 sets it.",
        {"false": "compile", "true": "torch.compile does nothing"},
    ),
    "dynamo.trace_numpy": OptionWords(
        "Turns numpy calls into torch operations.",
        "",
        {"true": "captured in the graph", "false": "a graph break at each"},
    ),
    "dynamo.allow_rnn": OptionWords(
        "Captures nn.RNN, GRU and LSTM.",
        "",
        {"false": "a graph break at each", "true": "captured; the loop is unrolled"},
    ),
}

RECOMPILES: dict[str, OptionWords] = {
    "dynamo.recompile_limit": OptionWords(
        "How many versions of one function are kept.",
        "Beyond the limit the function runs in eager mode whenever none of them fits.",
    ),
    "dynamo.accumulated_recompile_limit": OptionWords(
        "How many versions of one code are kept over all its objects.",
        "Many instances of a module share the code of forward, and with it this limit.",
    ),
    "dynamo.error_on_recompile": OptionWords(
        "Raises as soon as a function is compiled a second time.",
        "The stance fail_on_recompile does the same from a moment of your choice on.",
        {"false": "recompile", "true": "raise, with the guard that failed"},
    ),
    "dynamo.fail_on_recompile_limit_hit": OptionWords(
        "Raises when the recompile limit is reached.",
        "",
        {"false": "run in eager mode from then on", "true": "raise"},
    ),
}

SIZES: dict[str, OptionWords] = {
    "dynamo.assume_static_by_default": OptionWords(
        "Specializes sizes unless they are marked dynamic.",
        "dynamic=True of torch.compile sets it to false while a function compiles, "
        "dynamic=False to true.",
        {
            "true": "specialized, except for mark_dynamic and sizes that have changed",
            "false": "dynamic",
        },
    ),
    "dynamo.automatic_dynamic_shapes": OptionWords(
        "Makes a size dynamic once it has changed.",
        "dynamic=False of torch.compile sets it to false while a function compiles.",
        {
            "true": "the second value of a size costs a recompile, further ones none",
            "false": "every value costs one",
        },
    ),
    "dynamo.specialize_int": OptionWords(
        "Fixes whole numbers that are passed in.",
        "0 and 1 are always specialized.",
        {"false": "dynamic once they have changed", "true": "a recompile for each value"},
    ),
    "dynamo.specialize_float": OptionWords(
        "Fixes floats that are passed in.",
        "",
        {"false": "passed in as a tensor", "true": "a recompile for each value"},
    ),
    "dynamo.allow_unspec_int_on_nn_module": OptionWords(
        "Lets whole numbers that a module holds be dynamic.",
        "Without it, a step counter that a module holds causes a recompile at every step.",
        {
            "false": "specialized: a recompile for each value",
            "true": "dynamic once they have changed",
        },
    ),
    "dynamo.force_parameter_static_shapes": OptionWords(
        "Specializes the shapes of parameters.",
        "",
        {"true": "specialized", "false": "they can be dynamic"},
    ),
    "dynamo.prefer_deferred_runtime_asserts_over_guards": OptionWords(
        "Checks conditions on sizes while running instead of guarding on them.",
        "",
        {
            "false": "a guard: other sizes recompile",
            "true": "an assertion in the graph: other sizes raise",
        },
    ),
}

GUARDS: dict[str, OptionWords] = {
    "dynamo.guard_nn_modules": OptionWords(
        "Checks attributes of modules at each call.",
        "",
        {
            "true": "a change of an attribute recompiles",
            "false": "modules are taken for unchanging: a change is not noticed",
        },
    ),
    "dynamo.inline_inbuilt_nn_modules": OptionWords(
        "Traces into torch's own modules, with their parameters as inputs of the graph.",
        "Newer releases always do; setting it then has no effect.",
    ),
    "dynamo.skip_nnmodule_hook_guards": OptionWords(
        "Leaves out checks for hooks on modules.",
        "",
        {
            "true": "hooks added or removed later are not noticed",
            "false": "they recompile, at a check for each module",
        },
    ),
    "dynamo.skip_no_tensor_aliasing_guards_on_parameters": OptionWords(
        "Leaves out checks that two parameters are not one tensor.",
        "",
        {
            "true": "a tensor passed for two parameters later gives wrong results",
            "false": "it recompiles",
        },
    ),
    "dynamo.skip_tensor_guards_with_matching_dict_tags": OptionWords(
        "Leaves out checks of tensors in a dict that has not changed.",
        "",
        {"true": "cheaper calls", "false": "always checked"},
    ),
    "dynamo.skip_guards_on_constant_func_defaults": OptionWords(
        "Leaves out checks of constant default arguments.",
        "",
        {"false": "checked", "true": "a change is not noticed"},
    ),
    "dynamo.use_recursive_dict_tags_for_guards": OptionWords(
        "Looks into a module's attributes only when its dicts have been written to.",
        "Cheaper calls of deeply nested modules. fx-explorer ledger --try measures it.",
        {"false": "each attribute is checked", "true": "unchanged modules are passed over"},
    ),
    "dynamo.use_lamba_guard_for_object_aliasing": OptionWords(
        "Checks in Python, not in C++, which inputs are the same object.",
        "It lets dynamo.use_recursive_dict_tags_for_guards pass over more.",
        {"true": "one check in Python for all", "false": "checks in C++"},
    ),
    "dynamo.enable_cpp_symbolic_shape_guards": OptionWords(
        "Checks relations between dynamic sizes in C++.",
        "The check is built by a C++ compiler, so compiling takes longer.",
        {"false": "in Python", "true": "in C++"},
    ),
}

FUSION: dict[str, OptionWords] = {
    "inductor.max_fusion_size": OptionWords(
        "How many operations may go into one kernel.",
        "Large kernels compile longer and may run out of registers.",
    ),
    "inductor.epilogue_fusion": OptionWords(
        "Fuses what follows a matrix product into its kernel.",
        "Where the product is a template (max_autotune).",
    ),
    "inductor.prologue_fusion": OptionWords(
        "Fuses what comes before a matrix product into its kernel.",
        "Where the product is a template (max_autotune).",
    ),
    "inductor.aggressive_fusion": OptionWords(
        "Also fuses kernels that share no input.",
        "",
        {"false": "only what saves memory traffic", "true": "any"},
    ),
    "inductor.max_autotune": OptionWords(
        "Times several versions of matrix products and convolutions, and takes the fastest.",
        "Compiles much longer.",
    ),
    "inductor.coordinate_descent_tuning": OptionWords(
        "Tunes block sizes of each Triton kernel further, by running it.", "Compiles longer."
    ),
    "inductor.freezing": OptionWords(
        "Makes parameters constants and computes with them while compiling.",
        "For inference: weights cannot change afterwards.",
    ),
    "inductor.emulate_precision_casts": OptionWords(
        "Rounding of float16 and bfloat16 between fused operations, as in eager mode.",
        "A kernel computes them in float32 and rounds what it stores: mostly more exact, and not "
        "bit for bit what eager mode computes.",
        {"false": "rounds what is stored", "true": "rounds after each operation"},
    ),
    "functorch.activation_memory_budget": OptionWords(
        "How much the forward may save for the backward, as a part of the default.",
        "1.0 saves as much as makes the run fastest. 0.0 saves nothing: the backward recomputes "
        "everything, as if all were checkpointed.",
    ),
}

GROUPS: dict[str, dict[str, OptionWords]] = {
    "arguments of torch.compile": ARGUMENTS,
    "stance": THE_STANCE,
    "graph breaks": BREAKS,
    "recompiles": RECOMPILES,
    "dynamic sizes": SIZES,
    "guards": GUARDS,
    "fusion and memory": FUSION,
}
"""Subject → its options, in the order they are shown."""

WORDS: dict[str, OptionWords] = {
    name: words for group in GROUPS.values() for name, words in group.items()
}
