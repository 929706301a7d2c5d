"""What torch's timed phases are, in the user's words. torch's own names are those of its functions."""

from __future__ import annotations

_WORDS: dict[str, str] = {
    "dynamo": "Dynamo",
    "entire_frame_compile": "compiling the function",
    "_compile.compile_inner": "compiling the function",
    "insert_deferred_runtime_asserts": "checks of sizes in the graph",
    "entire_backward_compile": "compiling the backward",
    "bytecode_tracing": "tracing your Python code",
    "build_guards": "making the guards",
    "gc": "collecting garbage",
    "backend_compile": "the backend",
    "OutputGraph.call_user_compiler": "the backend",
    "_recursive_pre_grad_passes": "passes before autograd",
    "create_aot_dispatcher_function": "AOTAutograd",
    "aot_collect_metadata": "finding outputs and changes in place",
    "aot_trace_joint_graph": "tracing forward and backward",
    "aot_trace_inference_graph": "tracing the forward",
    "_recursive_joint_graph_passes": "passes on forward and backward together",
    "min_cut_rematerialization_partition": "choosing what is saved for the backward",
    "compile_fx.<locals>.fw_compiler_base": "Inductor, forward",
    "compile_fx.<locals>.fw_compiler_freezing": "Inductor, forward",
    "compile_fx.<locals>.bw_compiler": "Inductor, backward",
    "compile_fx_inner": "Inductor",
    "inductor_compile": "Inductor",
    "fx_codegen_and_compile": "from the graph to code",
    "additional_fake_tensor_prop": "finding shapes and strides",
    "_recursive_post_grad_passes": "passes on the final graph",
    "GraphLowering.run": "lowering",
    "GraphLowering.codegen": "writing the code",
    "GraphLowering.compile_to_fn": "making a function of the code",
    "GraphLowering.compile_to_module": "loading the code",
    "CacheBase.get_system.triton_key": "reading Triton's own files, for its version",
    "code_gen": "writing the code",
    "Scheduler.__init__": "planning kernels",
    "Scheduler.fused_nodes": "fusing",
    "Scheduler.codegen": "writing kernels",
    "PythonWrapperCodegen.generate": "writing the wrapper around kernels",
    "async_compile.wait": "waiting for kernels that are built",
    "compile_file": "building a C++ kernel",
    "PyCodeCache.load_by_key_path": "loading the code",
}

_PASS, _ATTEMPT = "pass.", "compile_attempt_"


def phase_in_words(name: str) -> str:
    """Return ``lowering`` for ``GraphLowering.run``; torch's own name for one that has no words."""
    if name.startswith(_PASS):
        return f"pass {name.removeprefix(_PASS)}"
    attempt = name.removeprefix(_ATTEMPT)
    if attempt.isdecimal() and attempt != name:
        return f"attempt {int(attempt) + 1}"
    return _WORDS.get(name, name)


KINDS_IN_WORDS: dict[str, str] = {
    "call": "everything that was timed",
    "thread": "threads of your program",
    "function": "functions that were compiled",
    "dynamo": "reading your Python code (Dynamo)",
    "pre_grad": "passes before autograd",
    "joint": "tracing forward and backward (AOTAutograd)",
    "forward": "the forward graph (AOTAutograd)",
    "backward": "the backward graph (AOTAutograd)",
    "backend": "the backend's own work",
    "post_grad": "passes on the final graphs (Inductor)",
    "schedule": "lowering and fusing (Inductor)",
    "output_code": "writing code (Inductor)",
    "kernel": "building kernels",
    "other": "elsewhere",
    "module": "your modules",
    "line": "your lines",
}
"""What the frames of each kind are, in the order of a compilation."""
