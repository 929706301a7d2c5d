"""The answer about Dynamo's trace: all of it as a tree, or what it did at one line."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.documents import texts_titled
from fx_explorer.analysis.words import counted, how_often, listed
from fx_explorer.answers.answer import Answer, Json
from fx_explorer.answers.of_line import source_place
from fx_explorer.answers.references import code_questions
from fx_explorer.instruments.trace.report import line_json, trace_json
from fx_explorer.instruments.trace.view import missing_hook
from fx_explorer.report.sections import section_of
from fx_explorer.session import SessionReader

KNOWN_FROM = "Dynamo itself, observed while it traced: TORCH_LOGS=trace_source"
WITH_INSTRUCTIONS = ", trace_bytecode"

RECORD_ALL = (
    "Lines only: capture with --record-trace for each instruction, the symbolic stack and the "
    "local variables."
)


def of_trace(reader: SessionReader, where: str) -> Answer:
    """Return what Dynamo did, as a tree; with ``FILE:LINE``, what it did at that line, step by
    step. Raises UsageError for a line that the session does not have.
    """
    has_instructions = reader.has(model.TraceAttempt, has_instructions=True)
    known_from = KNOWN_FROM + (WITH_INSTRUCTIONS if has_instructions else "")
    if not where:
        rows = trace_json(reader)
        return Answer(
            text=section_of(reader, "trace").answer,
            rows=rows,
            known_from=known_from,
            fields=(
                "depth", "what", "compilation", "name", "line", "times", "nodes", "guards",
                "node_names", "events", "reason", "started_over", "traced_as",
            ),
            next=["breaks", "guards"] if rows else _where_trace_is_printed(reader),
        )  # fmt: skip
    place = source_place(reader, where)
    name = f"{place.document.title}:{place.line + 1}"
    rows = line_json(reader, place.document.id, place.line + 1)
    text = _sentence(name, rows)
    if missing := missing_hook(reader):
        text = f"{text} {missing}."
    elif rows and not has_instructions:
        text = f"{text} {RECORD_ALL}"
    return Answer(text=text, rows=rows, known_from=known_from, next=[f"line {name}", "trace"])


def _where_trace_is_printed(reader: SessionReader) -> list[str]:
    """Return the questions that show what TORCH_LOGS=trace_source printed."""
    return code_questions(texts_titled(reader, "trace_source")) or ["eager"]


def _sentence(name: str, rows: list[Json]) -> str:
    lines = [row for row in rows if row["what"] == "line"]
    if not rows:
        return f"Dynamo did not trace {name}."
    if not lines and all(row["is_discarded"] for row in rows):
        return f"Dynamo traced {name} only in attempts that it discarded."
    if not lines:
        return f"At {name}, Dynamo only entered a function: it recorded no call, node or guard."
    nodes = sum(row["nodes"] for row in lines)
    guards = sum(row["guards"] for row in lines)
    inlined = dict.fromkeys(function for row in lines for function in row["inlined"])
    times = sum(row["times"] for row in lines)
    compilations = len({row["compilation"] for row in lines})
    text = f"Dynamo traced {name} {how_often(times)}"
    if compilations > 1:
        text += f" in {counted(compilations, 'compilation')}"
    if inlined:
        text += f", inlined {listed(inlined, 4)}"
    text += f", and added {counted(nodes, 'node')} and {counted(guards, 'guard')}"
    events = dict.fromkeys(str(row["event"]) for row in lines if row["event"])
    if events:
        text += f"; {listed(events, 3)}"
    return f"{text}."
