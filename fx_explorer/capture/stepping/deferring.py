"""Which graphs can wait until the program is through: a pause must change nothing about what is compiled.

A graph that waits runs eagerly meanwhile, and the backend is called when Dynamo no longer is there to hear from it. What a
backend may tell Dynamo: that floats must be constants, so that the frame is begun anew (TensorifyScalarRestartAnalysis,
torch/fx/passes/_tensorify_python_scalars.py), and that something cannot be traced, of which Dynamo makes a graph break
(``exceptions_allowed_to_be_fallback``, torch/_dynamo/output_graph.py). Both come from AOTAutograd's tracing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves
from torch.utils._sympy.symbol import SymT, symbol_is_type

from fx_explorer.capture.stepping.variants.variant import CapturedSegment
from fx_explorer.capture.torch_compat.versions import prints_subclasses_it_compiles


def can_wait(kept: CapturedSegment) -> bool:
    """Not with a backend or a pass of the program's own: it expects them to be called now. Nor with a tensor subclass where
    torch prints it, which may fail, after AOTAutograd's tracing."""
    if prints_subclasses_it_compiles() and _has_wrappers(kept):
        return False
    return _is_no_programs(kept.compiler) and not kept.options_and_modes.program_is_called


def _is_no_programs(compiler: Callable[..., Any]) -> bool:
    """Whether the backend is one that comes with torch or from us, and its options name no functions of the program's."""
    backend = getattr(compiler, "_torchdynamo_orig_backend", compiler)
    backend = getattr(backend, "compiler_fn", backend)
    options = getattr(backend, "config", None)
    is_plain = not (isinstance(options, dict) and any(map(callable, options.values())))
    return is_plain and _module_of(backend).partition(".")[0] in ("torch", "functorch", "fx_explorer")


def _module_of(backend: object) -> str:
    return str(getattr(backend, "__module__", "") or type(backend).__module__)


def must_be_traced(kept: CapturedSegment) -> bool:
    """Whether AOTAutograd may have something to tell Dynamo: then it traces the graph at once."""
    return _has_float_symbols(kept) or any(map(_is_wrapper, kept.inputs))


def _has_float_symbols(kept: CapturedSegment) -> bool:
    """Whether the frame has symbols for floats. The graph's alone would not do: also one that it no
    longer has may have to be a constant."""
    shapes = kept.shape_env()
    return shapes is not None and any(symbol_is_type(symbol, SymT.FLOAT) for symbol in shapes.var_to_range)


def _has_wrappers(kept: CapturedSegment) -> bool:
    """Among the inputs, or made inside."""
    made = (leaf for node in kept.dynamo.graph.nodes for leaf in tree_leaves(node.meta.get("example_value")))
    return any(map(_is_wrapper, kept.inputs)) or any(map(_is_wrapper, made))


def _is_wrapper(value: object) -> bool:
    """A tensor subclass runs the program's own operators while it is traced."""
    return isinstance(value, torch.Tensor) and is_traceable_wrapper_subclass(value)
