"""A view: how many operations have each dtype, in each stage's graphs."""

from __future__ import annotations

from collections import Counter

from fx_explorer.plugins import Column, Row, SessionReader, Table, View, model

COLUMNS = (
    Column(title="dtype"),
    Column(title="stage"),
    Column(title="operations", is_number=True),
)


def dtypes_table(reader: SessionReader) -> Table:
    """Return a row for each dtype of a stage, the most frequent first. Enter leads to the first
    operation that has it.
    """
    counts: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], int] = {}
    for graph in reader.rows(model.Graph):
        for node in reader.nodes(graph):
            if node.dtype and node.op.startswith("call_"):
                key = (node.dtype, graph.stage)
                counts[key] += 1
                first.setdefault(key, node.id)
    rows = []
    for (dtype, stage), count in counts.most_common():
        row = Row(
            cells=(dtype, stage, f"{count:,}"),
            node=first[dtype, stage],
            numbers={"operations": count},
            detail=f"{count:,} operations of the {stage} graphs have results of {dtype}.",
        )
        rows.append(row)
    names = sorted({dtype for dtype, _ in counts})
    return Table(
        columns=COLUMNS,
        rows=rows,
        answer=f"Operations have results of {', '.join(names)}.",
        empty="No operation has a tensor as its result.",
        origin="the dtype of node.meta['val'] in every graph",
    )


DTYPES = View(
    interface=1,
    title="dtypes",
    shows="How many operations have results of each dtype.",
    table=dtypes_table,
)
