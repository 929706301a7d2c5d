"""This module runs Dynamo once over a whole model, without computing anything; the first graph
break is returned, not raised.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch._dynamo import convert_frame
from torch._dynamo.exc import UncapturedHigherOrderOpError, Unsupported

from fx_explorer.capture.torch_compat.shared_names import (
    _get_frame,
    dynamo_timed,
    get_metrics_context,
)
from fx_explorer.precompile.errors import PrecompileError


def captured_or_broken(
    model: Callable[..., Any],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    dynamic: bool | None,
) -> Any:
    """Return torch's ``CaptureOutput``, or the exception of the first graph break."""
    from torch._dynamo.eval_frame import set_enable_dynamic
    from torch._dynamo.variables.torch_function import torch_function_mode_stack_state_mgr

    _check_call(model, args, kwargs)
    if dynamic is None:
        sizes = contextlib.nullcontext()
    else:
        sizes = set_enable_dynamic(dynamic)
    try:
        with measured("fullgraph_capture"), torch_function_mode_stack_state_mgr, sizes:
            return convert_frame.fullgraph_capture(model, args, kwargs)
    except (Unsupported, UncapturedHigherOrderOpError) as error:
        return error


@contextlib.contextmanager
def measured(phase: str) -> Iterator[None]:
    """Run torch's own clock for ``phase`` inside the block; its phases do not run without one."""
    with get_metrics_context(), dynamo_timed(phase):
        yield


def _check_call(
    model: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]
) -> None:
    try:
        _get_frame(model, args, kwargs)
    except TypeError as error:
        raise PrecompileError(f"the model cannot be called with these inputs: {error}") from None
