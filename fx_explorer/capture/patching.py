"""Replacing a function of torch for as long as a capture runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def patched(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """``owner.name`` is ``make(original)`` inside the block.

    On leaving, the original comes back, unless someone else has wrapped ours meanwhile: then theirs is left in place.
    """
    original = getattr(owner, name)
    replacement = make(original)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        if getattr(owner, name) is replacement:
            setattr(owner, name, original)
