"""This table has every private name of torch's that our code imports, each with its module.

``from fx_explorer.capture.torch_compat.private_names import OutputGraph`` looks for that one name.
A release without it costs only what asks for it: the ImportError says what is missing. No other
file imports a private name of torch's.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    import torch._C._dynamo.eval_frame
    import torch._dynamo
    import torch._dynamo.backends.common
    import torch._dynamo.backends.registry
    import torch._dynamo.exc
    import torch._dynamo.guards
    import torch._dynamo.utils
    import torch._dynamo.variables
    import torch._dynamo.variables.base
    import torch._dynamo.variables.dicts
    import torch._dynamo.variables.invoke_subgraph
    import torch._functorch.aot_autograd
    import torch._guards
    import torch._inductor
    import torch._inductor.codegen.cpp
    import torch._inductor.decomposition
    import torch._inductor.exc
    import torch._inductor.fx_passes.joint_graph
    import torch._inductor.fx_passes.post_grad
    import torch._inductor.fx_passes.pre_grad
    import torch._inductor.ir
    import torch._inductor.lowering
    import torch._inductor.pattern_matcher
    import torch._inductor.scheduler
    import torch._logging._internal
    import torch.utils._python_dispatch
    from torch import _fused_sdp_choice as _fused_sdp_choice
    from torch import _TorchCompileInductorWrapper as _TorchCompileInductorWrapper
    from torch._C import DisableTorchFunction as DisableTorchFunction
    from torch._C import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
    from torch._C import DispatchKey as DispatchKey
    from torch._C import _current_autograd_node as _current_autograd_node
    from torch._C import _get_mkldnn_enabled as _get_mkldnn_enabled
    from torch._C._dynamo.guards import GlobalStateGuard as GlobalStateGuard
    from torch._C._dynamo.guards import RootGuardManager as RootGuardManager
    from torch._C._dynamo.guards import (  # type: ignore[attr-defined]
        _reinterpret_tensor as _reinterpret_tensor,
    )
    from torch._dynamo import OptimizedModule as OptimizedModule
    from torch._dynamo import aot_compile as aot_compile
    from torch._dynamo import compiled_autograd as compiled_autograd
    from torch._dynamo import convert_frame as convert_frame
    from torch._dynamo import decorators as decorators
    from torch._dynamo import eval_frame as eval_frame
    from torch._dynamo import mark_dynamic as mark_dynamic
    from torch._dynamo import output_graph as output_graph
    from torch._dynamo import side_effects as side_effects
    from torch._dynamo import symbolic_convert as symbolic_convert
    from torch._dynamo import trace_rules as trace_rules
    from torch._dynamo.backends.common import aot_autograd as aot_autograd
    from torch._dynamo.backends.registry import register_backend as register_backend
    from torch._dynamo.bytecode_transformation import (
        InstructionExnTabEntry as InstructionExnTabEntry,
    )
    from torch._dynamo.bytecode_transformation import add_push_null as add_push_null
    from torch._dynamo.bytecode_transformation import create_call_function as create_call_function
    from torch._dynamo.bytecode_transformation import create_instruction as create_instruction
    from torch._dynamo.bytecode_transformation import create_load_const as create_load_const
    from torch._dynamo.bytecode_transformation import transform_code_object as transform_code_object
    from torch._dynamo.callback import CompilationCallbackHandler as CompilationCallbackHandler
    from torch._dynamo.callback import callback_handler as callback_handler
    from torch._dynamo.convert_frame import _get_frame as _get_frame
    from torch._dynamo.convert_frame import get_traced_fn as get_traced_fn
    from torch._dynamo.convert_frame import register_bytecode_hook as register_bytecode_hook
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list as _debug_get_cache_entry_list
    from torch._dynamo.eval_frame import set_enable_dynamic as set_enable_dynamic
    from torch._dynamo.eval_frame import skip_code as skip_code
    from torch._dynamo.exc import RestartAnalysis as RestartAnalysis
    from torch._dynamo.exc import TensorifyScalarRestartAnalysis as TensorifyScalarRestartAnalysis
    from torch._dynamo.exc import UncapturedHigherOrderOpError as UncapturedHigherOrderOpError
    from torch._dynamo.exc import Unsupported as Unsupported
    from torch._dynamo.external_utils import wrap_inline as wrap_inline
    from torch._dynamo.functional_export import (
        create_fx_graph_from_captured_output as create_fx_graph_from_captured_output,
    )
    from torch._dynamo.guards import CheckFunctionManager as CheckFunctionManager
    from torch._dynamo.guards import strip_local_scope as strip_local_scope
    from torch._dynamo.hooks import Hooks as Hooks
    from torch._dynamo.output_graph import OutputGraph as OutputGraph
    from torch._dynamo.output_graph import SubgraphTracer as SubgraphTracer
    from torch._dynamo.resume_execution import ContinueExecutionCache as ContinueExecutionCache
    from torch._dynamo.symbolic_convert import (
        InliningInstructionTranslator as InliningInstructionTranslator,
    )
    from torch._dynamo.symbolic_convert import InstructionTranslator as InstructionTranslator
    from torch._dynamo.symbolic_convert import (
        InstructionTranslatorBase as InstructionTranslatorBase,
    )
    from torch._dynamo.utils import counters as counters
    from torch._dynamo.utils import dynamo_timed as dynamo_timed
    from torch._dynamo.utils import get_compilation_metrics as get_compilation_metrics
    from torch._dynamo.utils import get_metrics_context as get_metrics_context
    from torch._dynamo.variables import ConstDictVariable as ConstDictVariable
    from torch._dynamo.variables import LazyVariableTracker as LazyVariableTracker
    from torch._dynamo.variables import TensorVariable as TensorVariable
    from torch._dynamo.variables.functions import UserFunctionVariable as UserFunctionVariable
    from torch._dynamo.variables.lists import BaseListVariable as BaseListVariable
    from torch._dynamo.variables.lists import TupleVariable as TupleVariable
    from torch._dynamo.variables.torch_function import (
        torch_function_mode_stack_state_mgr as torch_function_mode_stack_state_mgr,
    )
    from torch._functorch import partitioners as partitioners
    from torch._functorch._aot_autograd import graph_compile as graph_compile
    from torch._functorch._aot_autograd.utils import make_boxed_func as make_boxed_func
    from torch._functorch.partitioners import (
        min_cut_rematerialization_partition as min_cut_rematerialization_partition,
    )
    from torch._guards import CompileContext as CompileContext
    from torch._guards import TracingContext as TracingContext
    from torch._guards import compile_context as compile_context
    from torch._guards import detect_fake_mode as detect_fake_mode
    from torch._guards import tracing as tracing
    from torch._inductor import codecache as codecache
    from torch._inductor import compile_fx as compile_fx
    from torch._inductor import compiler_bisector as compiler_bisector
    from torch._inductor import cpp_builder as cpp_builder
    from torch._inductor import cpu_vec_isa as cpu_vec_isa
    from torch._inductor import cudagraph_trees as cudagraph_trees
    from torch._inductor import cudagraph_utils as cudagraph_utils
    from torch._inductor import output_code as output_code
    from torch._inductor import select_algorithm as select_algorithm
    from torch._inductor.async_compile import AsyncCompile as AsyncCompile
    from torch._inductor.codecache import CppPythonBindingsCodeCache as CppPythonBindingsCodeCache
    from torch._inductor.codecache import PyCodeCache as PyCodeCache
    from torch._inductor.codecache import (
        _load_triton_kernel_from_source as _load_triton_kernel_from_source,
    )
    from torch._inductor.codecache import torch_key as torch_key
    from torch._inductor.codegen.common import CSE as CSE
    from torch._inductor.codegen.common import (
        init_backend_registration as init_backend_registration,
    )
    from torch._inductor.codegen.simd import SIMDScheduling as SIMDScheduling
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen as PythonWrapperCodegen
    from torch._inductor.fx_utils import count_flops_fx as count_flops_fx
    from torch._inductor.graph import GraphLowering as GraphLowering
    from torch._inductor.loop_body import InterpreterShim as InterpreterShim
    from torch._inductor.loop_body import LightTracer as LightTracer
    from torch._inductor.output_code import CompiledFxGraph as CompiledFxGraph
    from torch._inductor.runtime import triton_helpers as triton_helpers
    from torch._inductor.runtime import triton_heuristics as triton_heuristics
    from torch._inductor.runtime.compile_tasks import (
        _set_triton_ptxas_path as _set_triton_ptxas_path,
    )
    from torch._inductor.runtime.hints import DeviceProperties as DeviceProperties
    from torch._inductor.runtime.triton_compat import ASTSource as ASTSource
    from torch._inductor.scheduler import BaseScheduling as BaseScheduling
    from torch._inductor.scheduler import Scheduler as Scheduler
    from torch._inductor.select_algorithm import extern_kernels as extern_kernels
    from torch._inductor.utils import DeferredLineBase as DeferredLineBase
    from torch._inductor.utils import IndentedBuffer as IndentedBuffer
    from torch._inductor.utils import LineContext as LineContext
    from torch._inductor.utils import Placeholder as Placeholder
    from torch._inductor.virtualized import V as V
    from torch._logging._internal import trace_log as trace_log
    from torch._logging.structured import INTERN_TABLE as INTERN_TABLE
    from torch._ops import HigherOrderOperator as HigherOrderOperator
    from torch._ops import OpOverload as OpOverload
    from torch._ops import OpOverloadPacket as OpOverloadPacket
    from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
    from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode
    from torch._subclasses.fake_tensor import is_fake as is_fake
    from torch._tensor_str import PRINT_OPTS as PRINT_OPTS
    from torch.autograd import _get_sequence_nr as _get_sequence_nr
    from torch.distributed.distributed_c10d import (
        _resolve_process_group as _resolve_process_group,
    )
    from torch.fx._lazy_graph_module import _LazyGraphModule as _LazyGraphModule
    from torch.fx.passes.graph_transform_observer import (
        GraphTransformObserver as GraphTransformObserver,
    )
    from torch.utils._mode_utils import no_dispatch as no_dispatch
    from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
    from torch.utils._python_dispatch import _disable_current_modes as _disable_current_modes
    from torch.utils._python_dispatch import (
        is_traceable_wrapper_subclass as is_traceable_wrapper_subclass,
    )
    from torch.utils._pytree import tree_flatten as tree_flatten
    from torch.utils._pytree import tree_leaves as tree_leaves
    from torch.utils._pytree import tree_map as tree_map
    from torch.utils._pytree import tree_map_only as tree_map_only
    from torch.utils._pytree import tree_unflatten as tree_unflatten
    from torch.utils._sympy.printers import PythonPrinter as PythonPrinter
    from torch.utils._sympy.symbol import SymT as SymT
    from torch.utils._sympy.symbol import symbol_is_type as symbol_is_type

    compiled_eval_frame = torch._C._dynamo.eval_frame
    dynamo = torch._dynamo
    common_backends = torch._dynamo.backends.common
    backend_registry = torch._dynamo.backends.registry
    dynamo_config: Any
    dynamo_exc = torch._dynamo.exc
    dynamo_guards = torch._dynamo.guards
    dynamo_utils = torch._dynamo.utils
    dynamo_variables = torch._dynamo.variables
    variables_base = torch._dynamo.variables.base
    variables_dicts = torch._dynamo.variables.dicts
    invoke_subgraph = torch._dynamo.variables.invoke_subgraph
    functorch_aot_autograd = torch._functorch.aot_autograd
    functorch_config: Any
    torch_guards = torch._guards
    inductor = torch._inductor
    cpp_codegen = torch._inductor.codegen.cpp
    inductor_config: Any
    inductor_decomposition = torch._inductor.decomposition
    inductor_exc = torch._inductor.exc
    inductor_graph = torch._inductor.graph
    inductor_ir = torch._inductor.ir
    inductor_lowering = torch._inductor.lowering
    inductor_metrics: Any
    inductor_patterns = torch._inductor.pattern_matcher
    inductor_scheduler = torch._inductor.scheduler
    inductor_utils = torch._inductor.utils
    joint_graph = torch._inductor.fx_passes.joint_graph
    post_grad = torch._inductor.fx_passes.post_grad
    pre_grad = torch._inductor.fx_passes.pre_grad
    torch_logging = torch._logging._internal
    python_dispatch = torch.utils._python_dispatch

NAMES: dict[str, tuple[str, ...]] = {
    "torch": ("_TorchCompileInductorWrapper", "_fused_sdp_choice"),
    "torch._C": (
        "DisableTorchFunction",
        "DisableTorchFunctionSubclass",
        "DispatchKey",
        "_current_autograd_node",
        "_get_mkldnn_enabled",
    ),
    "torch._C._dynamo.guards": ("GlobalStateGuard", "RootGuardManager", "_reinterpret_tensor"),
    "torch._dynamo": ("OptimizedModule", "mark_dynamic"),
    "torch._dynamo.backends.common": ("aot_autograd",),
    "torch._dynamo.backends.registry": ("register_backend",),
    "torch._dynamo.bytecode_transformation": (
        "InstructionExnTabEntry",
        "add_push_null",
        "create_call_function",
        "create_instruction",
        "create_load_const",
        "transform_code_object",
    ),
    "torch._dynamo.callback": ("CompilationCallbackHandler", "callback_handler"),
    "torch._dynamo.convert_frame": ("_get_frame", "get_traced_fn", "register_bytecode_hook"),
    "torch._dynamo.eval_frame": ("_debug_get_cache_entry_list", "set_enable_dynamic", "skip_code"),
    "torch._dynamo.exc": (
        "RestartAnalysis",
        "TensorifyScalarRestartAnalysis",
        "UncapturedHigherOrderOpError",
        "Unsupported",
    ),
    "torch._dynamo.external_utils": ("wrap_inline",),
    "torch._dynamo.functional_export": ("create_fx_graph_from_captured_output",),
    "torch._dynamo.guards": ("CheckFunctionManager", "strip_local_scope"),
    "torch._dynamo.hooks": ("Hooks",),
    "torch._dynamo.output_graph": ("OutputGraph", "SubgraphTracer"),
    "torch._dynamo.resume_execution": ("ContinueExecutionCache",),
    "torch._dynamo.symbolic_convert": (
        "InliningInstructionTranslator",
        "InstructionTranslator",
        "InstructionTranslatorBase",
    ),
    "torch._dynamo.utils": (
        "counters",
        "dynamo_timed",
        "get_compilation_metrics",
        "get_metrics_context",
    ),
    "torch._dynamo.variables": ("ConstDictVariable", "LazyVariableTracker", "TensorVariable"),
    "torch._dynamo.variables.functions": ("UserFunctionVariable",),
    "torch._dynamo.variables.lists": ("BaseListVariable", "TupleVariable"),
    "torch._dynamo.variables.torch_function": ("torch_function_mode_stack_state_mgr",),
    "torch._functorch._aot_autograd.utils": ("make_boxed_func",),
    "torch._functorch.partitioners": ("min_cut_rematerialization_partition",),
    "torch._guards": (
        "CompileContext",
        "TracingContext",
        "compile_context",
        "detect_fake_mode",
        "tracing",
    ),
    "torch._inductor.async_compile": ("AsyncCompile",),
    "torch._inductor.codecache": (
        "CppPythonBindingsCodeCache",
        "PyCodeCache",
        "_load_triton_kernel_from_source",
        "torch_key",
    ),
    "torch._inductor.codegen.common": ("CSE", "init_backend_registration"),
    "torch._inductor.codegen.simd": ("SIMDScheduling",),
    "torch._inductor.codegen.wrapper": ("PythonWrapperCodegen",),
    "torch._inductor.fx_utils": ("count_flops_fx",),
    "torch._inductor.graph": ("GraphLowering",),
    "torch._inductor.loop_body": ("InterpreterShim", "LightTracer"),
    "torch._inductor.output_code": ("CompiledFxGraph",),
    "torch._inductor.runtime.compile_tasks": ("_set_triton_ptxas_path",),
    "torch._inductor.runtime.hints": ("DeviceProperties",),
    "torch._inductor.runtime.triton_compat": ("ASTSource",),
    "torch._inductor.scheduler": ("BaseScheduling", "Scheduler"),
    "torch._inductor.select_algorithm": ("extern_kernels",),
    "torch._inductor.utils": ("DeferredLineBase", "IndentedBuffer", "LineContext", "Placeholder"),
    "torch._inductor.virtualized": ("V",),
    "torch.distributed.distributed_c10d": ("_resolve_process_group",),
    "torch._logging._internal": ("trace_log",),
    "torch._logging.structured": ("INTERN_TABLE",),
    "torch._ops": ("HigherOrderOperator", "OpOverload", "OpOverloadPacket"),
    "torch._subclasses.fake_tensor": ("FakeTensor", "FakeTensorMode", "is_fake"),
    "torch._tensor_str": ("PRINT_OPTS",),
    "torch.autograd": ("_get_sequence_nr",),
    "torch.fx._lazy_graph_module": ("_LazyGraphModule",),
    "torch.fx.passes.graph_transform_observer": ("GraphTransformObserver",),
    "torch.utils._mode_utils": ("no_dispatch",),
    "torch.utils._python_dispatch": (
        "TorchDispatchMode",
        "_disable_current_modes",
        "is_traceable_wrapper_subclass",
    ),
    "torch.utils._pytree": (
        "tree_flatten",
        "tree_leaves",
        "tree_map",
        "tree_map_only",
        "tree_unflatten",
    ),
    "torch.utils._sympy.printers": ("PythonPrinter",),
    "torch.utils._sympy.symbol": ("SymT", "symbol_is_type"),
}
"""Each module of torch's → the names of it that we import. The imports above tell mypy the same."""

