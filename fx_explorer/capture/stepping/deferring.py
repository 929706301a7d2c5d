"""Which graphs can wait until the program has ended: a pause must change nothing about what is
compiled.

A graph that waits runs eagerly meanwhile, and the backend is called when Dynamo is no longer there
to hear from it. A backend may tell Dynamo two things: that floats must be constants, so that the
frame is begun anew (TensorifyScalarRestartAnalysis, torch/fx/passes/_tensorify_python_scalars.py),
and that something cannot be traced, which Dynamo turns into a graph break
(``exceptions_allowed_to_be_fallback``, torch/_dynamo/output_graph.py). Both come from AOTAutograd's
tracing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves
from torch.utils._sympy.symbol import SymT, symbol_is_type

from fx_explorer.capture.backends.users_backend import users_backend
from fx_explorer.capture.stepping.variants.variant import CapturedSegment
from fx_explorer.capture.torch_compat.versions import prints_subclasses_it_compiles


def can_wait(kept: CapturedSegment) -> bool:
    """Return whether the graph can wait.

    It cannot with a backend or a pass of the program's own, which expects to be called now. It
    cannot either with a tensor subclass where torch prints it: printing may fail, after
    AOTAutograd's tracing.
    """
    if prints_subclasses_it_compiles() and _has_wrappers(kept):
        return False
    return _is_no_programs(kept.compiler) and not kept.options_and_modes.program_is_called


def _is_no_programs(compiler: Callable[..., Any]) -> bool:
    """Return whether the backend comes with torch or from us, and its options name no functions of
    the program's.
    """
    asked_for = users_backend(compiler)
    backend = getattr(asked_for, "_torchdynamo_orig_backend", asked_for)
    backend = getattr(backend, "compiler_fn", backend)
    options = getattr(backend, "config", None)
    is_plain = not (isinstance(options, dict) and any(map(callable, options.values())))
    return is_plain and _module_of(backend).partition(".")[0] in (
        "torch",
        "functorch",
        "fx_explorer",
    )


def _module_of(backend: object) -> str:
    return str(getattr(backend, "__module__", "") or type(backend).__module__)


def must_be_traced(kept: CapturedSegment) -> bool:
    """Return whether AOTAutograd may have something to tell Dynamo, so that it must trace the graph
    at once.
    """
    return _has_float_symbols(kept) or any(map(_is_wrapper, kept.inputs))


def _has_float_symbols(kept: CapturedSegment) -> bool:
    """Return whether the frame has symbols for floats. The graph's symbols do not suffice: one that
    it no longer has may still have to be a constant.
    """
    shapes = kept.shape_env()
    return shapes is not None and any(
        symbol_is_type(symbol, SymT.FLOAT) for symbol in shapes.var_to_range
    )


def _has_wrappers(kept: CapturedSegment) -> bool:
    """Return whether there is a tensor subclass among the inputs, or one made inside."""
    made = (
        leaf
        for node in kept.dynamo.graph.nodes
        for leaf in tree_leaves(node.meta.get("example_value"))
    )
    return any(map(_is_wrapper, kept.inputs)) or any(map(_is_wrapper, made))


def _is_wrapper(value: object) -> bool:
    """Return whether the value is a tensor subclass, which runs the program's own operators while
    it is traced.
    """
    return isinstance(value, torch.Tensor) and is_traceable_wrapper_subclass(value)
