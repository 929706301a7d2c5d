"""This module measures the same call in eager mode, operator by operator: the time of each, and the
line of the user's that calls it.

Times are those of torch's profiler, less the cost of profiling. Lines come from another call, under
a dispatch mode that notes the caller of each operator; both calls have the same operators in the
same order. The backward of an operator has its forward's line, which autograd's sequence numbers
tell.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from fx_explorer.capture.torch_compat.private_names import TorchDispatchMode
from fx_explorer.instruments.bench.measure.call_timing import users_line
from fx_explorer.instruments.ledger.measure.rounds import times_of
from fx_explorer.model import Direction

CALLS = 11

LOOK_AHEAD = 4

EVENTS_OF_DETACH = 2
"""Events of the profiler for one detach: ``aten::detach``, and ``detach`` within it."""

MOST_TIMES = 2.0
"""Largest cost of a profiler event in the program, as a multiple of its cost in a loop of its own.
"""

LEAST_PART = 0.1
"""Smallest time of an operator without the profiler, as a part of its profiled time."""

EVALUATES = "autograd::engine::evaluate_function: "

Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class EagerOperator:
    name: str
    direction: Direction
    file: str
    line: int
    host_s: float
    device_s: float


@dataclass(frozen=True, slots=True)
class _CalledFrom:
    """An operator below autograd, and the user's line that it was called from."""

    name: str
    file: str
    line: int


def eager_operators(call: Call, call_s: float, is_gpu: bool) -> list[EagerOperator]:
    """Return the operators of one call, in order. ``call_s`` is the time of a call without a
    profiler.
    """
    lines = _LinesOfOperators()
    with lines:
        call()
    _profiled(call, 1, is_gpu)  # the first one takes longer
    before = times_of(call, CALLS)
    roots, took_s = _profiled(call, CALLS, is_gpu)
    plain_s = median([*before, *times_of(call, CALLS)])
    events = sum(map(_event_count, roots)) / CALLS
    cost_s = min(MOST_TIMES * _cost_of_an_event(), max(0.0, took_s - plain_s) / max(events, 1))
    calls = [_operators(of_call, lines.called, cost_s) for of_call in _by_call(roots)]
    return _at_most(call_s, _middle(calls))


def _cost_of_an_event(runs: int = 1000) -> float:
    """Return the seconds that it takes longer to call a small operator when it is profiled."""
    small = torch.zeros(1)
    alone_s = min(timeit.repeat(small.detach, number=runs, repeat=5)) / runs
    with profile(activities=[ProfilerActivity.CPU]):
        profiled_s = min(timeit.repeat(small.detach, number=runs, repeat=5)) / runs
    return max(0.0, profiled_s - alone_s) / EVENTS_OF_DETACH


def _at_most(call_s: float, operators: list[EagerOperator]) -> list[EagerOperator]:
    """Return the operators, all shortened by the same factor if they add up to more than the call.
    The cost of profiling is known only on average.
    """
    whole_s = sum(operator.host_s for operator in operators)
    part = min(1.0, call_s / whole_s) if whole_s else 1.0
    return [replace(operator, host_s=operator.host_s * part) for operator in operators]


def _profiled(call: Call, calls: int, is_gpu: bool) -> tuple[list[Any], float]:
    """Return the outermost operators of some calls, and the median seconds of a call."""
    activities = [ProfilerActivity.CPU]
    if is_gpu:
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as seen:
        took_s = median(times_of(call, calls))
    outermost = [event for event in seen.events() if event.cpu_parent is None]
    return [event for event in outermost if _is_operator(event)], took_s


class _LinesOfOperators(TorchDispatchMode):
    """Notes which operators are called below autograd, and from where."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.called: list[_CalledFrom] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        file, line = users_line(2)
        packet = getattr(func, "overloadpacket", None)  # a control-flow operator has none
        name = packet._qualified_op_name if packet is not None else str(func)
        self.called.append(_CalledFrom(name, file, line))
        return func(*args, **(kwargs or {}))


def _is_operator(event: Any) -> bool:
    return event.device_type == torch.autograd.DeviceType.CPU and (
        "::" in event.name and not event.name.startswith(("cuda", "cu"))
    )


def _subtree(event: Any) -> Iterator[Any]:
    yield event
    for child in event.cpu_children:
        yield from _subtree(child)


def _event_count(root: Any) -> int:
    return sum(1 for _ in _subtree(root))


def _by_call(roots: list[Any]) -> list[list[Any]]:
    """Return the operators of each profiled call, an equal share of all operators each. Calls whose
    operators are not those of the first are left out.
    """
    roots = sorted(roots, key=lambda event: event.time_range.start)
    each = len(roots) // CALLS
    if each:
        calls = [roots[i * each : (i + 1) * each] for i in range(CALLS)]
    else:
        calls = []
    return [call for call in calls if _names(call) == _names(calls[0])]


def _names(events: Iterable[Any]) -> list[str]:
    return [event.name for event in events]


def _operators(roots: list[Any], called: list[_CalledFrom], cost_s: float) -> list[EagerOperator]:
    lines = _Lines(called)
    of_forward: dict[int, tuple[str, int]] = {}
    operators = []
    for root in roots:
        is_backward = root.name.startswith(EVALUATES)
        place = lines.of(root, of_forward)
        if is_backward:
            numbers = [event.sequence_nr for event in _subtree(root) if event.sequence_nr >= 0]
            place = next(
                (of_forward[number] for number in numbers if number in of_forward), ("", 0)
            )
        profiled_s = root.cpu_time_total / 1e6
        host_s = max(LEAST_PART * profiled_s, profiled_s - cost_s * _event_count(root))
        direction: Direction = "backward" if is_backward else "forward"
        operators.append(
            EagerOperator(
                root.name.removeprefix(EVALUATES),
                direction,
                *place,
                host_s,
                root.device_time_total / 1e6,
            )
        )
    return operators


class _Lines:
    """Goes through the operators of a call in the order of those whose lines are known."""

    def __init__(self, called: Sequence[_CalledFrom]) -> None:
        self._called = called
        self._next = 0

    def of(self, event: Any, by_number: dict[int, tuple[str, int]]) -> tuple[str, int]:
        """Return the line of an operator: its own, or that of the first child with a known line.
        Sequence numbers of the children are added to ``by_number``.
        """
        place = self._of_itself(event.name)
        if place is None:
            places = [self.of(child, by_number) for child in event.cpu_children]
            place = next((place for place in places if place[1]), ("", 0))
        if place[1] and event.sequence_nr >= 0:
            by_number.setdefault(event.sequence_nr, place)
        return place

    def _of_itself(self, name: str) -> tuple[str, int] | None:
        """Return the line that calls the next operator of this name. Up to ``LOOK_AHEAD`` others
        are skipped: autograd calls some operators only under a dispatch mode.
        """
        for i, called_from in enumerate(self._called[self._next : self._next + LOOK_AHEAD]):
            if called_from.name == name:
                self._next += i + 1
                return called_from.file, called_from.line
        return None


def _middle(calls: list[list[EagerOperator]]) -> list[EagerOperator]:
    """Return the operators of one call, each with the median of its times over all calls."""
    operators = []
    for same in zip(*calls, strict=True):
        host_s = median(operator.host_s for operator in same)
        device_s = median(operator.device_s for operator in same)
        operators.append(replace(same[0], host_s=host_s, device_s=device_s))
    return operators
