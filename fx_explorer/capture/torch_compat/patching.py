"""This module replaces a function of torch, or an option, for as long as a capture runs."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

_INHERITED = object()
"""Marks an attribute that an owner inherits from a base class."""

_left_below: dict[int, tuple[Any, Any]] = {}
"""Replacements whose block ended while another replacement wrapped them: ``id`` → the replacement
and the value it replaced.
"""


@contextlib.contextmanager
def patched(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Replace ``owner.name`` with ``make(original)`` inside the block. Afterwards the original is
    restored, unless other code has wrapped the replacement meanwhile: then that wrapper stays.
    Blocks may overlap, as those of two threads do: when the last of them ends, the original is
    restored.

    ``make`` is given a class method or a static method as whoever asks the class sees it, and what
    comes back is the descriptor that was there. Raises AttributeError where there is no such name.
    """
    original = getattr(owner, name)
    before = _held(owner, name)
    replacement = make(original)
    if _needs_no_object(owner, name):
        replacement = staticmethod(replacement)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        if _held(owner, name) is replacement:
            while id(before) in _left_below:
                before = _left_below.pop(id(before))[1]
            if before is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        else:
            _left_below[id(replacement)] = replacement, before


def _held(owner: Any, name: str) -> Any:
    """Return the attribute as it is in the owner's own dict: the descriptor, if it is one."""
    return vars(owner).get(name, _INHERITED)


def _needs_no_object(owner: Any, name: str) -> bool:
    """Return whether the attribute is a method that is called without an instance."""
    if not isinstance(owner, type):
        return False
    return isinstance(inspect.getattr_static(owner, name), (classmethod, staticmethod))


@contextlib.contextmanager
def configured(config: Any, values: dict[str, Any]) -> Iterator[None]:
    """Give the options of a config module of torch's these values inside the block, on every
    thread.

    An option that is set holds on the thread that sets it (a ``ContextVar``,
    torch/utils/_config_module.py). The others get what the environment says, or else the default.
    Raises AttributeError in a torch release that lacks one of them.
    """
    entries = {name: _entry(config, name) for name in values}
    before = {name: entry.env_value_default for name, entry in entries.items()}
    with config.patch(values):
        for name, entry in entries.items():
            entry.env_value_default = values[name]
        try:
            yield
        finally:
            for name, entry in entries.items():
                entry.env_value_default = before[name]


def _entry(config: Any, name: str) -> Any:
    try:
        return config._config[name]
    except KeyError:
        raise AttributeError(f"{config.__name__} has no option {name}") from None
