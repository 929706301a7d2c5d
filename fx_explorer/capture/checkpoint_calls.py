"""This module records where a program checkpoints what was compiled, with a policy of its own
(``context_fn``): the policy chooses among operations, and sees none inside of compiled code.

Hook: ``_checkpoint_without_reentrant_generator`` (torch/utils/checkpoint.py), which runs in eager
mode only. Where Dynamo traces ``checkpoint``, it makes an operator of it, and the policy is applied
in the graph.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import checkpoint

from fx_explorer.capture.compiled_inside import is_compiled
from fx_explorer.capture.recording.sources import CallSite, caller
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched

MOST_PLACES = 50
"""Number of places that are noted."""


@contextlib.contextmanager
def checkpoint_hook(recording: Recording) -> Iterator[None]:
    """Note the calls inside the block. ``meta["selective_checkpoints"]`` gets their places: name of
    what is checkpointed, file, line, and an empty text.
    """
    places: dict[CallSite, str] = {}

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def generator(fn: Any, *args: Any, **kwargs: Any) -> Any:
            with recording.noting("checkpoints of compiled functions"):
                policy = args[1] if len(args) > 1 else kwargs.get("context_fn")
                is_selective = policy not in (None, checkpoint.noop_context_fn)
                if is_selective and is_compiled(fn) and len(places) < MOST_PLACES:
                    places.setdefault(caller(), _name_of(fn))
            return original(fn, *args, **kwargs)

        return generator

    with patched(checkpoint, "_checkpoint_without_reentrant_generator", make):
        yield
    entries = []
    for place, name in places.items():
        if place.file:
            recording.sources.file(place.file)
            entries.append([name, place.file, place.line, ""])
    if entries:
        recording.writer.set_meta("selective_checkpoints", entries)


def _name_of(function: Any) -> str:
    if isinstance(function, torch.nn.Module):
        inner = getattr(function, "_orig_mod", function)
        return type(inner).__qualname__
    return str(getattr(function, "__qualname__", type(function).__qualname__))
