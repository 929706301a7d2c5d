"""Two variants of a compilation side by side: how their figures differ, and the difference of any
graph or text of both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from textual import work
from textual.content import Content

from fx_explorer import model
from fx_explorer.analysis.comparing.compare import DocumentPair, document_pairs, figures, pair_diff
from fx_explorer.analysis.comparing.headings import headings
from fx_explorer.analysis.diff import DiffRow, difference_in_words
from fx_explorer.analysis.naming.functions import plain_function
from fx_explorer.session import SessionReader
from fx_explorer.tui.commands import Keymap
from fx_explorer.tui.screens.difference import SHOW_DELAY_S, DifferenceScreen
from fx_explorer.tui.screens.rows.compare import diff_rows, figure_columns, figure_row, pair_row
from fx_explorer.tui.widgets.row_list import RowList, Rows


class CompareScreen(DifferenceScreen):
    """Shows the figures and documents of both above; below, the difference of the document under
    the cursor.
    """

    def __init__(
        self,
        reader: SessionReader,
        left: model.Compilation,
        right: model.Compilation,
        keymap: Keymap | None = None,
        *,
        left_had: Mapping[str, object] | None = None,
    ) -> None:
        """``left_had`` are options that were set by hand while the left one was compiled."""
        heading = f"[{left.name}] beside [{right.name}] · {plain_function(left.function)}"
        pairs = RowList(figure_columns(headings(reader, left, right, left_had)), id="figures")
        super().__init__(heading, pairs, "Choose a line with → above.", keymap)
        self._reader = reader
        self._variants = (left, right)
        self._figures = figures(reader, left, right)
        self._pairs = document_pairs(reader, left, right)

    def on_mount(self) -> None:
        self._list.load(Rows([*map(figure_row, self._figures), *map(pair_row, self._pairs)]))
        self._list.focus()
        self._show_hint(self._figure_words(0))
        self._compare(len(self._figures) + first_to_compare(self._pairs))

    def _has_difference(self, line: int) -> bool:
        return self._pair(line) is not None

    @work(name="compare", group="compare", exclusive=True, description="compare two documents")
    async def _compare(self, line: int) -> None:
        """Show the difference of a document, which stays while the cursor goes through the figures.
        A figure is shown in full.
        """
        await asyncio.sleep(SHOW_DELAY_S)
        pair = self._pair(line)
        if pair is None:
            self._show_hint(self._figure_words(line))
            return
        rows: list[DiffRow[model.Node]] | list[DiffRow[str]] = (
            [] if pair.is_shared else pair_diff(self._reader, pair)
        )
        if pair.is_shared:
            self._difference.placeholder = f"{pair.title}: made once, before the two parted."
        else:
            self._difference.placeholder = "Nothing."
        self._difference.load(Rows(diff_rows(rows)))
        self._difference.show_marks(frozenset(i for i in range(len(rows)) if rows[i].sign != " "))
        self._title.show(Content.styled(f"{pair.title}: {self._pair_words(pair, rows)}", "bold"))

    def _pair_words(
        self, pair: DocumentPair, rows: list[DiffRow[model.Node]] | list[DiffRow[str]]
    ) -> str:
        if pair.is_shared:
            return "shared"
        if pair.left is None or pair.right is None:
            return f"only [{self._variants[0 if pair.left else 1].name}] has it"
        return difference_in_words(rows, "node" if pair.is_graph else "line")

    def _figure_words(self, line: int) -> str:
        """Return a figure in full, because a row has no room for long lists of names."""
        if line >= len(self._figures) or not self._figures[line].left:
            return ""
        figure = self._figures[line]
        words = f"{figure.what.strip()}: {figure.left} beside {figure.right}"
        return f"{words} · {figure.change}" if figure.change else words

    def _pair(self, line: int) -> DocumentPair | None:
        index = line - len(self._figures)
        return self._pairs[index] if 0 <= index < len(self._pairs) else None


def first_to_compare(pairs: Sequence[DocumentPair]) -> int:
    """Return the index of the first document that each variant made for itself, if possible of
    another length; else of the first that only one of them has.
    """
    own = [i for i, pair in enumerate(pairs) if not pair.is_shared]
    of_both = [i for i in own if pairs[i].left and pairs[i].right]
    return next(
        (i for i in of_both if _differ_in_length(pairs[i])), next(iter([*of_both, *own]), 0)
    )


def _differ_in_length(pair: DocumentPair) -> bool:
    return (
        pair.left is not None
        and pair.right is not None
        and pair.left.line_count != pair.right.line_count
    )
