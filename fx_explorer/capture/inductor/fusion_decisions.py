"""This module records why Inductor did not fuse two of its scheduler's nodes, in Inductor's own
words.

``Scheduler.fuse_nodes`` tries pairs that access the same buffer, in rounds, until a round fuses
nothing (torch/_inductor/scheduler.py). ``Scheduler.can_fuse`` decides about a pair, and gives its
reason to a ``WhyNoFuse``, which writes it into the log ``fusion``. Backends refuse some pairs
without one: C++ does where loops differ (torch/_inductor/codegen/cpp.py). What counts is what was
said last of the nodes that a pair belongs to in the end.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any
from weakref import WeakKeyDictionary

from fx_explorer.capture.inductor.loop_nests import (
    loop_nest_hook,
    loops_of,
    note_nests,
    outer_nodes,
)
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import (
    V,
    inductor_config,
    inductor_scheduler,
)
from fx_explorer.model.rows.fusion import FusionState

MOST_PAIRS = 20_000
"""Maximum number of pairs of one graph that are kept: those that would save the most."""

TOO_MANY = (
    f"one graph has {{:,}} pairs of kernels that were not fused; only the {MOST_PAIRS:,} pairs "
    "with the largest saving are kept"
)

_ORDERS_ONLY = "WeakDep"
"""Class of a dependency that orders two nodes and reads nothing."""


@dataclass(frozen=True, slots=True)
class UnfusedNodes:
    """Two nodes of a scheduler that were not fused; see UnfusedPair for the fields."""

    first: frozenset[str]
    """Names of the buffers that the first writes."""
    second: frozenset[str]
    is_dependent: bool
    state: FusionState
    reason: str
    check: str
    saved_bytes: int
    first_loops: str
    second_loops: str
    buffers: tuple[str, ...]
    names: tuple[str, ...]
    is_exact: bool


unfused_nodes: WeakKeyDictionary[Any, list[UnfusedNodes]] = WeakKeyDictionary()
"""Scheduler → the pairs that it did not fuse."""


@dataclass
class _Attempt:
    """The last answer about a pair."""

    first: Any
    second: Any
    names: tuple[str, str]
    reason: str = ""
    """Inductor's words, into which ``arguments`` are put when they are asked for."""
    arguments: tuple[Any, ...] = ()
    check: str = ""
    is_allowed: bool = False

    @property
    def text(self) -> str:
        return self.reason % self.arguments if self.arguments else self.reason


@dataclass
class _Attempts:
    """What one scheduler answered while it fused."""

    by_names: dict[tuple[str, str], _Attempt] = field(default_factory=dict)
    current: _Attempt | None = None

    def begin(self, first: Any, second: Any) -> _Attempt:
        names = first.get_name(), second.get_name()
        # The latest answers stand last.
        self.by_names.pop(names, None)
        attempt = self.by_names[names] = _Attempt(first, second, names)
        return attempt

    def refuse(self, why: Any, check: str) -> None:
        attempt = self.by_names.get((why.name1, why.name2))
        # C++ asks about a pair in the other order too.
        attempt = attempt or self.by_names.get((why.name2, why.name1)) or self.current
        if attempt is not None:
            attempt.reason, attempt.arguments = why.reason, why.args
            attempt.check = check
            attempt.is_allowed = False


class _Fusing(threading.local):
    """The schedulers that fuse in this thread, innermost last."""

    def __init__(self) -> None:
        self.attempts: list[_Attempts] = []


_fusing = _Fusing()


