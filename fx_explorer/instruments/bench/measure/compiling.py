"""The program of one contender: uncompiled, or compiled as its request says, by a backend of a file
too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fx_explorer.capture.recorder import compile_arguments
from fx_explorer.model import CaptureRequest
from fx_explorer.program import calling
from fx_explorer.program.backends import use_backend
from fx_explorer.program.guard_filters import with_guard_filter


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what the target gave to torch.compile, where the target itself is compiled already."""
    if not calling.is_compiled(function):
        return function
    if isinstance(function, torch._dynamo.OptimizedModule):
        original: Callable[..., Any] = function._orig_mod
        return original
    if isinstance(function, torch.nn.Module):
        function._compiled_call_impl = None
        return function
    return getattr(function, "_torchdynamo_orig_callable", function)


def compiled(function: Callable[..., Any], request: CaptureRequest) -> Callable[..., Any]:
    """Return the compiled program; nothing is compiled before it is called. Raises TargetError for
    a backend or a guard filter that is not there.
    """
    use_backend(request.backend, "--backends")
    arguments = with_guard_filter(compile_arguments(request))
    result: Callable[..., Any] = torch.compile(function, **arguments)
    return result
