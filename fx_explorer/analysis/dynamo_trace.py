"""This module has the recorded steps of Dynamo's trace, and finds where each way of moving among
them leads.

The steps of one attempt are read when they are asked for: a session may have hundreds of thousands.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fx_explorer import model
from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.step_record import Move, StepValue
from fx_explorer.session import SessionReader

READ_AT_ONCE = 3
"""Number of attempts whose steps are held in memory."""


@dataclass(frozen=True, slots=True)
class TracePoint:
    """A step of the trace: the position of its attempt among all, and its own within that."""

    attempt: int
    step: int


class TracedAttempt:
    """One attempt with its steps."""

    def __init__(self, reader: SessionReader, row: model.TraceAttempt) -> None:
        self.row = row
        self.steps: Sequence[model.TraceStep] = sorted(
            reader.rows(model.TraceStep, trace=row.id), key=lambda step: step.position
        )
        self.calls: Mapping[int, model.TracedCall] = {
            call.call: call for call in reader.rows(model.TracedCall, trace=row.id)
        }
        self.nodes: Sequence[model.TracedNode] = sorted(
            reader.rows(model.TracedNode, trace=row.id), key=lambda node: node.position
        )

    @cached_property
    def _positions_of_nodes(self) -> list[int]:
        return [node.position for node in self.nodes]

    @cached_property
    def steps_of_call(self) -> Mapping[int, Sequence[int]]:
        """Call → its steps, as indices."""
        steps: dict[int, list[int]] = defaultdict(list)
        for at, step in enumerate(self.steps):
            steps[step.call].append(at)
        return steps

    def nodes_before(self, at: int) -> Sequence[model.TracedNode]:
        """Return the nodes of the graph when a step begins."""
        position = self.steps[at].position
        return self.nodes[: bisect_right(self._positions_of_nodes, position - 1)]

    def nodes_at(self, at: int) -> Sequence[model.TracedNode]:
        """Return the nodes that were added at a step."""
        position = self.steps[at].position
        first = bisect_right(self._positions_of_nodes, position - 1)
        return self.nodes[first : bisect_right(self._positions_of_nodes, position)]

    def at_position(self, position: int) -> int:
        """Return the index of the step with this position, or of the last one before it."""
        positions = [step.position for step in self.steps]
        return max(0, bisect_right(positions, position) - 1)

    def guards_before(self, at: int) -> int:
        """Return the number of guards when a step begins."""
        return sum(step.guard_count for step in self.steps[:at])

    def callers(self, call: int) -> list[int]:
        """Return the calls that a call was inlined into, innermost first."""
        callers: list[int] = []
        row = self.calls.get(call)
        # In a damaged file calls may lead round in a circle.
        while row is not None and row.parent and row.parent not in callers:
            callers.append(row.parent)
            row = self.calls.get(row.parent)
        return callers

    def function_of(self, call: int) -> str:
        row = self.calls.get(call)
        if row is not None:
            return row.function
        return self.row.function

    def file_of(self, at: int) -> int:
        """Return the SourceFile of a step; 0 if it is not known."""
        row = self.calls.get(self.steps[at].call)
        return row.file if row is not None else 0


class TraceRecord:
    """All attempts of a session, in the order in which Dynamo made them."""

    def __init__(self, reader: SessionReader, rows: Sequence[model.TraceAttempt]) -> None:
        self.rows = rows
        self._reader = reader
        self._read: OrderedDict[int, TracedAttempt] = OrderedDict()

    def attempt(self, number: int) -> TracedAttempt:
        if number not in self._read:
            self._read[number] = TracedAttempt(self._reader, self.rows[number])
            while len(self._read) > READ_AT_ONCE:
                self._read.popitem(last=False)
        self._read.move_to_end(number)
        return self._read[number]

    def step(self, point: TracePoint) -> model.TraceStep:
        return self.attempt(point.attempt).steps[point.step]


def read_trace(reader: SessionReader) -> TraceRecord | None:
    """Read the trace of a session; None if nothing of it was recorded."""
    rows = [row for row in reader.rows(model.TraceAttempt) if row.steps or not row.ended]
    rows = [row for row in rows if reader.count(model.TraceStep, trace=row.id)]
    if not rows:
        return None
    return TraceRecord(reader, rows)


def first_point(
    record: TraceRecord, reader: SessionReader, place: Place | None, compilation: str
) -> TracePoint:
    """Return the first step at a line of source, or the step that added a node of Dynamo's graph;
    in the named compilation, and of its last attempt. Without one, the beginning of the
    compilation, or the very first step.
    """
    owner = compilation or (place.document.owner if place else "")
    names = {row.id: row.name for row in reader.rows(model.Compilation)}
    candidates = []
    for number, row in enumerate(record.rows):
        if not owner or names.get(row.compilation) == owner:
            candidates.append(number)
    for number in _last_attempts(record, candidates):
        at = _step_of_place(reader, record.attempt(number), place)
        if at is not None:
            return TracePoint(number, at)
    if owner and candidates:
        return TracePoint(candidates[0], 0)
    return TracePoint(0, 0)


def _step_of_place(
    reader: SessionReader, attempt: TracedAttempt, place: Place | None
) -> int | None:
    if place is None:
        return None
    if place.document.kind == "source":
        for at, step in enumerate(attempt.steps):
            is_there = step.line == place.line + 1 and step.kind != "call"
            if is_there and attempt.file_of(at) == place.document.id:
                return at
    elif place.document.kind == "graph":
        graph = reader.get(model.Graph, place.document.id)
        nodes = reader.nodes(graph, place.line, place.line + 1)
        for traced in attempt.nodes:
            if graph.stage == "dynamo" and nodes and traced.name == nodes[0].name:
                return attempt.at_position(traced.position)
    return None


def _last_attempts(record: TraceRecord, numbers: Sequence[int]) -> list[int]:
    """Return the last attempt of each compilation, then the others."""
    last = {record.rows[number].compilation: number for number in numbers}
    return [*last.values(), *(number for number in numbers if number not in last.values())]


# ways of moving


def moved(record: TraceRecord, point: TracePoint, move: Move) -> TracePoint | None:
    """Return the step that a move leads to; None without one."""
    if move == "first":
        return TracePoint(0, 0)
    if move == "last":
        last = len(record.rows) - 1
        return TracePoint(last, len(record.attempt(last).steps) - 1)
    if move in ("forward", "next_graph"):
        return _next_of_all(record, point, 1, only_news=move == "next_graph")
    if move in ("back", "graph_before"):
        return _next_of_all(record, point, -1, only_news=move == "graph_before")
    attempt = record.attempt(point.attempt)
    at = _within(attempt, point.step, move)
    if at is not None:
        return TracePoint(point.attempt, at)
    if move == "next_line" and point.attempt + 1 < len(record.rows):
        return TracePoint(point.attempt + 1, 0)
    if move == "line_before" and point.attempt:
        before = record.attempt(point.attempt - 1)
        return TracePoint(point.attempt - 1, len(before.steps) - 1)
    return None


def _next_of_all(
    record: TraceRecord, point: TracePoint, way: int, *, only_news: bool
) -> TracePoint | None:
    """Return the next step in a direction, of any attempt; with ``only_news`` the next at which a
    node is added or something happens.
    """
    number, at = point.attempt, point.step + way
    while 0 <= number < len(record.rows):
        attempt = record.attempt(number)
        while 0 <= at < len(attempt.steps):
            step = attempt.steps[at]
            if not only_news or step.node_count or step.event:
                return TracePoint(number, at)
            at += way
        number += way
        if 0 <= number < len(record.rows):
            at = 0 if way > 0 else len(record.attempt(number).steps) - 1
    return None


def _within(attempt: TracedAttempt, at: int, move: Move) -> int | None:
    """Return where a move leads within an attempt: to another line or call."""
    step = attempt.steps[at]
    callers = set(attempt.callers(step.call))
    is_ahead = move in ("next_line", "into", "out")
    others = range(at + 1, len(attempt.steps)) if is_ahead else range(at - 1, -1, -1)
    for other in others:
        candidate = attempt.steps[other]
        is_here = candidate.call == step.call
        if move == "into":
            row = attempt.calls.get(candidate.call)
            is_wanted = row is not None and row.parent == step.call
            if candidate.call in callers:
                return None
        elif move in ("next_line", "line_before"):
            is_other_line = is_here and candidate.line != step.line
            is_event = is_here and bool(candidate.event)
            is_wanted = is_other_line or is_event or candidate.call in callers
        else:
            is_wanted = candidate.call in callers
        if is_wanted:
            return other
    return None


# the state at a step


@dataclass(frozen=True, slots=True)
class TraceState:
    """The symbolic stack and the local variables before an instruction."""

    stack: Sequence[StepValue]
    """The top first."""
    locals: Sequence[StepValue]


def state_at(attempt: TracedAttempt, at: int) -> TraceState | None:
    """Return the state at a step; None where the steps have none."""
    steps = _steps_with_state(attempt, at)
    if not steps:
        return None
    stack: list[str] = []
    values: dict[str, str] = {}
    old_stack, old_values = stack, values
    for step in steps:
        old_stack, old_values = list(stack), dict(values)
        if step.is_whole:
            stack, values = [], {}
        elif step.popped:
            stack = stack[: len(stack) - step.popped]
        stack = [*stack, *step.pushed]
        for name, text in (step.changed or {}).items():
            if text:
                values[name] = text
            else:
                values.pop(name, None)
    if len(steps) == 1:
        old_stack, old_values = stack, values
    return TraceState(_stack(old_stack, stack), _locals(old_values, values))


def _steps_with_state(attempt: TracedAttempt, at: int) -> list[model.TraceStep]:
    """Return the steps of the call from its last whole state on, up to this step."""
    steps: list[model.TraceStep] = []
    numbers = attempt.steps_of_call.get(attempt.steps[at].call, ())
    for number in reversed(numbers[: bisect_right(numbers, at)]):
        step = attempt.steps[number]
        if step.instruction:
            steps.append(step)
            if step.is_whole:
                break
    steps.reverse()
    return steps


def _stack(before: Sequence[str], now: Sequence[str]) -> list[StepValue]:
    values = []
    for i, text in enumerate(now):
        is_new = i >= len(before) or before[i] != text
        values.append(StepValue(f"[{i}]", text, is_new))
    return values[::-1]


def _locals(before: Mapping[str, str], now: Mapping[str, str]) -> list[StepValue]:
    values = []
    for name, text in now.items():
        was = before.get(name, "")
        values.append(StepValue(name, text, was != text, was if was != text else ""))
    for name, text in before.items():
        if name not in now:
            values.append(StepValue(name, text, is_changed=True, is_gone=True))
    return values


def frames_at(attempt: TracedAttempt, at: int) -> Iterator[tuple[model.TracedCall, int]]:
    """Yield the call of a step and those that it was inlined into, innermost first, each with the
    line that it is at.
    """
    step = attempt.steps[at]
    line = step.line
    for number in (step.call, *attempt.callers(step.call)):
        call = attempt.calls.get(number)
        if call is None:
            return
        yield call, line
        line = call.parent_line
