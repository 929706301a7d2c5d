"""A graph as FX's own table for a person at a terminal: in its width, where a file has every cell
whole.
"""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.graph_code.table import COLUMNS, table_row
from fx_explorer.analysis.graph_code.written import origin_in_words
from fx_explorer.output.table import Table
from fx_explorer.output.text import text_of
from fx_explorer.session import SessionReader


def graph_table_text(reader: SessionReader, graph: model.Graph, title: str, width: int) -> str:
    """Return the table in ``width`` cells, names and arguments cut in the middle, below a line that
    says which graph it is.
    """
    rows = [table_row(node) for node in reader.nodes(graph)]
    table = Table(COLUMNS, rows, elsewhere="-o FILE")
    return text_of([f"# {origin_in_words(reader, graph, title)}", "", table], width)
