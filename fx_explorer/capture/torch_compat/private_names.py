"""This table lists the private names of torch's that several files need, each with its module.

``from fx_explorer.capture.torch_compat.private_names import OutputGraph`` looks for that one name. A
release without it costs only what asks for it: the ImportError says what is missing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch._dynamo import OptimizedModule as OptimizedModule
    from torch._dynamo.backends.common import aot_autograd as aot_autograd
    from torch._dynamo.backends.registry import register_backend as register_backend
    from torch._dynamo.convert_frame import _get_frame as _get_frame
    from torch._dynamo.convert_frame import get_traced_fn as get_traced_fn
    from torch._dynamo.convert_frame import register_bytecode_hook as register_bytecode_hook
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list as _debug_get_cache_entry_list
    from torch._dynamo.exc import RestartAnalysis as RestartAnalysis
    from torch._dynamo.external_utils import wrap_inline as wrap_inline
    from torch._dynamo.guards import strip_local_scope as strip_local_scope
    from torch._dynamo.output_graph import OutputGraph as OutputGraph
    from torch._dynamo.symbolic_convert import (
        InstructionTranslatorBase as InstructionTranslatorBase,
    )
    from torch._dynamo.utils import counters as counters
    from torch._dynamo.utils import dynamo_timed as dynamo_timed
    from torch._dynamo.utils import get_metrics_context as get_metrics_context
    from torch._functorch.partitioners import (
        min_cut_rematerialization_partition as min_cut_rematerialization_partition,
    )
    from torch._guards import CompileContext as CompileContext
    from torch._guards import TracingContext as TracingContext
    from torch._guards import compile_context as compile_context
    from torch._guards import tracing as tracing
    from torch._inductor.codecache import PyCodeCache as PyCodeCache
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen as PythonWrapperCodegen
    from torch._inductor.graph import GraphLowering as GraphLowering
    from torch._inductor.utils import LineContext as LineContext
    from torch._inductor.virtualized import V as V
    from torch._ops import HigherOrderOperator as HigherOrderOperator
    from torch._ops import OpOverload as OpOverload
    from torch._ops import OpOverloadPacket as OpOverloadPacket
    from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
    from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode
    from torch.autograd import _get_sequence_nr as _get_sequence_nr
    from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
    from torch.utils._python_dispatch import (
        is_traceable_wrapper_subclass as is_traceable_wrapper_subclass,
    )
    from torch.utils._pytree import tree_flatten as tree_flatten
    from torch.utils._pytree import tree_leaves as tree_leaves
    from torch.utils._pytree import tree_map as tree_map
    from torch.utils._pytree import tree_map_only as tree_map_only
    from torch.utils._pytree import tree_unflatten as tree_unflatten

    dynamo_config: Any
    functorch_config: Any
    inductor_config: Any

MODULES = {
    "CompileContext": "torch._guards",
    "FakeTensor": "torch._subclasses.fake_tensor",
    "FakeTensorMode": "torch._subclasses.fake_tensor",
    "GraphLowering": "torch._inductor.graph",
    "HigherOrderOperator": "torch._ops",
    "InstructionTranslatorBase": "torch._dynamo.symbolic_convert",
    "LineContext": "torch._inductor.utils",
    "OpOverload": "torch._ops",
    "OpOverloadPacket": "torch._ops",
    "OptimizedModule": "torch._dynamo",
    "OutputGraph": "torch._dynamo.output_graph",
    "PyCodeCache": "torch._inductor.codecache",
    "PythonWrapperCodegen": "torch._inductor.codegen.wrapper",
    "RestartAnalysis": "torch._dynamo.exc",
    "TorchDispatchMode": "torch.utils._python_dispatch",
    "TracingContext": "torch._guards",
    "V": "torch._inductor.virtualized",
    "_debug_get_cache_entry_list": "torch._dynamo.eval_frame",
    "_get_frame": "torch._dynamo.convert_frame",
    "_get_sequence_nr": "torch.autograd",
    "aot_autograd": "torch._dynamo.backends.common",
    "compile_context": "torch._guards",
    "counters": "torch._dynamo.utils",
    "dynamo_timed": "torch._dynamo.utils",
    "get_metrics_context": "torch._dynamo.utils",
    "get_traced_fn": "torch._dynamo.convert_frame",
    "is_traceable_wrapper_subclass": "torch.utils._python_dispatch",
    "min_cut_rematerialization_partition": "torch._functorch.partitioners",
    "register_backend": "torch._dynamo.backends.registry",
    "register_bytecode_hook": "torch._dynamo.convert_frame",
    "strip_local_scope": "torch._dynamo.guards",
    "tracing": "torch._guards",
    "tree_flatten": "torch.utils._pytree",
    "tree_leaves": "torch.utils._pytree",
    "tree_map": "torch.utils._pytree",
    "tree_map_only": "torch.utils._pytree",
    "tree_unflatten": "torch.utils._pytree",
    "wrap_inline": "torch._dynamo.external_utils",
}
"""Each name → the module of torch's that has it. The imports above tell mypy the same."""

CONFIGS = {
    "dynamo_config": "torch._dynamo.config",
    "functorch_config": "torch._functorch.config",
    "inductor_config": "torch._inductor.config",
}
"""The modules that hold torch's options."""


def __getattr__(name: str) -> Any:
    if name in CONFIGS:
        return importlib.import_module(CONFIGS[name])
    if name not in MODULES:
        raise AttributeError(f"{__name__} has no {name}")
    try:
        value = getattr(importlib.import_module(MODULES[name]), name)
    except (ImportError, AttributeError):
        raise ImportError(f"torch {torch.__version__} has no {MODULES[name]}.{name}") from None
    globals()[name] = value  # it is looked for once
    return value
