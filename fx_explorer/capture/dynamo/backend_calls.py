"""Dynamo calls the backend once for each graph that it has captured: this module lets hooks see
these calls, and change them.

Hook: ``OutputGraph.call_user_compiler`` (torch/_dynamo/output_graph.py), which is given the graph
whatever the backend, and returns what the bytecode calls as the graph. Of several hooks the one
that was put in place last is the outermost.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch

from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import OutputGraph

Before = Callable[[Any, torch.fx.GraphModule], Any]
"""A function that is called before the backend, with Dynamo's output graph and the graph module."""

After = Callable[[Any, Any], Any]
"""A function that is called after the backend, with the backend's result and the result of
``Before``. Its own result runs as the graph.
"""


def _nothing(output_graph: Any, module: torch.fx.GraphModule) -> None:
    """Do nothing before the call."""


def _as_made(compiled: Any, _: object) -> Any:
    """Return the backend's result unchanged."""
    return compiled


def seen_backend_calls(
    *, before: Before = _nothing, after: After = _as_made
) -> contextlib.AbstractContextManager[None]:
    """Call these functions before and after each call of the backend, inside the block. Neither may
    raise.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call_user_compiler(
            output_graph: Any, module: torch.fx.GraphModule, *args: Any, **kwargs: Any
        ) -> Any:
            seen = before(output_graph, module)
            return after(original(output_graph, module, *args, **kwargs), seen)

        return call_user_compiler

    return changed_backend_calls(make)


def changed_backend_calls(
    make: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> contextlib.AbstractContextManager[None]:
    """Replace Dynamo's call of the backend with ``make(call)`` inside the block. It is called with
    Dynamo's output graph, the graph module and the inputs.
    """
    return patched(OutputGraph, "call_user_compiler", make)
