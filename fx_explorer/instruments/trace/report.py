"""This module has Dynamo's trace as JSON: the tree of lines and calls, and everything that Dynamo
did at one line.
"""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.dynamo_trace import TracedAttempt, frames_at, state_at
from fx_explorer.analysis.lineage import first_variants
from fx_explorer.instruments.trace.figures import (
    TracedFunction,
    resumed_by,
    traced_compilations,
    walk,
)
from fx_explorer.instruments.trace.view import is_idle
from fx_explorer.session import SessionReader

Json = dict[str, object]

MOST_STEPS = 400
"""Maximum number of steps of a line that are listed."""


def trace_json(reader: SessionReader) -> list[Json]:
    """Return one object for each compilation, line and call, in the order in which Dynamo traced,
    with its depth in the tree.
    """
    files = _paths(reader)
    rows: list[Json] = []
    for traced in traced_compilations(reader):
        compilation, last = traced.compilation, traced.attempts[-1]
        restarts = [row.reason for row in traced.attempts if row.ended == "restarted"]
        rows.append(
            {
                "depth": 0,
                "what": "compilation",
                "compilation": compilation.name,
                "name": compilation.function,
                "file": compilation.file,
                "line": compilation.line,
                "attempts": len(traced.attempts),
                "started_over": restarts,
                "ended": last.ended,
                "reason": last.reason,
                "nodes": last.nodes,
                "guards": last.guards,
                "steps": last.steps,
                "steps_left_out": last.left_out,
            }
        )
        if traced.root:
            for depth, row, function in walk(traced.root):
                if isinstance(row, TracedFunction):
                    rows.append(_call_row(row, depth + 1, compilation.name, files))
                elif not is_idle(row, function):
                    rows.append(
                        {
                            "depth": depth + 1,
                            "what": "line",
                            "compilation": compilation.name,
                            "file": files.get(function.file, ""),
                            "line": row.line,
                            "times": row.times,
                            "nodes": row.nodes,
                            "guards": row.guards,
                            "node_names": row.node_names,
                            "events": row.events,
                        }
                    )
        rows += _rest(reader, compilation)
    return rows


def _call_row(call: TracedFunction, depth: int, compilation: str, files: dict[int, str]) -> Json:
    return {
        "depth": depth,
        "what": "inlined call",
        "compilation": compilation,
        "name": call.function,
        "module": call.module,
        "file": files.get(call.file, ""),
        "line": call.first_line,
        "times": call.times,
        "nodes": call.nodes,
        "guards": call.guards,
    }


def _rest(reader: SessionReader, compilation: model.Compilation) -> Iterator[Json]:
    """Yield what runs in eager mode where the graph ends, and the resume functions."""
    for graph_break in reader.rows(model.GraphBreak, compilation=compilation.id):
        yield {
            "depth": 1,
            "what": "runs in eager mode",
            "compilation": compilation.name,
            "name": graph_break.code.strip(),
            "file": graph_break.file,
            "line": graph_break.line,
            "reason": graph_break.reason,
        }
    for resumed, owner in resumed_by(reader, compilation.id):
        yield {
            "depth": 1,
            "what": "resume function",
            "compilation": compilation.name,
            "name": resumed.name,
            "line": resumed.line,
            "traced_as": owner,
        }


def line_json(reader: SessionReader, file: int, line: int) -> list[Json]:
    """Return what Dynamo did at a line: one object for each function and compilation that has the
    line, with what the calls there added; then each step, those of discarded attempts last.
    """
    rows = [*_summaries(reader, file, line)]
    steps: list[Json] = []
    discarded: list[Json] = []
    for step in _steps_at_line(reader, file, line):
        if step["is_discarded"]:
            discarded.append(step)
        else:
            steps.append(step)
    return [*rows, *[*steps, *discarded][:MOST_STEPS]]


def _summaries(reader: SessionReader, file: int, line: int) -> Iterator[Json]:
    for traced in traced_compilations(reader):
        if traced.root is None:
            continue
        functions = [traced.root]
        functions += [row for _, row, _ in walk(traced.root) if isinstance(row, TracedFunction)]
        for function in functions:
            at = function.lines.get(line)
            if function.file != file or at is None or is_idle(at, function):
                continue
            yield {
                "what": "line",
                "compilation": traced.compilation.name,
                "function": function.function,
                "module": function.module,
                "times": at.times,
                "nodes": at.nodes,
                "guards": at.guards,
                "node_names": at.node_names,
                "inlined": [name for name, _, _ in at.calls],
                "event": "; ".join(dict.fromkeys(at.events)),
            }


def _steps_at_line(reader: SessionReader, file: int, line: int) -> Iterator[Json]:
    names = {row.id: row.name for row in first_variants(reader)}
    for row in reader.rows(model.TraceAttempt):
        calls = {call.call for call in reader.rows(model.TracedCall, trace=row.id, file=file)}
        if not calls:
            continue
        attempt = TracedAttempt(reader, row)
        last_call = 0
        for at, step in enumerate(attempt.steps):
            if step.line == line and step.call in calls:
                name = names.get(row.compilation, "")
                yield _step_row(attempt, at, name, has_all_locals=step.call != last_call)
                last_call = step.call


def _step_row(attempt: TracedAttempt, at: int, compilation: str, *, has_all_locals: bool) -> Json:
    step, row = attempt.steps[at], attempt.row
    called = [f"{call.function}:{line}" for call, line in frames_at(attempt, at)]
    fields: Json = {
        "what": "step",
        "compilation": compilation,
        "attempt": row.attempt,
        "is_discarded": row.ended == "restarted",
        "step": at + 1,
        "function": attempt.function_of(step.call),
        "inlined_into": called[1:],
        "instruction": step.instruction,
        "node_names": [node.name for node in attempt.nodes_at(at)],
        "guards_added": list(step.guards),
        "event": step.event,
    }
    state = state_at(attempt, at) if step.instruction else None
    if state is not None:
        fields["stack"] = [value.text for value in state.stack]
        values = [value for value in state.locals if has_all_locals or value.is_changed]
        fields["locals"] = {value.name: "" if value.is_gone else value.text for value in values}
    return fields


def _paths(reader: SessionReader) -> dict[int, str]:
    return {file.id: file.path for file in reader.rows(model.SourceFile)}
