"""A filter of guards (``guard_filter_fn``) drops some of them: this module records what the one in
force drops, and what each of torch's own would drop of a program that has none.

A filter is given an entry for each guard that Dynamo asked for, and says which to keep
(``GuardFilterEntry``, torch/_dynamo/types.py; ``CheckFunctionManager.__init__`` and
``make_guard_filter_entry``, torch/_dynamo/guards.py). Read in 2.13.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch._dynamo.guards import strip_local_scope

from fx_explorer.capture.dynamo.guards.guard_leaves import ExampleValues, Unreachable
from fx_explorer.capture.torch_compat.versions import (
    GuardFilter,
    dataclass_of,
    known_filters,
    name_of,
    require,
)
from fx_explorer.model import FilterAnswer


class WatchedFilter:
    """A filter that is listened to. It answers what the filter answers."""

    def __init__(self, original: GuardFilter) -> None:
        self._original = original
        self._dropped: set[int] = set()

    @property
    def name(self) -> str:
        return str(getattr(self._original, "__qualname__", type(self._original).__qualname__))

    def __call__(self, entries: Sequence[Any]) -> Sequence[bool]:
        kept = self._original(entries)
        self._dropped = {
            id(entry.orig_guard) for entry, keep in zip(entries, kept, strict=False) if not keep
        }
        return kept

    def has_dropped(self, guard: Any) -> bool:
        """Return whether it dropped this guard when it was asked last."""
        return id(guard) in self._dropped


def answers(compilation: str, guards: Sequence[Any], values: ExampleValues) -> list[FilterAnswer]:
    """Ask each of torch's own filters about these guards, and return the answers of those that
    would drop any. ``guards`` are in the order of their rows.
    """
    entries = [_entry(guard, values) for guard in guards]
    filter_answers = []
    for name, guard_filter in known_filters().items():
        dropped = tuple(position for position, keep in enumerate(guard_filter(entries)) if not keep)
        if dropped:
            filter_answers.append(FilterAnswer(0, compilation, name, len(guards), dropped))
    return filter_answers


def _entry(guard: Any, values: ExampleValues) -> Any:
    """Return what torch gives to a filter for a guard (``make_guard_filter_entry``, whose builder
    is gone when the guards are made).
    """
    name = strip_local_scope(name_of(guard))
    value = values.of(guard.name) if name else Unreachable()
    has_value = not isinstance(value, Unreachable)
    is_global = (
        require("torch._dynamo.source", "get_global_source_name")(guard.originating_source)
        is not None
    )
    return dataclass_of(
        "torch._dynamo.types",
        "GuardFilterEntry",
        name=name,
        has_value=has_value,
        value=value if has_value else object(),
        guard_type=guard.create_fn_name(),
        derived_guard_types=tuple(guard.guard_types or ()),
        is_global=is_global,
        orig_guard=guard,
    )