SUBMODULES = {
    "compiled_eval_frame": "torch._C._dynamo.eval_frame",
    "dynamo": "torch._dynamo",
    "aot_compile": "torch._dynamo.aot_compile",
    "common_backends": "torch._dynamo.backends.common",
    "backend_registry": "torch._dynamo.backends.registry",
    "compiled_autograd": "torch._dynamo.compiled_autograd",
    "dynamo_config": "torch._dynamo.config",
    "convert_frame": "torch._dynamo.convert_frame",
    "decorators": "torch._dynamo.decorators",
    "eval_frame": "torch._dynamo.eval_frame",
    "dynamo_exc": "torch._dynamo.exc",
    "dynamo_guards": "torch._dynamo.guards",
    "invoke_subgraph": "torch._dynamo.variables.invoke_subgraph",
    "output_graph": "torch._dynamo.output_graph",
    "side_effects": "torch._dynamo.side_effects",
    "symbolic_convert": "torch._dynamo.symbolic_convert",
    "trace_rules": "torch._dynamo.trace_rules",
    "dynamo_utils": "torch._dynamo.utils",
    "dynamo_variables": "torch._dynamo.variables",
    "variables_base": "torch._dynamo.variables.base",
    "variables_dicts": "torch._dynamo.variables.dicts",
    "graph_compile": "torch._functorch._aot_autograd.graph_compile",
    "functorch_aot_autograd": "torch._functorch.aot_autograd",
    "functorch_config": "torch._functorch.config",
    "partitioners": "torch._functorch.partitioners",
    "torch_guards": "torch._guards",
    "inductor": "torch._inductor",
    "codecache": "torch._inductor.codecache",
    "cpp_codegen": "torch._inductor.codegen.cpp",
    "compile_fx": "torch._inductor.compile_fx",
    "compiler_bisector": "torch._inductor.compiler_bisector",
    "inductor_config": "torch._inductor.config",
    "cpp_builder": "torch._inductor.cpp_builder",
    "cpu_vec_isa": "torch._inductor.cpu_vec_isa",
    "cudagraph_trees": "torch._inductor.cudagraph_trees",
    "cudagraph_utils": "torch._inductor.cudagraph_utils",
    "inductor_decomposition": "torch._inductor.decomposition",
    "inductor_exc": "torch._inductor.exc",
    "inductor_graph": "torch._inductor.graph",
    "inductor_ir": "torch._inductor.ir",
    "inductor_lowering": "torch._inductor.lowering",
    "inductor_metrics": "torch._inductor.metrics",
    "output_code": "torch._inductor.output_code",
    "inductor_patterns": "torch._inductor.pattern_matcher",
    "triton_helpers": "torch._inductor.runtime.triton_helpers",
    "triton_heuristics": "torch._inductor.runtime.triton_heuristics",
    "inductor_scheduler": "torch._inductor.scheduler",
    "inductor_utils": "torch._inductor.utils",
    "joint_graph": "torch._inductor.fx_passes.joint_graph",
    "post_grad": "torch._inductor.fx_passes.post_grad",
    "pre_grad": "torch._inductor.fx_passes.pre_grad",
    "select_algorithm": "torch._inductor.select_algorithm",
    "torch_logging": "torch._logging._internal",
    "python_dispatch": "torch.utils._python_dispatch",
}
"""Our name of a module of torch's → the module: those in which a function is replaced or a name may
be missing, and those with options.
"""

MODULE_OF = {name: module for module, names in NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Nothing is kept: who asks later may be meant to get what a capture has put there.
    if name in SUBMODULES:
        return _imported(SUBMODULES[name])
    if name not in MODULE_OF:
        raise AttributeError(f"{__name__} has no {name}")
    module = MODULE_OF[name]
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        raise ImportError(f"torch {torch.__version__} has no {module}.{name}") from None


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise  # for something that the module needs, Triton for one
        if module.endswith(".config"):
            return NoOptions(module)
        raise ImportError(f"torch {torch.__version__} has no {module}") from None


class NoOptions:
    """NoOptions stands for a module of options that this release lacks. It has no option, and
    whoever needs one is told so by an AttributeError.
    """

    def __init__(self, module: str) -> None:
        self.__name__ = module
        self._config: dict[str, Any] = {}

    def patch(self, *values: dict[str, Any], **by_name: Any) -> contextlib.nullcontext[None]:
        for options in (*values, by_name):
            for name in options:
                getattr(self, name)
        return contextlib.nullcontext()
