"""Replacing a function of torch, or an option, for as long as a capture runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

_left_below: dict[int, tuple[Any, Any]] = {}
"""Replacements whose block has ended while another stood over them, by their ``id``, each with what it replaced."""


@contextlib.contextmanager
def patched(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Replace ``owner.name`` with ``make(original)`` inside the block. On leaving, the original
    comes back, unless someone else has wrapped ours meanwhile: then theirs is left in place. Blocks
    may overlap, as those of two threads: when the last of them ends, the original is back.
    """
    original = getattr(owner, name)
    replacement = make(original)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        if getattr(owner, name) is replacement:
            while id(original) in _left_below:
                original = _left_below.pop(id(original))[1]
            setattr(owner, name, original)
        else:
            _left_below[id(replacement)] = replacement, original


@contextlib.contextmanager
def configured(config: Any, values: dict[str, Any]) -> Iterator[None]:
    """Give the options of a config module of torch's these values inside the block, on every
    thread.

    An option that is set holds on the thread that sets it (a ``ContextVar``,
    torch/utils/_config_module.py). The others get what the environment says, or else the default.
    """
    entries = {name: config._config[name] for name in values}
    before = {name: entry.env_value_default for name, entry in entries.items()}
    with config.patch(values):
        for name, entry in entries.items():
            entry.env_value_default = values[name]
        try:
            yield
        finally:
            for name, entry in entries.items():
                entry.env_value_default = before[name]
