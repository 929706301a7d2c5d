"""This module makes Inductor's scheduler fuse what the user asks it to fuse, and keep apart what
the user wants apart, while one variant is lowered.

Inductor asks ``V.choices`` (torch/_inductor/choices.py) about pairs that could be fused: what it
answers decides about speed, never about results. Nodes that the user wants together are allowed
there, stand first, and are tried with the options that limit fusion lifted. What the scheduler and
the backend check themselves stays in force, as one kernel would be wrong without it: a pair that
they refuse stays apart, and the variant has their reason.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import V, inductor_config, inductor_scheduler
from fx_explorer.model import Direction, FusionChange
from fx_explorer.model.rows.fusion import KEPT_APART

_LIMITS = {
    "max_fusion_size": 1 << 20,
    "max_fusion_unique_io_buffers": None,
    "loop_ordering_after_fusion": True,
    "triton.tiling_prevents_pointwise_fusion": False,
    "triton.tiling_prevents_reduction_fusion": False,
    "cpp.max_horizontal_fusion_size": 1 << 20,
}
"""Options that keep nodes apart for speed → the value with which they do not."""

_FIRST = 1 << 20
"""Added to the first part of a pair's score, of which the highest are fused first."""


@contextlib.contextmanager
def asked_fusions(changes: Sequence[FusionChange], direction: Direction) -> Iterator[None]:
    """Fuse and keep apart as these changes ask, inside the block. Without a change for this
    direction nothing is replaced.
    """
    of_direction = [change for change in changes if change.direction in ("", direction)]
    if not of_direction:
        yield
        return
    together = [change for change in of_direction if change.kind == "together"]
    apart = [change for change in of_direction if change.kind == "apart"]
    replaced = {
        "can_fuse": functools.partial(_answer, together, apart),
        "can_fuse_vertical": functools.partial(_answer, together, []),
        "can_fuse_horizontal": functools.partial(_answer, together, []),
        "score_fusion": functools.partial(_score, together),
    }
    unlimited = functools.partial(_without_limits, together)
    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(inductor_scheduler.Scheduler, "can_fuse", unlimited))
        for name, make in replaced.items():
            stack.enter_context(patched(type(V.choices), name, make))
        yield


def _without_limits(
    together: list[FusionChange], original: Callable[..., Any]
) -> Callable[..., Any]:
    @functools.wraps(original)
    def can_fuse(scheduler: Any, first: Any, second: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_asked(together, first, second):
            return original(scheduler, first, second, *args, **kwargs)
        with inductor_config.patch(_known_limits()):
            return original(scheduler, first, second, *args, **kwargs)

    return can_fuse


def _answer(
    together: list[FusionChange], apart: list[FusionChange], original: Callable[..., Any]
) -> Callable[..., Any]:
    @functools.wraps(original)
    def answer(scheduler: Any, first: Any, second: Any, *args: Any) -> Any:
        if _is_asked(apart, first, second):
            inductor_scheduler.WhyNoFuse(first, second)(KEPT_APART)
            return False
        if _is_asked(together, first, second):
            return True
        return original(scheduler, first, second, *args)

    return answer


def _score(together: list[FusionChange], original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def score_fusion(scheduler: Any, first: Any, second: Any) -> Any:
        score = original(scheduler, first, second)
        place = _place(together, first, second)
        if not place:
            return score
        if isinstance(score, tuple):
            return (score[0] + place, *score[1:])
        leading = dataclasses.fields(score)[0].name
        return dataclasses.replace(score, **{leading: getattr(score, leading) + place})

    return score_fusion


def _known_limits() -> dict[str, object]:
    """Return the limits that this release of torch has."""
    known = inductor_config.get_config_copy()
    return {name: value for name, value in _LIMITS.items() if name in known}


def _is_asked(changes: list[FusionChange], first: Any, second: Any) -> bool:
    """Return whether these two nodes of the scheduler have members of both groups of a change."""
    return any(_is_across(change, first, second) for change in changes)


def _is_across(change: FusionChange, first: Any, second: Any) -> bool:
    """Return whether one node has a member of one group, and the other node one of the other."""
    of_first, of_second = first.get_buffer_names(), second.get_buffer_names()
    if not (of_first.isdisjoint(change.first) or of_second.isdisjoint(change.second)):
        return True
    return not (of_first.isdisjoint(change.second) or of_second.isdisjoint(change.first))


def _is_within(change: FusionChange, first: Any, second: Any) -> bool:
    """Return whether both nodes have members of the same group."""
    of_first, of_second = first.get_buffer_names(), second.get_buffer_names()
    for group in (change.first, change.second):
        if not (of_first.isdisjoint(group) or of_second.isdisjoint(group)):
            return True
    return False


def _place(changes: list[FusionChange], first: Any, second: Any) -> int:
    """Return what is added to the score of a pair. Each group becomes one before both do: else one
    of them could lose members to the other, and stay a kernel.
    """
    if any(_is_within(change, first, second) for change in changes):
        return 2 * _FIRST
    return _FIRST if _is_asked(changes, first, second) else 0
