"""What ``numerics`` learned as text, markdown, CSV and JSON: the answer first, then a row for each
way of running the program, and for each node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from fx_explorer.analysis.words import counted
from fx_explorer.instruments.numerics.verdict import STATES, is_wrong, verdict
from fx_explorer.model import Numerics, NumericsNode, NumericsRun
from fx_explorer.output.formats import (
    csv_of_objects,
    json_text,
    markdown_list,
    markdown_table,
    text_of,
)
from fx_explorer.output.table import Column, Table
from fx_explorer.session.file_names import in_file

SCHEMA = "fx-explorer/numerics/1"

RUN_COLUMNS = (
    Column("run as", narrowing="cut", least=16),
    Column("results", narrowing="wrapped", least=12),
    Column("largest difference"),
    Column("error"),
    Column("eager's error"),
    Column("where", narrowing="cut", least=12, priority=1),
)

NODE_COLUMNS = (
    Column("node", narrowing="cut", least=10),
    Column("operation", narrowing="cut", least=14),
    Column("eager's error"),
    Column("error"),
    Column("results", narrowing="cut", least=8),
    Column("your line", narrowing="cut", least=10, priority=1),
)

RESULTS = {
    "equal": "equal",
    "within_error": "within eager's error",
    "differs": "differs",
    "not_compared": "not compared",
    "": "",
}

AROUND = 5
"""Number of nodes that the text shows before and behind the first that differs."""


def run_table(numerics: Numerics) -> Table:
    return Table(RUN_COLUMNS, [_run_row(run) for run in numerics.runs])


def _run_row(run: NumericsRun) -> tuple[str, ...]:
    if run.state != "measured":
        return (run.name, STATES[run.state], "", "", "", "")
    return (
        run.name,
        RESULTS[run.agreement],
        number_text(run.largest),
        number_text(run.error),
        number_text(run.eager_error),
        run.where,
    )


def node_row(node: NumericsNode) -> tuple[str, ...]:
    line = in_file(node.file, node.line) if node.file else ""
    return (
        node.name,
        node.operation,
        number_text(node.eager_error),
        number_text(node.error),
        RESULTS[node.verdict],
        line,
    )


def node_table(numerics: Numerics, *, whole: bool = False) -> Table:
    """Return the nodes around the first that differs; all where ``whole``."""
    finding = numerics.finding
    nodes = list(finding.nodes) if finding else []
    if finding and not whole:
        names = [node.name for node in nodes]
        at = names.index(finding.node) if finding.node in names else 0
        nodes = nodes[max(0, at - AROUND) : at + AROUND + 1]
    return Table(NODE_COLUMNS, [node_row(node) for node in nodes])


def number_text(value: float) -> str:
    """Return an error as it is shown."""
    if value < 0:
        return "not finite"
    return f"{value:.2g}" if value else "0"


def numerics_text(numerics: Numerics, width: int | None = None, *, whole: bool = False) -> str:
    """Return the answer and the tables as plain text."""
    blocks: list[str | Table] = [*verdict(numerics), ""]
    if numerics.runs:
        blocks += [run_table(numerics), ""]
    nodes = node_table(numerics, whole=whole)
    if nodes.rows:
        blocks += [nodes, ""]
    blocks += _notes(numerics)
    return text_of(blocks, width)


def numerics_markdown(numerics: Numerics) -> str:
    sentences = [*verdict(numerics), *_notes(numerics)]
    lines = [*markdown_list(sentences), "", *markdown_table(run_table(numerics))]
    nodes = node_table(numerics, whole=True)
    if nodes.rows:
        lines += ["", *markdown_table(nodes)]
    return "\n".join(lines) + "\n"


def numerics_csv(numerics: Numerics) -> str:
    """Return a line for each node that was compared."""
    nodes = numerics.finding.nodes if numerics.finding else ()
    return csv_of_objects([asdict(node) for node in nodes])


def numerics_json(numerics: Numerics) -> str:
    return json_text({"schema": SCHEMA, **numerics_object(numerics)})


def numerics_object(numerics: Numerics) -> dict[str, object]:
    """Return the JSON of what was learned."""
    return {
        "verdict": verdict(numerics),
        "differs": is_wrong(numerics),
        **numerics.to_json(),
    }


FORMATS: dict[str, Callable[[Numerics], str]] = {
    "text": numerics_text,
    "json": numerics_json,
    "csv": numerics_csv,
    "markdown": numerics_markdown,
}


def _notes(numerics: Numerics) -> list[str]:
    if not numerics.inputs:
        return []
    graphs = counted(numerics.graphs, "graph")
    where = "the CPU" if numerics.device == "cpu" else numerics.device
    return [
        f"Called with {numerics.inputs}, and with the same values in the opposite order, on "
        f"{where}, torch {numerics.torch}; {graphs}. Results count as equal by PyTorch's own "
        "rule."
    ]
