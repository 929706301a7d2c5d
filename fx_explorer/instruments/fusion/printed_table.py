"""View v y of a log: what TORCH_LOGS=fusion printed about nodes that were not fused."""

from __future__ import annotations

from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.instruments.fusion.printed_reasons import (
    PrintedFusion,
    PrintedPair,
    describe_printed,
)
from fx_explorer.session.file_names import in_file

COLUMNS = (
    TableColumn("why apart", "strong", min_width=12),
    TableColumn("first", min_width=8),
    TableColumn("second", min_width=8),
    TableColumn("your lines", "link", min_width=12, max_width=30, keeps="end"),
    TableColumn("Inductor says", "text", min_width=20, max_width=60, priority=1),
    TableColumn("compilation", "muted", min_width=5, priority=2),
)


def printed_table(printed: PrintedFusion) -> ViewTable:
    return ViewTable(
        shows="Nodes of Inductor's scheduler that were not fused, with its reason.",
        notice="",
        origin="what TORCH_LOGS=fusion printed; op3 is Inductor's name of a node",
        columns=COLUMNS,
        rows=[_printed_row(pair) for pair in printed.pairs],
        empty="",
        answer=describe_printed(printed),
    )


def _printed_row(pair: PrintedPair) -> TableRow:
    lines = [in_file(*line) for node in (pair.first, pair.second) for line in node.lines]
    cells = (
        pair.cause.kind,
        pair.first.name,
        pair.second.name,
        " · ".join(dict.fromkeys(lines)),
        pair.reason,
        f"[{pair.compilation}]",
    )
    sentences = [pair.cause.text, f"Inductor says: “{pair.reason}”."]
    if pair.cause.change:
        sentences.append(f"What may change it: {pair.cause.change}")
    nodes = (pair.first, pair.second)
    sentences += [f"{node.name}: {node.what or 'not described'}" for node in nodes]
    if not pair.is_exact:
        sentences.append("It was asked about parts of them, before those were fused with others.")
    return TableRow(cells, pair.place, lambda: Detail("\n".join(sentences)))
