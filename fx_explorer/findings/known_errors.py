"""Errors of torch.compile that are known: what each means, whose fault it is, and what to do.

Each entry was read in PyTorch's source, which it names, or in its documentation. The first whose
pattern matches counts, so the more exact stand above the more general.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from fx_explorer.findings.finding import Remedy

Fault = Literal["yours", "torch", "machine", "unknown"]

FAULT_WORDS: dict[Fault, str] = {
    "yours": "The cause is in the program.",
    "torch": "This is a PyTorch bug, not an error in the program.",
    "machine": "The cause is this machine's installation, not the program.",
    "unknown": "",
}


@dataclass(frozen=True, slots=True)
class KnownError:
    pattern: re.Pattern[str]
    """Matches the error's class and message, or torch's traceback."""
    fault: Fault
    explanation: str
    remedies: tuple[str, ...]
    source: str
    """Where PyTorch raises or describes it."""


def _known(pattern: str, fault: Fault, explanation: str, *remedies: str, source: str) -> KnownError:
    return KnownError(re.compile(pattern), fault, explanation, remedies, source)


GRADIENT_OVERWRITTEN = (
    "The first backward put a gradient into memory of a CUDA graph, and a later run overwrote it; "
    "this happens when gradients are accumulated over several calls."
)

KEEP_GRADIENTS = (
    "If gradients are not accumulated, call optimizer.zero_grad(), which sets them to None, "
    "before each backward.",
    "If they are accumulated, give each parameter a gradient before the first compiled backward: "
    "parameter.grad = torch.zeros_like(parameter), and optimizer.zero_grad(set_to_none=False).",
)

KNOWN_ERRORS: tuple[KnownError, ...] = (
    _known(
        r"checkpoint not implemented for [^\n]{1,300} context_fn",
        "yours",
        "Dynamo accepts the context_fn of torch.utils.checkpoint.checkpoint only if it is a "
        "function that exists before the call, or a functools.partial of one. A lambda or "
        "function that the compiled code creates is not accepted.",
        "Give context_fn=functools.partial(create_selective_checkpoint_contexts, policy), with "
        "the policy defined at the top level of a module.",
        source="torch/_dynamo/variables/higher_order_ops.py, CheckpointHigherOrderVariable",
    ),
    _known(
        r"symbol_to_source\[symbol\]\[0\]",
        "torch",
        "Everything was compiled; the error was raised when torch wrote the guards. A size that "
        "is created inside the compiled function, such as the jagged size of a nested tensor, "
        "belongs to no input, but torch looks for the input.",
        "Make the nested tensor before the call, and pass it to the compiled function.",
        "Apply the operation to the plain values before the nested tensor is made from them.",
        source="torch/fx/experimental/symbolic_shapes.py, produce_guards_verbose",
    ),
    _known(
        r"does not yet handle non-differentiable view input mutations",
        "torch",
        "The graph writes into one of two inputs that share memory, and autograd does not know "
        "that one is a view of the other (as with detach(), .data or nn.Parameter(x)). "
        "AOTAutograd does not support that. A graph break between the two lines turns values "
        "inside a graph into inputs.",
        "If the two need not share memory, clone() one: a write to one then no longer changes the "
        "other, as it does in eager mode.",
        "Make both tensors outside of the compiled function, or move the write out of it.",
        source="torch/_functorch/_aot_autograd/runtime_wrappers.py, merge_view_inputs",
    ),
    _known(
        r"sourceless builder[^\n]{0,300}<class 'method'>",
        "torch",
        "Dynamo cannot trace a decorated method, such as one below torch.no_grad(), if its object "
        "is created inside the compiled function.",
        "Write with torch.no_grad(): inside the method instead of the decorator.",
        "Create the object before the call, outside of the compiled function.",
        source="torch/_dynamo/variables/builder.py, SourcelessBuilder",
    ),
    _known(
        r"InvalidCxxCompiler|No working C\+\+ compiler found",
        "machine",
        "Inductor compiles C++ for the CPU, and for the code that launches kernels, but found no "
        "compiler.",
        "Install a C++ compiler (Debian, Ubuntu: apt-get install g++), or set the variable CXX to "
        "the path of one.",
        'Without a compiler: torch.compile(…, backend="aot_eager") needs none, but fuses nothing.',
        source="torch/_inductor/cpp_builder.py, get_cpp_compiler",
    ),
    _known(
        r"TritonMissing|Cannot find a working triton installation",
        "machine",
        "Inductor writes kernels for the GPU in Triton, and Triton cannot be imported.",
        "Install the Triton version that this torch requires (pip check names it); on Windows, "
        "the package triton-windows.",
        source="torch/_inductor/exc.py, TritonMissing",
    ),
    _known(
        r"GPUTooOldForTriton",
        "machine",
        "Triton no longer supports this GPU: it needs compute capability 7.0 or newer.",
        'Use torch.compile(…, backend="aot_eager"), which needs no Triton but fuses nothing.',
        source="torch/_inductor/exc.py, GPUTooOldForTriton",
    ),
    _known(
        r"CppCompileError",
        "torch",
        "Inductor wrote C++ code that the compiler rejects. The compiler's own message is in the "
        "traceback.",
        "Update the compiler and torch, and report it to PyTorch with the traceback.",
        source="torch/_inductor/exc.py, CppCompileError",
    ),
    _known(
        r"OutOfResources|out of resource: shared memory",
        "torch",
        "A Triton kernel needs more shared memory or registers than the GPU has.",
        "Report it to PyTorch with the kernel. If it is your own kernel: use smaller blocks, or "
        "fewer num_stages.",
        source="triton/runtime/errors.py, OutOfResources",
    ),
    _known(
        r"ConstraintViolationError|Constraints violated",
        "yours",
        "A size was marked as dynamic (mark_dynamic, or dynamic_shapes of export), but the code "
        "specializes it.",
        "Use torch._dynamo.maybe_mark_dynamic instead of mark_dynamic, and torch.export.Dim.AUTO "
        "in dynamic_shapes: the size is then specialized without an error.",
        "Remove the code that needs the number.",
        source="torch/fx/experimental/symbolic_shapes.py, ConstraintViolationError",
    ),
    _known(
        r"GuardOnDataDependentSymNode|Could not guard on data-dependent expression",
        "yours",
        "The code branches on a number from a tensor (.item(), nonzero), whose value is unknown "
        "at compile time.",
        "State the condition that holds with torch._check(condition) before the branch.",
        "Use torch.where or torch.cond instead of the Python branch.",
        source="torch/fx/experimental/symbolic_shapes.py, GuardOnDataDependentSymNode",
    ),
    _known(
        r"DynamicOutputShapeException|Exception: ?aten\.nonzero\b",
        "yours",
        "The size of an operator's result depends on the values of a tensor, as with a boolean "
        "mask, so it is unknown at compile time.",
        "Set torch._dynamo.config.capture_dynamic_output_shape_ops = True: such a size is then "
        "part of the graph.",
        source="torch/_subclasses/fake_tensor.py, DynamicOutputShapeException",
    ),
    _known(
        r"_local_scalar_dense[^\n]{0,200}while executing setitem",
        "yours",
        "The index in x[index] = value is a tensor without dimensions. Such an index is treated "
        "as a number, which is unknown at compile time.",
        "Give both the index and the value a dimension: x[:, index.view(1)] = value.unsqueeze(1).",
        "x.index_copy_(1, index.view(1), value.unsqueeze(1)) does the same.",
        source="torch/_subclasses/fake_impls.py, local_scalar_dense",
    ),
    _known(
        r"DataDependentOutputException|_local_scalar_dense",
        "yours",
        "The result of an operator is a number that depends on the values of a tensor, so it is "
        "unknown at compile time.",
        "Set torch._dynamo.config.capture_scalar_outputs = True: such a number is then part of the "
        "graph.",
        source="torch/_subclasses/fake_tensor.py, DataDependentOutputException",
    ),
    _known(
        r"no fake impl registered|does not have a fake impl|UnsupportedOperatorException",
        "yours",
        "A custom operator has no function that returns the shape of its result, which compiling "
        "needs.",
        "Register one: @torch.library.register_fake('NAMESPACE::NAME').",
        source="torch/_library/fake_impl.py",
    ),
    _known(
        r"data pointer of (?:a )?(?:Fake|Functional)?Tensor|Cannot access data pointer",
        "yours",
        "Code outside of PyTorch's operators (a C++ extension, NumPy) tried to read the memory of "
        "a tensor, but tensors have only shapes at compile time.",
        "Wrap the call in a custom operator (torch.library.custom_op), or exclude it with "
        "torch.compiler.disable.",
        source="torch/_subclasses/fake_tensor.py",
    ),
    _known(
        r"Please convert all Tensors to FakeTensors first",
        "yours",
        "The code was traced with fake tensors, but used a real tensor: often a global, or one in "
        "an object that Dynamo does not trace.",
        "Pass the tensor as an argument, or register it as a buffer of the module.",
        source="torch/_subclasses/fake_tensor.py, validate_and_convert_non_fake_tensors",
    ),
    _known(
        r"accessing gradient tensor output of CUDAGraphs",
        "yours",
        GRADIENT_OVERWRITTEN,
        *KEEP_GRADIENTS,
        source="torch/_inductor/cudagraph_trees.py, format_dealloc_msg",
    ),
    _known(
        r"overwritten by a subsequent run",
        "yours",
        "The output of a CUDA graph was read after a later run overwrote it: all runs of a graph "
        "share the same memory.",
        "Call torch.compiler.cudagraph_mark_step_begin() before each step, or clone() results "
        "that you keep.",
        source="torch/_inductor/cudagraph_trees.py",
    ),
    _known(
        r"FX to symbolically trace a dynamo-optimized function",
        "yours",
        "A compiled object (returned by torch.compile) is traced again by torch.fx "
        "(symbolic_trace, quantization, export).",
        "Trace the model itself, and compile the result.",
        source="torch/_dynamo/eval_frame.py, _TorchDynamoContext",
    ),
    _known(
        r"FailOnRecompileLimitHit",
        "yours",
        "The function was compiled as often as torch._dynamo.config.recompile_limit allows, and "
        "fullgraph=True or fail_on_recompile_limit_hit makes that an error.",
        "See what changes from call to call (the recompiles), or raise the limit.",
        source="torch/_dynamo/exc.py, FailOnRecompileLimitHit",
    ),
    _known(
        r"TorchRuntimeError|Dynamo failed to run FX node with fake tensors",
        "yours",
        "An operator raised an error for tensors of these shapes and dtypes. It usually raises "
        "without torch.compile as well.",
        source="torch/_dynamo/utils.py, get_fake_value",
    ),
    _known(
        r"\bUserError\b",
        "yours",
        "torch.compile was used in a way that its documentation forbids; the message says which.",
        source="torch/_dynamo/exc.py, UserError",
    ),
    _known(
        r"not supported on Python|Python 3\.\d+ (?:and|or) (?:above|later)",
        "machine",
        "This release of torch cannot compile under this release of Python.",
        "Use a Python that torch supports: RELEASE.md of github.com/pytorch/pytorch has the table.",
        source="torch/_dynamo/eval_frame.py, check_if_dynamo_supported",
    ),
    _known(
        r"No space left on device|Disk quota exceeded|Read-only file system",
        "machine",
        "torch writes compiled code into a folder that is full or cannot be written.",
        "Set TORCHINDUCTOR_CACHE_DIR to a folder with room.",
        source="torch/_inductor/runtime/cache_dir_utils.py",
    ),
    _known(
        r"out of memory|OutOfMemoryError",
        "machine",
        "The device ran out of memory.",
        "See fx-explorer memory TARGET: the peak memory of a step, and what takes it.",
        source="torch.OutOfMemoryError",
    ),
    _known(
        r"INTERNAL ASSERT FAILED|InternalTorchDynamoError|LoweringException|AssertionError",
        "torch",
        "torch.compile failed with an internal error.",
        "Report it: github.com/pytorch/pytorch/issues, with the traceback (key: the failure's "
        "document).",
        source="torch/_dynamo/exc.py, InternalTorchDynamoError",
    ),
)


_OPTION = re.compile(r"torch\._dynamo\.config\.(?P<name>\w+)`?(?: ?= ?| to `?)True\b")
"""Matches an option in a text: ``torch._dynamo.config.capture_scalar_outputs = True``."""


def as_remedy(text: str) -> Remedy:
    """Return a text as a remedy, which a trial can make where it names an option of Dynamo's."""
    option = _OPTION.search(text)
    changes = {"settings": {f"dynamo.{option['name']}": True}} if option else {}
    return Remedy(text, changes=changes)


def option_in(text: str) -> str:
    """Return the name of the option of Dynamo's that a text would have set; empty without one."""
    option = _OPTION.search(text)
    return option["name"] if option else ""


def known_error(text: str) -> KnownError | None:
    """Return the entry for an error's class, message and traceback; None for one not known."""
    for error in KNOWN_ERRORS:
        if error.pattern.search(text):
            return error
    return None
