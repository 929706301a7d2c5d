"""What AOTAutograd traces, kept for other ways: a way from the joint graph or later need not trace again.

Hooks: ``run_functionalized_fw_and_collect_metadata`` (torch/_functorch/aot_autograd.py) and ``aot_dispatch_autograd_graph`` and
``aot_dispatch_base_graph`` (torch/_functorch/_aot_autograd/graph_compile.py).
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any

from torch._functorch import aot_autograd
from torch._functorch._aot_autograd import graph_compile

from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.stepping.variants.snapshots import snapshot
from fx_explorer.capture.torch_compat.patching import patched


@contextlib.contextmanager
def tracing_kept(recording: Recording) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            patched(aot_autograd, "run_functionalized_fw_and_collect_metadata", functools.partial(_metadata, recording))
        )
        for name in ("aot_dispatch_autograd_graph", "aot_dispatch_base_graph"):
            stack.enter_context(patched(graph_compile, name, functools.partial(_traced_graph, recording)))
        yield


def _metadata(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run_functionalized_fw_and_collect_metadata(*args: Any, **kwargs: Any) -> Any:
        collect = original(*args, **kwargs)

        @functools.wraps(collect)
        def collect_or_recall(*inputs: Any) -> Any:
            steering = recording.steering
            if steering is None or recording.direction:
                return collect(*inputs)
            known = steering.replay(("metadata", ""))
            if known is None:
                known = collect(*inputs)
                steering.keep(("metadata", ""), _own_copy(known))
                return known
            return _own_copy(known)

        return collect_or_recall

    return run_functionalized_fw_and_collect_metadata


def _traced_graph(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def trace_or_recall(*args: Any, fw_metadata: Any, **kwargs: Any) -> Any:
        steering = recording.steering
        if steering is None or recording.direction:
            return original(*args, fw_metadata=fw_metadata, **kwargs)
        known = steering.replay(("joint", ""))
        if known is None:
            module, *rest = original(*args, fw_metadata=fw_metadata, **kwargs)
            steering.keep(("joint", ""), (snapshot(module), tuple(map(_own_copy, rest)), _own_copy(fw_metadata)))
            return module, *rest
        module, rest, metadata = known
        vars(fw_metadata).update(vars(_own_copy(metadata)))  # tracing writes into it
        return snapshot(module), *map(_own_copy, rest)

    return trace_or_recall


def _own_copy(value: Any) -> Any:
    """Containers anew, tensors the same: later stages append to the lists, and set attributes of the metadata."""
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
