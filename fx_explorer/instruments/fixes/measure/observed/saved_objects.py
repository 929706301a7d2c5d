"""Keep what a script gives to ``torch.save``, to compare it with what another run gives. What is
written shows nowhere else: torch opens the file in C++, and the script may throw away what it has
saved.

Hook: ``torch.save``. The program's file is written as ever.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.instruments.fixes.measure.observed.reachable import ReachableWalk

MOST_CALLS, MOST_BYTES = 50, 256 * 2**20
"""Limits on what is kept: calls, and bytes of tensors. Later calls are only counted."""


class SavedObjects:
    """Counts the calls of ``torch.save``, and keeps the values that the first ones write."""

    def __init__(self) -> None:
        self.count = 0
        self.kept = 0
        """How many of the calls are kept."""
        self.values: dict[str, dict[str, Any]] = {}
        """Kind → ``what call 1 of torch.save() writes['step']`` → value."""
        self.facts: dict[str, dict[str, Any]] = {}
        self._bytes = 0

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch every call inside the block."""
        with patched(torch, "save", self._watching):
            yield

    def _watching(self, original: Callable[..., None]) -> Callable[..., None]:
        def save(obj: object, *args: Any, **kwargs: Any) -> None:
            self._keep(obj)
            original(obj, *args, **kwargs)

        return save

    def _keep(self, obj: object) -> None:
        self.count += 1
        if self.count > MOST_CALLS or self._bytes > MOST_BYTES:
            return
        self.kept = self.count
        walk = ReachableWalk(lambda path: False)
        walk.add("saved", f"what call {self.count} of torch.save() writes", obj)
        reached = walk.reached()
        for kind, values in reached.values.items():
            self.values.setdefault(kind, {}).update(values)
            self._bytes += sum(
                value.nbytes for value in values.values() if isinstance(value, torch.Tensor)
            )
        self.facts.update(reached.facts)
