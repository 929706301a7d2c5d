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
        "Use it to detect a graph break instead of running with it. While it is on, Dynamo also "
        "captures .item() and operations with dynamic output (capture_scalar_outputs, "
        "capture_dynamic_output_shape_ops), so some breaks disappear.",
        {
            "false": (
                "at a graph break, run that code in eager mode, and compile the following code"
            ),
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
        "The compiler of the graphs that Dynamo has captured.",
        "To find the faulty part, try eager, aot_eager and inductor in turn: the first one that "
        "fails or differs contains the fault.",
        {
            '"inductor"': "generates fused kernels (Triton, C++): the default",
            '"eager"': "runs Dynamo's graph with PyTorch's operators: tests Dynamo alone",
            '"aot_eager"': (
                "runs AOTAutograd's graphs with PyTorch's operators: tests Dynamo and autograd"
            ),
            '"aot_eager_decomp_partition"': "like aot_eager, with Inductor's decompositions and "
            "partitioner",
            '"regional_inductor"': (
                "Inductor for regions marked with annotate, eager mode for the rest"
            ),
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
                "times several versions of matrix products and convolutions, with CUDA graphs: "
                "compiling takes long"
            ),
            '"max-autotune-no-cudagraphs"': "max-autotune without CUDA graphs",
            '"lite"': (
                "every operation calls its library kernel unless it is marked: compiles fast, but "
                "fuses nothing by itself"
            ),
        },
    ),
    "compile.options": OptionWords(
        "Options of Inductor for this call of torch.compile only. Excludes mode.",
        "A dict of entries of torch._inductor.config, as for --option K=V. The entry "
        "guard_filter_fn, which every backend accepts, is a function that chooses the guards to "
        "keep.",
        {"null": "what torch._inductor.config has"},
    ),
    "compile.disable": OptionWords(
        "Makes this torch.compile do nothing.",
        "For tests: everything runs in eager mode, without a graph.",
        {"false": "compile", "true": "return the function unchanged"},
    ),
    "compile.recompile_limit": OptionWords(
        "Maximum number of versions of a function that this call of torch.compile may make.",
        "Beyond the limit, the function runs in eager mode for new inputs; with fullgraph=True it "
        "raises.",
        {"null": "torch._dynamo.config.recompile_limit"},
    ),
    "compile.isolate_recompiles": OptionWords(
        "Whether this call of torch.compile counts its recompiles separately.",
        "Without it, several calls of torch.compile on one function share their compiled versions "
        "and the limit.",
        {"false": "shared with other calls on the same function", "true": "counted and kept apart"},
    ),
}

THE_STANCE: dict[str, OptionWords] = {
    STANCE: OptionWords(
        "What compiled functions do when they are called: torch.compiler.set_stance.",
        "Applies to the whole process, at run time, without changing compiled code. --stance sets "
        "it from the start. Rules for recompiles then apply to first compiles, too. Therefore a "
        "target that is not a script is first called without it. With the two stances that end "
        "with then_compile, the target is called twice.",
        {
            '"default"': "compile what is not compiled yet",
            '"force_eager"': "ignore torch.compile: everything runs in eager mode",
            '"eager_on_recompile"': "use compiled code; run in eager mode where compiling would "
            "be needed",
            '"fail_on_recompile"': "use compiled code; raise where compiling would be needed",
            '"eager_then_compile"': (
                "first call in eager mode, compiled from the second call on: sizes that changed "
                "are dynamic at once"
            ),
            '"aot_eager_then_compile"': (
                "first call with aot_eager, compiled from the second call on: the same, with less "
                "memory"
            ),
        },
    ),
}