@contextlib.contextmanager
def fusion_decision_hook(recording: Recording) -> Iterator[None]:
    """Note the reasons why nodes are not fused, for as long as the block lasts."""

    def make_call(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def give_reason(why: Any, reason: str, *args: Any) -> Any:
            result = original(why, reason, *args)
            attempts = _fusing.attempts
            if attempts:
                with recording.noting("why two nodes are not fused", "schedule"):
                    attempts[-1].refuse(why, sys._getframe(1).f_code.co_name)
            return result

        return give_reason

    def make_can_fuse(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def can_fuse(scheduler: Any, first: Any, second: Any, *args: Any, **kwargs: Any) -> Any:
            attempts = _fusing.attempts
            attempt = None
            if attempts:
                with recording.noting("an attempt to fuse", "schedule"):
                    attempt = attempts[-1].current = attempts[-1].begin(first, second)
            answer = original(scheduler, first, second, *args, **kwargs)
            if attempt is not None and answer:
                attempt.is_allowed = True
                attempt.reason, attempt.arguments, attempt.check = "", (), ""
            return answer

        return can_fuse

    def make_fuse_nodes(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def fuse_nodes(scheduler: Any, nodes: list[Any]) -> Any:
            attempts = _Attempts()
            _fusing.attempts.append(attempts)
            try:
                fused = original(scheduler, nodes)
            finally:
                _fusing.attempts.pop()
            with recording.noting("what was not fused", "schedule"):
                note_nests(scheduler, fused)
                pairs = _kept_apart(scheduler, fused, attempts)
                unfused_nodes[scheduler] = pairs[:MOST_PAIRS]
                if len(pairs) > MOST_PAIRS:
                    recording.unavailable("fusion", TOO_MANY.format(len(pairs)))
            return fused

        return fuse_nodes

    with (
        loop_nest_hook(recording),
        patched(inductor_scheduler.WhyNoFuse, "__call__", make_call),
        patched(inductor_scheduler.Scheduler, "can_fuse", make_can_fuse),
        patched(inductor_scheduler.Scheduler, "fuse_nodes", make_fuse_nodes),
    ):
        yield


# The answers about nodes as they are after fusion.


def _kept_apart(scheduler: Any, nodes: list[Any], attempts: _Attempts) -> list[UnfusedNodes]:
    """Return the pairs of ``nodes`` that access the same memory, those that would save the most
    first.
    """
    accesses = [_Access.of(scheduler, node) for node in nodes]
    answers = _answers_by_node(nodes, attempts)
    pairs = _pairs_of_library_calls(scheduler, accesses)
    for first, second in answers:
        pairs.setdefault((min(first, second), max(first, second)))
    unfused = []
    for first, second in pairs:
        attempt, is_exact = (
            answers.get((first, second))
            or answers.get((second, first))
            or (
                None,
                True,
            )
        )
        pair = _unfused(scheduler, accesses[first], accesses[second], attempt, is_exact=is_exact)
        if pair.buffers:
            unfused.append(pair)
    for node in nodes:
        unfused += _sharing_outer_loops(scheduler, node)
    unfused.sort(key=lambda pair: -pair.saved_bytes)
    return unfused


def _sharing_outer_loops(scheduler: Any, node: Any) -> list[UnfusedNodes]:
    """Return the pairs of nodes whose outer loops alone C++ fuses, and that access the same
    memory.
    """
    accesses = [_Access.of(scheduler, inner) for inner in outer_nodes(node)]
    pairs = []
    for first, second in combinations(accesses, 2):
        pair = _unfused(scheduler, first, second, None, is_exact=True)
        if not pair.buffers:
            continue
        names = first.node.get_name(), second.node.get_name()
        check = "CppScheduling.can_fuse_vertical"
        pairs.append(replace(pair, state="outer loop", check=check, names=names))
    return pairs


def _answers_by_node(
    nodes: list[Any], attempts: _Attempts
) -> dict[tuple[int, int], tuple[_Attempt, bool]]:
    """Return (position of a node, of another one) → the last attempt to fuse them or parts of them,
    and whether it was about exactly these two.
    """
    positions = {}
    for position, node in enumerate(nodes):
        for name in node.get_operation_names():
            positions[name] = position
    answers: dict[tuple[int, int], tuple[_Attempt, bool]] = {}
    for attempt in attempts.by_names.values():
        first = positions.get(next(iter(attempt.first.get_operation_names()), ""))
        second = positions.get(next(iter(attempt.second.get_operation_names()), ""))
        if first is None or second is None or first == second:
            continue
        is_exact = attempt.first is nodes[first] and attempt.second is nodes[second]
        known = answers.get((first, second))
        if known is None or is_exact or not known[1]:
            answers[first, second] = attempt, is_exact
    return answers


@dataclass
class _Access:
    """What a node reads and writes."""

    node: Any
    reads: dict[str, int]
    """Buffer → bytes."""
    writes: dict[str, int]

    @classmethod
    def of(cls, scheduler: Any, node: Any) -> _Access:
        renames = scheduler.mutation_renames
        return cls(
            node,
            _bytes_by_buffer(node.read_writes.reads, renames),
            _bytes_by_buffer(node.read_writes.writes, renames),
        )


def _bytes_by_buffer(dependencies: Iterable[Any], renames: dict[str, str]) -> dict[str, int]:
    """Return the bytes that are accessed of each buffer. A loop that Inductor unrolled accesses
    several parts of it: they are added up, to at most the whole buffer, as Inductor does for the
    bytes of a kernel.
    """
    parts: dict[str, list[Any]] = defaultdict(list)
    for dependency in dependencies:
        if type(dependency).__name__ != _ORDERS_ONLY:
            parts[renames.get(dependency.name, dependency.name)].append(dependency)
    sizes = {}
    for name, accesses in parts.items():
        size = sum(V.graph.get_dep_size_hint(access) for access in accesses)
        if len(accesses) > 1:
            whole = inductor_scheduler.StarDep(accesses[0].name)
            size = min(size, V.graph.get_dep_size_hint(whole) or size)
        sizes[name] = size
    return sizes


def _pairs_of_library_calls(scheduler: Any, accesses: list[_Access]) -> dict[tuple[int, int], None]:
    """Return the pairs of which one writes what the other reads, and which Inductor does not try
    to fuse because one of them is a library call.
    """
    writers = {}
    for position, access in enumerate(accesses):
        for name in access.writes:
            writers[name] = position
    unfusable = [scheduler.unfusable_node(access.node) for access in accesses]
    pairs: dict[tuple[int, int], None] = {}
    for position, access in enumerate(accesses):
        for name in access.reads:
            writer = writers.get(name, position)
            if writer < position and (unfusable[writer] or unfusable[position]):
                pairs[writer, position] = None
    return pairs


def _unfused(
    scheduler: Any,
    first: _Access,
    second: _Access,
    attempt: _Attempt | None,
    *,
    is_exact: bool,
) -> UnfusedNodes:
    between = [name for name in first.writes if name in second.reads]
    read_by_both = [name for name in first.reads if name in second.reads]
    saved = 0
    for name in between:
        saved += second.reads[name]
        if _is_read_by(scheduler, name, second.node):
            saved += first.writes[name]
    for name in read_by_both:
        saved += min(first.reads[name], second.reads[name])
    state: FusionState = "not asked"
    reason, check = "", ""
    if attempt is not None and attempt.is_allowed:
        state = "allowed"
    elif attempt is not None:
        state = "refused"
        reason = attempt.text
        check = attempt.check or _check_of_backend(scheduler, first.node, second.node, between)
    return UnfusedNodes(
        first=frozenset(first.node.get_buffer_names()),
        second=frozenset(second.node.get_buffer_names()),
        is_dependent=bool(between),
        state=state,
        reason=reason,
        check=check,
        saved_bytes=saved,
        first_loops=loops_of(first.node),
        second_loops=loops_of(second.node),
        buffers=(*between, *read_by_both),
        names=attempt.names if attempt is not None else (),
        is_exact=is_exact,
    )


def _is_read_by(scheduler: Any, name: str, node: Any) -> bool:
    """Return whether a node is the only reader of a buffer, so that the buffer could be computed
    inside it.
    """
    buffer = scheduler.name_to_buf.get(name)
    if buffer is None or name in V.graph.get_output_names():
        return False
    inside = {member.get_name() for member in node.get_nodes()}
    return all(user.is_weak or user.get_name() in inside for user in buffer.users)


def _check_of_backend(scheduler: Any, first: Any, second: Any, between: list[str]) -> str:
    """Return the check of a backend that refuses without a word."""
    backend = scheduler.get_backend(first.get_device())
    name = type(backend).__name__
    if between:
        return f"{name}.can_fuse_vertical"
    operations = len(first.get_nodes()) + len(second.get_nodes())
    if name == "CppScheduling" and operations > inductor_config.cpp.max_horizontal_fusion_size:
        return "cpp.max_horizontal_fusion_size"
    return f"{name}.can_fuse_horizontal"
