"""Everything torch.compile does, recorded in one run: turns the hooks of each stage on, and off again.

What it observes it does not change: generated code is the same with and without it. By default the capture *inspects* (see
inspecting.py): every artefact is produced, nothing is built.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch._dynamo.utils
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config

from fx_explorer.capture.aot import aot_hooks
from fx_explorer.capture.dynamo import dynamo_hooks
from fx_explorer.capture.environment import changed_settings, environment
from fx_explorer.capture.inductor import inductor_hooks
from fx_explorer.capture.inspecting import inspecting
from fx_explorer.capture.recording import Notify, Recording
from fx_explorer.capture.trace import trace_records
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionWriter

CACHES_OFF: dict[str, Any] = {"fx_graph_cache": False, "fx_graph_remote_cache": False}


@contextlib.contextmanager
def recording(writer: SessionWriter, request: CaptureRequest, notify: Notify) -> Iterator[Recording]:
    """Record every compilation in the block into ``writer``'s session.

    torch's compile caches are off meanwhile, unless ``request.use_caches``: a cached graph is never lowered, so there would be
    nothing to see of it.
    """
    state = Recording(writer, request, notify)
    writer.set_meta("environment", environment(request))
    before = _counters()
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: writer.set_meta("counters", _difference(_counters(), before)))
        stack.enter_context(trace_records(state))
        if not request.use_caches:
            stack.enter_context(inductor_config.patch(CACHES_OFF))
            stack.enter_context(functorch_config.patch(enable_autograd_cache=False))
        if not request.build:
            stack.enter_context(inspecting())
        stack.enter_context(inductor_hooks(state))
        stack.enter_context(aot_hooks(state))
        stack.enter_context(dynamo_hooks(state))
        with state.noting("the settings in force"):
            state.add_artifact("config", "dynamo", changed_settings(), title="settings in force", language="json")
        yield state


def compile_arguments(request: CaptureRequest) -> dict[str, Any]:
    """Keyword arguments for ``torch.compile``."""
    arguments: dict[str, Any] = {"backend": request.backend, "dynamic": request.dynamic}
    if request.mode:
        arguments["mode"] = request.mode
    if request.options:
        arguments["options"] = dict(request.options)
    return arguments


def _counters() -> dict[str, dict[str, int]]:
    return {group: dict(counts) for group, counts in torch._dynamo.utils.counters.items()}


def _difference(after: dict[str, dict[str, int]], before: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """What torch counted during the capture (torch/_dynamo/utils.py, ``counters``)."""
    return {group: dict(Counter(counts) - Counter(before.get(group, {}))) for group, counts in after.items() if counts}
