"""torch's caches of compiled graphs: off while a capture records, and as the program has them where
it must have them.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any, Protocol

import torch
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config

from fx_explorer.capture.torch_compat.patching import configured

CACHES_OFF: dict[str, Any] = {"fx_graph_cache": False, "fx_graph_remote_cache": False}
_AUTOGRAD_CACHE_OFF: dict[str, Any] = {"enable_autograd_cache": False}
_OFF = (inductor_config, CACHES_OFF), (functorch_config, _AUTOGRAD_CACHE_OFF)

_as_before: list[list[tuple[Any, dict[str, Any]]]] = []
"""(config module, what the program had), for each capture that has the caches off."""


class _Recording(Protocol):
    def unavailable(self, view: str, reason: str) -> None:
        """Note what is not shown, and why."""


@contextlib.contextmanager
def caches_off(recording: _Recording) -> Iterator[None]:
    """Turn torch's caches off inside the block, so that everything is lowered: of a graph that
    comes from a cache there would be nothing to see. An option that this torch release lacks is
    named in the session.
    """
    before: list[tuple[Any, dict[str, Any]]] = []
    with contextlib.ExitStack() as stack:
        for config, values in _OFF:
            for name, value in values.items():
                if not hasattr(config, name):
                    reason = f"{config.__name__} has no option {name}"
                    recording.unavailable("graphs that are in a compile cache", reason)
                    continue
                before.append((config, {name: getattr(config, name)}))
                stack.enter_context(configured(config, {name: value}))
        _as_before.append(before)
        stack.callback(_as_before.remove, before)
        yield


@contextlib.contextmanager
def caches_as_before() -> Iterator[None]:
    """Put the caches back inside the block, within ``caches_off``, as the program had them before
    anything was recorded.
    """
    with contextlib.ExitStack() as stack:
        for config, values in _as_before[0] if _as_before else ():
            stack.enter_context(configured(config, values))
        yield


def is_cached() -> bool:
    """Return whether what is compiled now becomes an entry of a cache: the program may have
    switched one on.
    """
    return any(getattr(config, name, False) for config, values in _OFF for name in values)


def nothing_found_in_caches() -> contextlib.AbstractContextManager[None]:
    """Cache what is compiled inside the block, but use no entry that is older. Kernels that are
    built already are used.
    """
    found: contextlib.AbstractContextManager[None] = torch.compiler.config.patch(
        cache_key_tag=uuid.uuid4().hex
    )
    return found
