"""This module has the recorded steps of Dynamo's bytecode, and finds where each way of moving among
them leads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.naming import plain_function
from fx_explorer.session import SessionReader

Move = Literal[
    "forward",
    "back",
    "next_line",
    "line_before",
    "into",
    "out",
    "caller",
    "next_graph",
    "graph_before",
    "first",
    "last",
]

COMPILED_GRAPH = "__compiled_fn_"


@dataclass(frozen=True)
class StepRecord:
    """A StepRecord holds the last run that was recorded instruction by instruction."""

    run: model.BytecodeRun
    steps: Sequence[model.BytecodeStep]
    lines: Mapping[tuple[int, int], tuple[int, int]]
    """(artifact, its line) → (source file, its line)."""

    def source_line(self, at: int) -> tuple[int, int]:
        """Return (source file, line from 1) of a step; (0, 0) when it is not known."""
        step = self.steps[at]
        return self.lines.get((step.artifact, step.line), (0, 0))

    def before(self, at: int) -> int | None:
        """Return the previous step in the same function call, without errors; None without one."""
        call = self.steps[at].call
        for number in range(at - 1, -1, -1):
            step = self.steps[number]
            if step.call == call and step.kind == "instruction":
                return number
        return None

    def calls_around(self, at: int) -> list[int]:
        """Return the function calls that wait for this step's call, innermost first."""
        parents = {step.call: step.parent for step in self.steps}
        calls = []
        call = self.steps[at].parent
        # In a damaged file calls may lead round in a circle.
        while call and call not in calls:
            calls.append(call)
            call = parents.get(call, 0)
        return calls


def read_record(reader: SessionReader) -> StepRecord | None:
    """Read the newest record; None if no run, or no step of it, was recorded."""
    runs = reader.rows(model.BytecodeRun)
    steps = reader.rows(model.BytecodeStep, run=runs[-1].id) if runs else []
    if not steps:
        return None
    sources: dict[tuple[int, int], tuple[int, int]] = {}
    for artifact in {step.artifact for step in steps}:
        for row in reader.sources_of_lines(artifact):
            sources[row.artifact, row.line] = row.file, row.source_line
    return StepRecord(runs[-1], steps, sources)


def moved(record: StepRecord, at: int, move: Move) -> int | None:
    """Return the position of the step that a move leads to; None without one."""
    if move == "first":
        return 0
    if move == "last":
        return len(record.steps) - 1
    is_ahead = move in ("forward", "next_line", "next_graph", "into", "out")
    steps = range(at + 1, len(record.steps)) if is_ahead else range(at - 1, -1, -1)
    if move in ("forward", "back"):
        return next(iter(steps), None)
    if move in ("next_line", "line_before"):
        return next(_on_another_line(record, at, steps), None)
    call, around = record.steps[at].call, record.calls_around(at)
    for number in steps:
        step = record.steps[number]
        if move in ("next_graph", "graph_before"):
            is_wanted = step.calls.startswith(COMPILED_GRAPH)
        elif move == "into":
            is_wanted = step.parent == call
        else:
            is_wanted = step.call in around
        if is_wanted:
            return number
    return None


def _on_another_line(record: StepRecord, at: int, among: Iterable[int]) -> Iterator[int]:
    """Yield the steps on other lines, passing over calls. Where the function begins or ends, the
    caller's steps follow.
    """
    call, line, around = record.steps[at].call, record.source_line(at), record.calls_around(at)
    for i in among:
        if record.steps[i].call in around or (
            record.steps[i].call == call and record.source_line(i) != line
        ):
            yield i


# in words


@dataclass(frozen=True, slots=True)
class StepValue:
    """A value on the stack, or a variable."""

    name: str
    """The variable's name; on the stack ``[0]``, counted from the lowest."""
    text: str
    is_changed: bool
    """Whether it changed since the step before in this function call."""
    was: str = ""
    """Its earlier text, if that differed."""
    is_gone: bool = False


def stack_of(record: StepRecord, at: int) -> list[StepValue]:
    """Return the values on the stack, the top first."""
    step = record.steps[at]
    before = record.before(at)
    texts = record.steps[before].stack if before is not None else ()
    values = []
    for i, text in enumerate(step.stack):
        was = texts[i] if i < len(texts) and texts[i] != text else ""
        values.append(StepValue(f"[{i}]", text, f"[{i}]" in step.changed, was))
    return values[::-1]


def locals_of(reader: SessionReader, record: StepRecord, at: int) -> list[StepValue]:
    """Return the function's local variables at a step, including those that the last step deleted.
    At an error they have the values at that moment.
    """
    shown = at if record.steps[at].kind == "instruction" else record.before(at)
    if shown is None:
        return []
    step, before = record.steps[shown], record.before(shown)
    now = _texts(reader, step)
    then = _texts(reader, record.steps[before]) if before is not None else {}
    values = []
    for name, text in now.items():
        other = _other(then.get(name, ""), text)
        values.append(StepValue(name, text, name in step.changed, other))
    gone = [name for name in step.changed if name in then and name not in now]
    values += [StepValue(name, then[name], is_changed=True, is_gone=True) for name in gone]
    return values


def _texts(reader: SessionReader, step: model.BytecodeStep) -> dict[str, str]:
    if not step.locals:
        return {}
    return dict(json.loads(reader.text(step.locals)))


def _other(before: str, now: str) -> str:
    return before if before != now else ""


def happening(record: StepRecord, at: int) -> str:
    """Describe the event of a step; empty for most steps."""
    step = record.steps[at]
    if step.kind == "raised":
        return f"raised {step.error}"
    if step.calls.startswith(COMPILED_GRAPH):
        return f"calls the compiled graph {step.calls}"
    if step.calls:
        return f"calls {plain_function(step.calls)}"
    return ""


def ending(run: model.BytecodeRun) -> str:
    """Describe what comes after the last step."""
    sentences = {
        "returned": "The call returned.",
        "raised": "",
        "limit": f"The limit of {run.steps:,} steps is reached: the program continued unrecorded.",
        "stopped": "",
        "": "The worker ended here.",
    }
    return " ".join(filter(None, [sentences[run.ended], run.said]))
