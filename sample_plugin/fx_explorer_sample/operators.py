"""A section of reports: the most frequent operators after Inductor's passes."""

from __future__ import annotations

from collections import Counter

from fx_explorer.plugins import Column, Row, Section, SessionReader, Table, model

MOST = 20
"""Maximum number of operators that are listed."""


def operators_table(reader: SessionReader) -> Table:
    """Return a row for each operator, the most frequent first."""
    counts: Counter[str] = Counter()
    for graph in reader.rows(model.Graph, stage="post_grad"):
        for node in reader.nodes(graph):
            if node.op == "call_function":
                counts[node.target] += 1
    rows = [
        Row(cells=(target, f"{count:,}"), numbers={"calls": count})
        for target, count in counts.most_common(MOST)
    ]
    return Table(
        columns=(Column(title="operator"), Column(title="calls", is_number=True)),
        rows=rows,
        answer=f"{len(counts)} operators are called {sum(counts.values()):,} times.",
        empty="No graph after Inductor's passes was recorded.",
        origin="the graphs after Inductor's passes",
    )


OPERATORS = Section(
    interface=1,
    title="Operators",
    shows="The most frequent operators after Inductor's passes.",
    table=operators_table,
)
