"""This module watches the passes that Inductor calls as plain functions, without the observer that
gives the others a name: ``view_to_reshape``, which runs before the post-grad passes over every
graph, is one.

What is not among them (functions that a pass imports when it runs, and those of another release of
torch) is recorded with the two passes that it ran between (pass_changes.py).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fx_explorer.capture.inductor.pass_changes import plain_pass
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import (
    compile_fx,
    joint_graph,
    post_grad,
    pre_grad,
)


@contextlib.contextmanager
def plain_pass_hook(recording: Recording) -> Iterator[None]:
    """Note what the passes without a name change, for as long as the block lasts."""
    watched: list[tuple[Any, str, bool]] = [
        (compile_fx, "view_to_reshape", True),
        (pre_grad, "numpy_compat_normalization", False),
        (pre_grad, "sink_cat_after_pointwise", False),
        (pre_grad, "_run_pre_dispatch_passes", False),
        (joint_graph, "canonicalize_aten_ir_passes", False),
        (joint_graph, "replace_random_passes", False),
        (post_grad, "micro_pipeline_tp_pass", False),
        (torch.fx.Graph, "eliminate_dead_code", False),
    ]
    with contextlib.ExitStack() as stack:
        for owner, name, is_alone in watched:
            if hasattr(owner, name):
                make = functools.partial(_watched, recording, name, is_alone)
                stack.enter_context(patched(owner, name, make))
        yield


def _watched(
    recording: Recording, name: str, is_alone: bool, original: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a pass in a form that is noted; it is given a module or a graph."""

    @functools.wraps(original)
    def run_pass(given: Any, *args: Any, **kwargs: Any) -> Any:
        module = given.owning_module if isinstance(given, torch.fx.Graph) else given
        if not isinstance(module, torch.fx.GraphModule):
            return original(given, *args, **kwargs)
        with plain_pass(recording, name, module, is_alone):
            return original(given, *args, **kwargs)

    return run_pass
