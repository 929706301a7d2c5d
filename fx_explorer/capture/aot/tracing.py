"""Remembers what AOTAutograd traced, so that whoever steps through the stages need not have it
traced again for what comes after.

Hooks: ``run_functionalized_fw_and_collect_metadata`` (torch/_functorch/aot_autograd.py) and
``aot_dispatch_autograd_graph`` and ``aot_dispatch_base_graph``
(torch/_functorch/_aot_autograd/graph_compile.py).
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any

from torch._functorch import aot_autograd
from torch._functorch._aot_autograd import graph_compile
from torch.fx import GraphModule

from fx_explorer.capture.graph_copies import snapshot
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched


@contextlib.contextmanager
def tracing_hooks(recording: Recording) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            patched(
                aot_autograd,
                "run_functionalized_fw_and_collect_metadata",
                functools.partial(_metadata, recording),
            )
        )
        for name in ("aot_dispatch_autograd_graph", "aot_dispatch_base_graph"):
            stack.enter_context(
                patched(graph_compile, name, functools.partial(_traced_graph, recording))
            )
        yield


def _metadata(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run_functionalized_fw_and_collect_metadata(*args: Any, **kwargs: Any) -> Any:
        collect = original(*args, **kwargs)

        @functools.wraps(collect)
        def collect_or_recall(*inputs: Any) -> Any:
            if recording.here.direction:
                return collect(*inputs)
            return recording.boundary.pass_through(
                ("metadata", ""), lambda: collect(*inputs), _own_copy
            )

        return collect_or_recall

    return run_functionalized_fw_and_collect_metadata


def _traced_graph(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    """Trace the joint graph, or recall it from when it was traced before, with the metadata as
    tracing left it.
    """

    @functools.wraps(original)
    def trace_or_recall(*args: Any, fw_metadata: Any, **kwargs: Any) -> Any:
        if recording.here.direction:
            return original(*args, fw_metadata=fw_metadata, **kwargs)

        def trace() -> Traced:
            module, *rest = original(*args, fw_metadata=fw_metadata, **kwargs)
            return module, tuple(rest), fw_metadata

        module, rest, metadata = recording.boundary.pass_through(("joint", ""), trace, _copied)
        if metadata is not fw_metadata:  # tracing writes into it
            vars(fw_metadata).update(vars(metadata))
        return module, *rest

    return trace_or_recall


Traced = tuple[GraphModule, tuple[Any, ...], Any]
"""The graph, what else is returned with it, and the metadata as tracing has left it."""


def _copied(traced: Traced) -> Traced:
    module, rest, metadata = traced
    return snapshot(module), tuple(map(_own_copy, rest)), _own_copy(metadata)


def _own_copy(value: Any) -> Any:
    """Copy containers and keep tensors the same: later stages append to the lists, and set
    attributes of the metadata.
    """
    if isinstance(value, list):
        return [_own_copy(item) for item in value]
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(map(_own_copy, value))
    if hasattr(value, "__dataclass_fields__") and hasattr(value, "__dict__"):
        copied = copy.copy(value)
        for name, attribute in vars(copied).items():
            if isinstance(attribute, list | dict | set):
                setattr(copied, name, copy.copy(attribute))
        return copied
    return value
