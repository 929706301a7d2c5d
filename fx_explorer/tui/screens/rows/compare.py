"""Two variants side by side, as rows: the figures first, then the documents whose difference can be
looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer import model
from fx_explorer.analysis.comparing.compare import DocumentPair, Figure
from fx_explorer.analysis.diff import DiffRow
from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.nodes import node_words
from fx_explorer.analysis.variants.other_variants import variant_in_words
from fx_explorer.analysis.words import counted
from fx_explorer.session import SessionReader
from fx_explorer.tui.widgets.row_list import Column, Row


def figure_columns(reader: SessionReader, left: model.Compilation, right: model.Compilation) -> tuple[Column, ...]:
    sides = (Column(side_title(reader, variant), "text", min_width=14, max_width=60) for variant in (left, right))
    return (Column("", "strong", min_width=26, max_width=44), *sides)


def side_title(reader: SessionReader, variant: model.Compilation) -> str:
    """Return ``[0/0~1] eager``: the name, and what makes the variant differ; for a first variant,
    its backend.
    """
    words = (word.removeprefix("compile.backend = ") for word in variant_in_words(reader, variant))
    return f"[{variant.name}] {', '.join(words) or variant.backend}".strip()


DIFF_COLUMNS = (
    Column("", "muted", min_width=1, max_width=1),
    Column("", "text", min_width=24, max_width=200),
    Column("", "text", min_width=24, max_width=200),  # as wide as the other column; as the last one it would not be cut
)

SIGN_KINDS = {" ": "muted", "-": "bad", "+": "good", "~": "warning"}
"""Sign → kind. A sign is given because colour alone must not carry meaning."""


def figure_row(figure: Figure) -> Row:
    kind = "warning" if figure.differs else "muted"
    return (figure.what, (figure.left, kind), (figure.right, kind))


def pair_row(pair: DocumentPair) -> Row:
    """Return a row of documents. One that was made before the variants parted is the same in
    both.
    """
    if pair.is_shared:
        return (f"→ {pair.title}", ("shared", "muted"), ("shared", "muted"))
    return (f"→ {pair.title}", _extent(pair.left), _extent(pair.right))


def _extent(document: Document | None) -> str:
    if document is None:
        return "none"
    return counted(document.line_count, "node" if document.kind == "graph" else "line")


def diff_rows(rows: Sequence[DiffRow[model.Node]] | Sequence[DiffRow[str]]) -> list[Row]:
    return [((row.sign, SIGN_KINDS[row.sign]), _side(row, row.before), _side(row, row.after)) for row in rows]


def _side(row: DiffRow[model.Node] | DiffRow[str], item: model.Node | str | None) -> tuple[str, str]:
    kind = "text" if row.sign == " " else SIGN_KINDS[row.sign]
    if item is None:
        return "", kind
    return (item if isinstance(item, str) else node_words(item)), kind