BREAKS: dict[str, OptionWords] = {
    "dynamo.capture_scalar_outputs": OptionWords(
        "Captures .item() and float(tensor) in the graph instead of breaking.",
        "The number is unknown at compile time: a branch on it still breaks.",
        {"false": "a graph break at each", "true": "captured as a symbol"},
    ),
    "dynamo.capture_dynamic_output_shape_ops": OptionWords(
        "Captures nonzero, unique and masks instead of breaking.",
        "Their output size depends on values, and becomes a symbol. Usually used together with "
        "capture_scalar_outputs.",
        {"false": "a graph break at each", "true": "captured, and the size becomes a symbol"},
    ),
    "dynamo.nested_graph_breaks": OptionWords(
        "Which function is split by a graph break inside an inlined function.",
        "",
        {
            "false": "the caller breaks at the call, the function is compiled separately",
            "true": "the inlined function breaks",
        },
    ),
    "dynamo.suppress_errors": OptionWords(
        "Runs in eager mode if the compiler fails.",
        "Hides errors: it is easy to miss that a function was not compiled. Excludes "
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
        "Maximum number of versions of one function.",
        "Beyond the limit, the function runs in eager mode whenever no version fits.",
    ),
    "dynamo.accumulated_recompile_limit": OptionWords(
        "Maximum number of versions of one code object over all its instances.",
        "Many instances of a module share the code of forward, and so this limit.",
    ),
    "dynamo.error_on_recompile": OptionWords(
        "Raises as soon as a function is compiled a second time.",
        "The stance fail_on_recompile does the same, from any moment on.",
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
        "While a function compiles, torch.compile(dynamic=True) sets it to false, and "
        "dynamic=False sets it to true.",
        {
            "true": "specialized, except for mark_dynamic and sizes that have changed",
            "false": "dynamic",
        },
    ),
    "dynamo.automatic_dynamic_shapes": OptionWords(
        "Makes a size dynamic once it has changed.",
        "dynamic=False of torch.compile sets it to false while a function compiles.",
        {
            "true": "the second value of a size costs a recompile, further ones do not",
            "false": "every value costs one",
        },
    ),
    "dynamo.specialize_int": OptionWords(
        "Specializes integers that are passed in.",
        "0 and 1 are always specialized.",
        {"false": "dynamic once they have changed", "true": "a recompile for each value"},
    ),
    "dynamo.specialize_float": OptionWords(
        "Specializes floats that are passed in.",
        "",
        {"false": "passed in as a tensor", "true": "a recompile for each value"},
    ),
    "dynamo.allow_unspec_int_on_nn_module": OptionWords(
        "Allows integers that are module attributes to be dynamic.",
        "Without it, a step counter in a module causes a recompile at every step.",
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
        "Checks conditions on sizes at run time instead of guarding on them.",
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
            "false": "modules are assumed not to change: a change is not noticed",
        },
    ),
    "dynamo.inline_inbuilt_nn_modules": OptionWords(
        "Traces into torch's own modules, with their parameters as inputs of the graph.",
        "Newer releases always do this; setting it then has no effect.",
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
        "Leaves out the check that two parameters are not the same tensor.",
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
        "Checks a module's attributes only if its dicts have been written to.",
        "Makes calls of deeply nested modules cheaper. fx-explorer ledger --try measures it.",
        {"false": "each attribute is checked", "true": "unchanged modules are passed over"},
    ),
    "dynamo.use_lamba_guard_for_object_aliasing": OptionWords(
        "Checks in Python, not in C++, which inputs are the same object.",
        "It lets dynamo.use_recursive_dict_tags_for_guards skip more checks.",
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
        "Maximum number of operations in one kernel.",
        "Large kernels compile longer and may run out of registers.",
    ),
    "inductor.epilogue_fusion": OptionWords(
        "Fuses the operations after a matrix product into its kernel.",
        "Works if the product is a template (max_autotune).",
    ),
    "inductor.prologue_fusion": OptionWords(
        "Fuses the operations before a matrix product into its kernel.",
        "Works if the product is a template (max_autotune).",
    ),
    "inductor.aggressive_fusion": OptionWords(
        "Also fuses kernels that share no input.",
        "",
        {"false": "only what saves memory traffic", "true": "any"},
    ),
    "inductor.max_autotune": OptionWords(
        "Times several versions of matrix products and convolutions, and uses the fastest.",
        "Compiles much longer.",
    ),
    "inductor.coordinate_descent_tuning": OptionWords(
        "Tunes block sizes of each Triton kernel further, by running it.", "Compiles longer."
    ),
    "inductor.freezing": OptionWords(
        "Turns parameters into constants and computes with them at compile time.",
        "For inference: weights cannot change afterwards.",
    ),
    "inductor.emulate_precision_casts": OptionWords(
        "Rounds to float16 and bfloat16 between fused operations, like eager mode.",
        "Without it, a kernel computes in float32 and rounds what it stores: usually more exact, "
        "but not bit for bit equal to eager mode.",
        {"false": "rounds what is stored", "true": "rounds after each operation"},
    ),
    "functorch.activation_memory_budget": OptionWords(
        "How much the forward may save for the backward, as a fraction of the default.",
        "1.0 saves what makes the run fastest. 0.0 saves nothing: the backward recomputes "
        "everything, as with full checkpointing.",
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
