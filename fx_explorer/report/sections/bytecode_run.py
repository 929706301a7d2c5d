"""The recorded run of Dynamo's bytecode, in figures; its steps are for the app."""

from __future__ import annotations

from fx_explorer.analysis.step_record import COMPILED_GRAPH, read_record
from fx_explorer.session import SessionReader

Json = dict[str, object]


def bytecode_run(reader: SessionReader) -> Json | None:
    """Return the recorded run of bytecode; None when nothing was recorded."""
    record = read_record(reader)
    if record is None:
        return None
    run, functions = record.run, {step.call: step.function for step in record.steps}
    return {
        "inputs": run.inputs,
        "ended": run.ended or None,
        "steps": len(record.steps),
        "in_words": run.said or None,
        "functions": list(functions.values()),
        "graphs_called": [
            step.calls for step in record.steps if step.calls.startswith(COMPILED_GRAPH)
        ],
    }
