"""What a fork server imports while nobody asks anything of it: modules of torch that it imports in
the course of a process's first compilation. A later fork finds them there.

Nothing of torch's compiler is called but ``triton_key``, which reads Triton's own files for their
digest and keeps it for the life of a process. What depends on options or devices (Inductor's
patterns, the list of vector instructions) is left to the worker.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable

from fx_explorer.program.usable_torch import importing_the_compiler

MODULES = (
    "torch._dynamo.backends.cudagraphs",
    "torch._dynamo.backends.distributed",
    "torch._dynamo.backends.onnxrt",
    "torch._dynamo.backends.tensorrt",
    "torch._dynamo.backends.torchxla",
    "torch._dynamo.backends.tvm",
    "torch._dynamo.dce_extra_outputs",
    "torch._dynamo.repro.after_dynamo",
    "torch._export.passes._node_metadata_hook",
    "torch._functorch._aot_autograd.subclass_codegen",
    "torch._higher_order_ops.passes.inline_invoke_subgraph",
    "torch._inductor.bounds",
    "torch._inductor.codegen.cpp_wrapper_cpu_array_ref",
    "torch._inductor.codegen.cpp_wrapper_gpu",
    "torch._inductor.codegen.cpp_wrapper_mps",
    "torch._inductor.codegen.cpu_device_op_overrides",
    "torch._inductor.codegen.cuda.device_op_overrides",
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch._inductor.codegen.halide",
    "torch._inductor.codegen.memory_planning",
    "torch._inductor.codegen.mps",
    "torch._inductor.codegen.mps_device_op_overrides",
    "torch._inductor.codegen.mtia.device_op_overrides",
    "torch._inductor.codegen.pallas",
    "torch._inductor.codegen.python_wrapper_mtia",
    "torch._inductor.codegen.segmented_tree",
    "torch._inductor.codegen.wrapper_fxir",
    "torch._inductor.codegen.xpu.device_op_overrides",
    "torch._inductor.codegen.xpu.xpu_combined_scheduling",
    "torch._inductor.compiler_bisector",
    "torch._inductor.extern_node_serializer",
    "torch._inductor.fx_passes.apply_gumbel_max_trick",
    "torch._inductor.fx_passes.efficient_conv_bn_eval",
    "torch._inductor.fx_passes.freezing_patterns",
    "torch._inductor.fx_passes.fuse_attention",
    "torch._inductor.fx_passes.mkldnn_fusion",
    "torch._inductor.fx_passes.pad_mm",
    "torch._inductor.fx_passes.quantization",
    "torch._inductor.hooks",
    "torch._inductor.runtime.caching",
    "torch._subclasses.schema_check_mode",
    "torch.distributed.tensor.experimental",
    "torch.fx.experimental.validator",
    "torch.utils._cxx_pytree",
    "multiprocessing.synchronize",
    "sympy.physics.matrices",
    "sympy.physics.units.systems",
)
"""Read in torch 2.13; one that a release lacks is left out."""

PATTERNS = "torch._inductor.fx_passes.serialized_patterns"
"""A package with a module for each pattern of attention and matrix products."""


def steps() -> list[Callable[[], object]]:
    """Return what is to be done, in steps of some milliseconds each; the last takes half a second.
    A step raises BrokenTorch when a module is there and cannot be imported.
    """
    modules = [*MODULES, *_modules_of_patterns()]
    imports = [functools.partial(_import, name) for name in modules]
    return [*imports, _read_tritons_files]


def _modules_of_patterns() -> list[str]:
    package = _import(PATTERNS)
    folders = getattr(package, "__path__", ())
    return [f"{PATTERNS}.{module.name}" for module in pkgutil.iter_modules(folders)]


def _import(name: str) -> object:
    """Return a module; None where this release lacks it."""
    with importing_the_compiler():
        try:
            return importlib.import_module(name)
        except ImportError:
            return None


def _read_tritons_files() -> None:
    triton_key = getattr(_import("torch._inductor.codecache"), "triton_key", None)
    if triton_key is not None:
        triton_key()
