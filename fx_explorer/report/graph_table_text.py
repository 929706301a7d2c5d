"""A graph as FX's own table for a person at a terminal: in its width, where a file has every cell whole."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.graph_code.table import COLUMNS, table_row
from fx_explorer.analysis.graph_code.written import origin_in_words
from fx_explorer.session import SessionReader
from fx_explorer.text_table import ColumnRules, text_table

FITTED = ColumnRules(
    names={"name": 22, "target": 16, "args": 16, "kwargs": 10, "value": 14},
    first_to_go=("kwargs", "opcode"),
)


def graph_table_text(reader: SessionReader, graph: model.Graph, title: str, width: int) -> str:
    """Return the table in ``width`` cells, names and arguments cut in the middle, below a line that says which graph it is."""
    table = text_table(COLUMNS, [table_row(node) for node in reader.nodes(graph)], FITTED, width)
    lines = [
        f"# {origin_in_words(reader, graph, title)}",
        "",
        *table.lines,
        "",
        *table.left_out_in_words("-o FILE"),
    ]
    return "\n".join(lines).rstrip() + "\n"
