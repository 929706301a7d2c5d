"""This module writes down the steps of one attempt of Dynamo's. A step is written when the next one
begins: only then it is known which nodes and guards were added at it. Of the symbolic stack and the
local variables only what differs from the step before in the same call is kept.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from fx_explorer.capture.dynamo.source_names import name_of_source
from fx_explorer.capture.dynamo.symbolic_values import IsGuarded, describe_symbolic, state_of
from fx_explorer.capture.recording.described import described
from fx_explorer.capture.recording.function_names import qualified_name
from fx_explorer.model import (
    AttemptEnd,
    CallEnd,
    TraceAttempt,
    TracedCall,
    TracedNode,
    TraceStep,
    TraceStepKind,
)
from fx_explorer.session import SessionWriter

BATCH = 1_000
"""Number of steps that are written together."""

MOST_NAMES = 100
"""Maximum number of nodes, guards, values of a stack or locals that are listed of one step."""

WHOLE_EVERY = 200
"""Number of steps of a call after which the whole state is kept, so that a reader finds the state
of any step without going through all before.
"""


class Limit:
    """Counts the steps of a session down."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def take(self) -> bool:
        """Return whether one more step may be written."""
        self._left -= 1
        return self._left >= 0


class CallBeingTraced:
    """A function that is being traced, and its state at its last step."""

    def __init__(self, row: TracedCall, translator: Any) -> None:
        self.row = row
        self.translator = translator
        self.is_at_new_line = False
        """Whether Dynamo has come to a line whose step is not written yet."""
        self.stack: list[tuple[Any, int]] = []
        self.locals: dict[str, tuple[Any, int]] = {}
        self.steps_since_whole = WHOLE_EVERY


class _Open:
    """The last step, to which nodes and guards may still be added."""

    def __init__(self, position: int, call: int, line: int, kind: TraceStepKind) -> None:
        self.position = position
        self.call = call
        self.line = line
        self.kind = kind
        self.starts_line = False
        self.offset = -1
        self.instruction = ""
        self.popped = 0
        self.pushed: tuple[str, ...] = ()
        self.changed: dict[str, str] | None = None
        self.is_whole = False
        self.event = ""


