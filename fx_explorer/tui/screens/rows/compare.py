"""Two variants side by side, as rows: the figures first, then the documents whose difference can be
looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer import model
from fx_explorer.analysis.comparing.compare import DocumentPair
from fx_explorer.analysis.comparing.figure import Figure, Verdict, count_figure
from fx_explorer.analysis.diff import DiffRow
from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.nodes import node_words
from fx_explorer.analysis.words import counted
from fx_explorer.tui.widgets.row_list import ListColumn, Row


def figure_columns(titles: Sequence[str]) -> tuple[ListColumn, ...]:
    """Return the columns. ``titles`` say what the sides differ in, and before it what that is."""
    first, *others = titles
    sides = (ListColumn(title, "text", min_width=10, max_width=48) for title in others)
    difference = ListColumn("difference", "muted", min_width=10, max_width=40)
    return (ListColumn(first, "strong", min_width=22, max_width=40), *sides, difference)


DIFF_COLUMNS = (
    ListColumn("", "muted", min_width=1, max_width=1),
    ListColumn("", "text", min_width=24, max_width=200),
    ListColumn(
        "", "text", min_width=24, max_width=200
    ),  # as wide as the other column; as the last one it would not be cut
)

SIGN_KINDS = {" ": "muted", "-": "bad", "+": "good", "~": "warning"}
"""Sign → kind. A sign is given because colour alone must not carry meaning."""


_KINDS: dict[Verdict, str] = {"": "muted", "other": "warning", "better": "good", "worse": "bad"}


def figure_row(figure: Figure) -> Row:
    """Return the row of a figure. The difference says in words what its colour says."""
    kind = _KINDS[figure.verdict] if figure.differs else "muted"
    return (
        figure.what,
        (figure.left, "text" if figure.differs else "muted"),
        (figure.right, kind),
        (figure.change, kind),
    )


def pair_row(pair: DocumentPair) -> Row:
    """Return a row of documents. One that was made before the variants parted is the same in
    both.
    """
    if pair.is_shared:
        return (f"→ {pair.title}", ("shared", "muted"), ("shared", "muted"))
    if pair.left is None or pair.right is None:
        only = ("only on the left" if pair.left else "only on the right", "warning")
        return (f"→ {pair.title}", _extent(pair.left), _extent(pair.right), only)
    noun = _noun(pair.left)
    more = count_figure("", pair.left.line_count, pair.right.line_count).change
    # As many lines may still be other lines: what they are is compared when the cursor is on them.
    return (f"→ {pair.title}", _extent(pair.left), _extent(pair.right), more or f"as many {noun}s")


def _extent(document: Document | None) -> str:
    return "none" if document is None else counted(document.line_count, _noun(document))


def _noun(document: Document) -> str:
    return "node" if document.kind == "graph" else "line"


def diff_rows(rows: Sequence[DiffRow[model.Node]] | Sequence[DiffRow[str]]) -> list[Row]:
    return [
        ((row.sign, SIGN_KINDS[row.sign]), _side(row, row.before), _side(row, row.after))
        for row in rows
    ]


def _side(
    row: DiffRow[model.Node] | DiffRow[str], item: model.Node | str | None
) -> tuple[str, str]:
    kind = "text" if row.sign == " " else SIGN_KINDS[row.sign]
    if item is None:
        return "", kind
    return (item if isinstance(item, str) else node_words(item)), kind