class Attempt:
    """One run of Dynamo over a function."""

    def __init__(
        self, writer: SessionWriter, row: TraceAttempt, context: Any, limit: Limit
    ) -> None:
        self.row = row
        self.context = context
        """Torch's TracingContext of this attempt."""
        self.calls: list[CallBeingTraced] = []
        """The calls that are being traced, the outermost first."""
        self._writer = writer
        self._limit = limit
        self._calls_begun = 0
        self._positions = 0
        self._left_out = 0
        self._open: _Open | None = None
        self._steps: list[TraceStep] = []
        self._ended_calls: list[TracedCall] = []
        self._nodes: list[tuple[int, Any, bool]] = []
        """(step, node, whether it is in a nested graph). Nodes are renamed later."""
        self._settled_nodes = 0
        self._guards: Any = ()
        """Torch's set of guards when they were counted last."""
        self._guard_count = 0

    def next_call(self) -> int:
        self._calls_begun += 1
        return self._calls_begun

    def end_call(self, call: CallBeingTraced, ended: CallEnd, error: str) -> None:
        """End the innermost call."""
        if call.is_at_new_line:
            self.add(call, "line", call.translator.lineno)
        self.calls.pop()
        self._ended_calls.append(replace(call.row, ended=ended, error=error))

    def note_node(self, node: Any, is_nested: bool) -> None:
        """Note that a node was added at the present step."""
        if self._open is not None:
            self._nodes.append((self._open.position, node, is_nested))

    def come_to_line(self, call: CallBeingTraced) -> None:
        """Note that the next step of the call is the first of a line."""
        if call.is_at_new_line:  # nothing happened at the line before
            self.add(call, "line", call.translator.lineno)
        call.is_at_new_line = True

    def add(self, call: CallBeingTraced, kind: TraceStepKind, line: int, event: str = "") -> None:
        """Begin a step."""
        if call.is_at_new_line and kind not in ("line", "instruction"):
            self.add(call, "line", line)
        if self._is_first_line(call, kind, line):
            return
        self._settle()
        if not self._limit.take():
            self._left_out += 1
            return
        step = _Open(self._positions, call.row.call, line, kind)
        step.starts_line = call.is_at_new_line
        step.event = event
        call.is_at_new_line = False
        self._positions += 1
        self._open = step

    def _is_first_line(self, call: CallBeingTraced, kind: TraceStepKind, line: int) -> bool:
        """Return whether the present step, at which the call begins, is this one too."""
        step = self._open
        if step is None or step.kind != "call" or kind not in ("line", "instruction"):
            return False
        if step.call != call.row.call or step.line != line or step.instruction:
            return False
        step.starts_line, call.is_at_new_line = call.is_at_new_line, False
        return True

    def add_instruction(self, call: CallBeingTraced, instruction: Any) -> None:
        """Begin the step of an instruction, with the state before it."""
        # Instructions before the first line have none.
        line = max(call.translator.lineno, call.row.first_line)
        self.add(call, "instruction", line)
        step = self._open
        if step is not None:
            step.offset = -1 if instruction.offset is None else instruction.offset
            step.instruction = _instruction_text(instruction)
            self.add_state(call)

    def add_state(self, call: CallBeingTraced) -> None:
        """Give the present step the stack and the locals of its call."""
        step = self._open
        if step is None:
            return
        if call.steps_since_whole >= WHOLE_EVERY:
            call.stack, call.locals, call.steps_since_whole = [], {}, 0
            step.is_whole = True
        call.steps_since_whole += 1
        translator = call.translator
        is_guarded = self._is_guarded()
        stack = [(value, state_of(value)) for value in translator.stack]
        common = _common(call.stack, stack)
        step.popped = len(call.stack) - common
        pushed = stack[common:][-MOST_NAMES:]
        if pushed:
            step.pushed = tuple(describe_symbolic(value, is_guarded) for value, _ in pushed)
        call.stack = stack
        step.changed = _changed(call, translator.symbolic_locals, is_guarded)

    def finish(self, ended: AttemptEnd, reason: str) -> None:
        """Write what is left."""
        self._settle()
        self._flush()
        self._writer.add_all(
            TracedNode(
                0,
                self.row.id,
                position,
                node.name,
                is_nested,
                bool(getattr(node, "_erased", False)),
            )
            for position, node, is_nested in self._nodes
        )
        self._writer.update(
            replace(
                self.row,
                ended=ended,
                reason=reason,
                steps=self._positions,
                left_out=self._left_out,
                nodes=len(self._nodes),
                guards=len(self._guards_set().inner),
            )
        )

    # what was added at a step

    def _settle(self) -> None:
        """Close the last step: what was added since belongs to it."""
        step = self._open
        if step is None:  # before the first one, or beyond the limit
            return
        guards = self._new_guards()
        nodes = len(self._nodes) - self._settled_nodes
        self._open, self._settled_nodes = None, len(self._nodes)
        self._steps.append(
            TraceStep(
                0,
                self.row.id,
                step.position,
                step.call,
                step.line,
                step.kind,
                step.starts_line,
                step.offset,
                step.instruction,
                step.popped,
                step.pushed,
                step.changed or None,
                step.is_whole,
                tuple(_guard_text(guard) for guard in guards[:MOST_NAMES]),
                nodes,
                len(guards),
                step.event,
            )
        )
        if len(self._steps) >= BATCH:
            self._flush()

    def _guards_set(self) -> Any:
        return self.context.guards_context.dynamo_guards

    def _new_guards(self) -> list[Any]:
        """Return the guards that were added since this was called last."""
        guards = self._guards_set().inner
        if guards is self._guards and len(guards) == self._guard_count:
            return []
        if guards is self._guards or not self._guard_count:
            new = list(islice(reversed(guards), len(guards) - self._guard_count))
            new.reverse()
        else:  # torch has made another set, without some of them
            new = [guard for guard in guards if guard not in self._guards]
        self._guards, self._guard_count = guards, len(guards)
        return new

    def _is_guarded(self) -> IsGuarded:
        by_source = self._guards_set().source_to_guards
        return lambda source: bool(by_source.get(source))

    def _flush(self) -> None:
        self._writer.add_all(self._steps)
        self._writer.add_all(self._ended_calls)
        self._steps, self._ended_calls = [], []


def _common(before: list[tuple[Any, int]], now: list[tuple[Any, int]]) -> int:
    """Return how many values from the bottom are the same."""
    count = 0
    for (old, old_state), (new, new_state) in zip(before, now, strict=False):
        if old is not new or old_state != new_state:
            break
        count += 1
    return count


def _changed(
    call: CallBeingTraced, values: Mapping[str, Any], is_guarded: IsGuarded
) -> dict[str, str]:
    """Return the words for the locals that have changed, and note how they are now."""
    before = call.locals
    changed = {}
    for name, value in islice(values.items(), MOST_NAMES):
        state = state_of(value)
        known = before.get(name)
        if known is None or known[0] is not value or known[1] != state:
            before[name] = value, state
            changed[name] = describe_symbolic(value, is_guarded)
    if len(before) > len(values):
        for name in [name for name in before if name not in values]:
            del before[name]
            changed[name] = ""
    return changed


def _instruction_text(instruction: Any) -> str:
    """Return ``LOAD_FAST x``. Its argument is a name, or a constant of the code."""
    argument = instruction.argval
    if argument is None and instruction.opname != "LOAD_CONST":
        return str(instruction.opname)
    if type(argument) is str:
        text = argument
    elif type(argument) is tuple:
        text = ", ".join(map(described, argument))
    elif type(argument) is types.CodeType:
        text = f"code of {qualified_name(argument)}"
    else:
        text = described(argument)
    return f"{instruction.opname} {text}"


def _guard_text(guard: Any) -> str:
    kind = guard.create_fn_name()
    name = name_of_source(guard.originating_source)
    return f"{kind} {name}".strip()
