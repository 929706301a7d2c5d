"""This screen compares two variants of a compilation: the figures that differ, and the difference
between any graph or text of both. A side's heading names what distinguishes it from the other
(``headings``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from fx_explorer import model
from fx_explorer.analysis.diff import DiffRow, describe_difference
from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.lineage import root_name
from fx_explorer.analysis.measured_times import ComparedFigure, Verdict, count_figure
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.other_variants import (
    describe_candidate,
    describe_fusion,
    describe_layout,
)
from fx_explorer.analysis.words import counted, format_node
from fx_explorer.instruments.diff.compare import DocumentPair, document_pairs, figures, pair_diff
from fx_explorer.model.setting_values import as_python, python_text
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import file_name
from fx_explorer.tui.commands import Keymap, by_id
from fx_explorer.tui.dialogs.dialog import Dialog
from fx_explorer.tui.failures import TellsUnreadable
from fx_explorer.tui.keys import closing_bindings, first_key, priority_bindings
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import DIFFERS, Cell, ListColumn, Row, RowList, Rows
from fx_explorer.tui.widgets.titled_box import TitledBox

SHOW_DELAY_S = 0.08
"""Seconds for which the cursor must rest on a pair before it is compared, so that moving fast over
the list compares nothing.
"""

_HINTED = ("compare.next", "compare.previous", "compare.other", "dialog.close")


class DifferenceScreen(TellsUnreadable, Dialog[None]):
    """Shows pairs and a difference. Keys move from one difference to the next, and to the other
    list.
    """

    DEFAULT_CSS = """
    DifferenceScreen { align: center middle; }
    DifferenceScreen > Vertical {
        width: 100%; height: 96%; background: $surface; border: round $border; padding: 0 1;
    }
    DifferenceScreen RowList { height: 1fr; background: $surface; }
    DifferenceScreen #title { color: $foreground; background: $panel; }
    DifferenceScreen OneLine { padding: 0; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *closing_bindings("app.quit"),
        *priority_bindings("compare"),
    ]

    def __init__(
        self, heading: str, pairs: RowList, placeholder: str, keymap: Keymap | None
    ) -> None:
        """``placeholder`` stands where a difference will be shown."""
        super().__init__()
        self._heading = heading
        self._keymap = keymap or {}
        self._list = pairs
        self._difference = RowList(
            DIFF_COLUMNS, header=False, id="difference", placeholder=placeholder
        )
        for rows in (self._list, self._difference):
            rows.is_hollow_without_focus = True
        self._title = OneLine(id="title")
        self._hint = OneLine()

    def compose(self) -> ComposeResult:
        with TitledBox(self._heading):
            yield self._list
            yield self._title
            yield self._difference
            yield self._hint

    def _compare(self, line: int) -> object:
        """Show the difference of the pair at ``line``, or a text in its place."""
        raise NotImplementedError

    def _has_difference(self, line: int) -> bool:
        """Return whether there is a pair at ``line``."""
        raise NotImplementedError

    def on_line_view_moved(self, event: LineView.Moved) -> None:
        event.stop()
        if event.control is self._list:
            self._compare(event.line)

    def on_line_view_followed(self, event: LineView.Followed) -> None:
        """Go into the pair's difference at enter."""
        event.stop()
        if event.control is self._list and self._has_difference(event.line):
            self._difference.focus()

    def _show_hint(self, words: str) -> None:
        following, before, other, close = (
            first_key(by_id(command), self._keymap) for command in _HINTED
        )
        keys = f"{following} {before} differences · {other} other list · {close} closes"
        self._hint.show(Content(words), Content(keys))

    def action_next_difference(self, step: int) -> None:
        marks, cursor = self._difference.marks, self._difference.cursor
        if step > 0:
            target = min((mark for mark in marks if mark > cursor), default=None)
        else:
            target = max((mark for mark in marks if mark < cursor), default=None)
        if target is None:
            self.app.bell()
            return
        self._difference.move_to(target, center=True)

    def action_other_list(self) -> None:
        if self._difference.has_focus:
            self._list.focus()
        else:
            self._difference.focus()

    def action_leave(self) -> None:
        self.dismiss(None)


def figure_columns(titles: Sequence[str]) -> tuple[ListColumn, ...]:
    """Return the columns. ``titles`` are the name of the property in which the sides differ, then
    its value on each side.
    """
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

SIGN_KINDS = {" ": "muted", "-": "bad", "+": "good", "~": "warning", "≈": "annotation"}
"""Sign → kind. A sign is given because colour alone must not carry meaning."""


_KINDS: dict[Verdict, str] = {"": "muted", "other": "warning", "better": "good", "worse": "bad"}


def figure_row(figure: ComparedFigure) -> Row:
    """Return the row of a figure. The difference is stated in words as well as by colour."""
    if not figure.differs:
        return (
            figure.what,
            (figure.left, "muted"),
            (figure.right, "muted"),
            (figure.change, "muted"),
        )
    kind = _KINDS[figure.verdict]
    return (figure.what, (figure.left, "text"), (figure.right, kind), (figure.change, kind))


def pair_row(pair: DocumentPair) -> Row:
    """Return a row of documents. A document from before the variants parted is shared by both."""
    if pair.is_shared:
        return (f"→ {pair.title}", ("shared", "muted"), ("shared", "muted"))
    if pair.left is None or pair.right is None:
        only = "only on the left" if pair.left else "only on the right"
        return (f"→ {pair.title}", _extent(pair.left), _extent(pair.right), (only, "warning"))
    noun = _noun(pair.left)
    more = count_figure("", pair.left.line_count, pair.right.line_count).change
    # As many lines may still be other lines: what they are is compared when the cursor is on them.
    return (f"→ {pair.title}", _extent(pair.left), _extent(pair.right), more or f"as many {noun}s")


def _extent(document: Document | None) -> str:
    if document is None:
        return "none"
    return counted(document.line_count, _noun(document))


def _noun(document: Document) -> str:
    return "node" if document.kind == "graph" else "line"


def diff_rows(rows: Sequence[DiffRow[model.Node]] | Sequence[DiffRow[str]]) -> list[Row]:
    """Return the rows of a comparison. In a changed row the part that differs is marked on both
    sides, and stays in sight where the line does not fit.
    """
    shown: list[Row] = []
    for row in rows:
        kind = "text" if row.sign == " " else SIGN_KINDS[row.sign]
        before, after = _text_of(row.before), _text_of(row.after)
        sides: tuple[Cell, Cell] = ((before, kind), (after, kind))
        if row.sign in ("~", "≈"):
            sides = _marked(before, after, kind)
        shown.append(((row.sign, SIGN_KINDS[row.sign]), *sides))
    return shown


def _text_of(item: model.Node | str | None) -> str:
    if item is None:
        return ""
    return item if isinstance(item, str) else format_node(item)


def _marked(before: str, after: str, kind: str) -> tuple[Cell, Cell]:
    """Return both texts with the words marked that lie between their common ends."""
    start = _common_start(before, after)
    rest = min(len(before), len(after)) - start
    end = min(rest, _common_start(before[::-1], after[::-1]))
    while start and _is_of_word(before[start - 1]):
        start -= 1
    while end and _is_of_word(before[len(before) - end]):
        end -= 1
    sides: list[Cell] = []
    for text in (before, after):
        stop = len(text) - end
        sides.append([(text[:start], kind), (text[start:stop], DIFFERS), (text[stop:], kind)])
    return sides[0], sides[1]


def _common_start(text: str, other: str) -> int:
    """Return how many characters both texts begin with."""
    for position, (character, of_other) in enumerate(zip(text, other, strict=False)):
        if character != of_other:
            return position
    return min(len(text), len(other))


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character == "_"


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
        begins_at: model.Stage | None = None,
    ) -> None:
        """``left_had`` are options that were set by hand while the left side was compiled.
        ``begins_at``: the stage whose document is shown first, if it differs.
        """
        heading = f"[{left.name}] beside [{right.name}] · {plain_function(left.function)}"
        pairs = RowList(figure_columns(headings(reader, left, right, left_had)), id="figures")
        super().__init__(heading, pairs, "Choose a line with → above.", keymap)
        self._reader = reader
        self._variants = (left, right)
        self._figures = figures(reader, left, right)
        self._pairs = document_pairs(reader, left, right)
        self._begins_at = begins_at

    def on_mount(self) -> None:
        pair = first_to_compare(self._pairs, self._pair_differs, self._begins_at)
        compared = len(self._figures) + pair
        line = self._first_figure_that_differs()
        if self._begins_at and self._pairs[pair].stage == self._begins_at:
            line = compared
        rows = [*map(figure_row, self._figures), *map(pair_row, self._pairs)]
        self._list.load(Rows(rows), line=line)
        self._list.focus()
        self._show_hint(self._describe_figure(line))
        self._compare(compared)

    def _first_figure_that_differs(self) -> int:
        differing = (i for i, figure in enumerate(self._figures) if figure.differs)
        return next(differing, 0)

    def _has_difference(self, line: int) -> bool:
        return self._pair(line) is not None

    def _pair_differs(self, pair: DocumentPair) -> bool:
        return any(row.sign not in ALIKE for row in pair_diff(self._reader, pair))

    @work(name="compare", group="compare", exclusive=True, description="compare two documents")
    async def _compare(self, line: int) -> None:
        """Show the difference of a document, which stays while the cursor goes through the figures.
        A figure is shown in full.
        """
        await asyncio.sleep(SHOW_DELAY_S)
        pair = self._pair(line)
        if pair is None:
            self._show_hint(self._describe_figure(line))
            return
        rows: list[DiffRow[model.Node]] | list[DiffRow[str]] = []
        if pair.is_shared:
            self._difference.placeholder = (
                f"{pair.title}: made once, before the two variants separated."
            )
        else:
            rows = pair_diff(self._reader, pair)
            self._difference.placeholder = "Nothing."
        self._difference.load(Rows(diff_rows(rows)))
        # Other sizes are one difference, which the title says, and no stop in each of their nodes.
        signs = [row.sign for row in rows]
        marks = [at for at, sign in enumerate(signs) if sign not in ALIKE]
        self._difference.show_marks(frozenset(marks))
        self._difference.move_to(min(marks, default=0), center=True)
        self._title.show(Content.styled(f"{pair.title}: {self._describe_pair(pair, rows)}", "bold"))

    def _describe_pair(
        self, pair: DocumentPair, rows: list[DiffRow[model.Node]] | list[DiffRow[str]]
    ) -> str:
        if pair.is_shared:
            return "shared"
        left, right = self._variants
        if pair.right is None:
            return f"only [{left.name}] has it"
        if pair.left is None:
            return f"only [{right.name}] has it"
        noun = "node" if pair.is_graph else "line"
        return describe_difference(rows, noun)

    def _describe_figure(self, line: int) -> str:
        """Return a figure in full, because a row has no room for long lists of names."""
        if line >= len(self._figures) or not self._figures[line].left:
            return ""
        figure = self._figures[line]
        words = f"{figure.what.strip()}: {figure.left} beside {figure.right}"
        if figure.change:
            return f"{words} · {figure.change}"
        return words

    def _pair(self, line: int) -> DocumentPair | None:
        index = line - len(self._figures)
        if 0 <= index < len(self._pairs):
            return self._pairs[index]
        return None


def first_to_compare(
    pairs: Sequence[DocumentPair],
    differs: Callable[[DocumentPair], bool],
    begins_at: model.Stage | None = None,
) -> int:
    """Return the index of the first pair of documents that differ, preferably of the stage
    ``begins_at``, then of different length; else of the first document that only one of them has,
    or that each made.
    """
    made_apart = [i for i, pair in enumerate(pairs) if not pair.is_shared]
    of_both = [i for i in made_apart if pairs[i].left and pairs[i].right]
    of_both.sort(key=lambda i: (pairs[i].stage != begins_at, not _differ_in_length(pairs[i])))
    for i in of_both:
        if differs(pairs[i]):
            return i
    of_one = [i for i in made_apart if i not in of_both]
    return next(iter([*of_one, *of_both]), 0)


def _differ_in_length(pair: DocumentPair) -> bool:
    return (
        pair.left is not None
        and pair.right is not None
        and pair.left.line_count != pair.right.line_count
    )


ALIKE = (" ", "≈")
"""Signs of rows that are no stop: equal rows, and nodes with other sizes."""


def original_first(
    left: model.Compilation, right: model.Compilation
) -> tuple[model.Compilation, model.Compilation]:
    """Return both compilations with the earlier one first: the later one began from it, or was
    compiled beside it.
    """
    if left.id <= right.id:
        return (left, right)
    return (right, left)


def headings(
    reader: SessionReader,
    left: model.Compilation,
    right: model.Compilation,
    left_had: Mapping[str, object] | None = None,
) -> tuple[str, str, str]:
    """Return the heading above the names of the figures, and a heading for each side: its name, and
    the options and edits that the other side does not have.

    Where the sides differ in one option, its name is written once: ``max_fusion_size``, ``original:
    64`` and ``variant 1: 8``. Else ``original`` and ``variant 1: mode = "lite", region "mlp"``.
    ``left_had`` are options that were set by hand while the left one was compiled; no row of the
    session has them.
    """
    of_left = model.Changes.from_json(left.changes or {})
    of_left = replace(of_left, settings={**(left_had or {}), **of_left.settings})
    of_right = model.Changes.from_json(right.changes or {})
    options = _differing_options(reader, (left, of_left), (right, of_right))
    left_edits = _edits(of_left, of_right) + _alone(reader, left)
    right_edits = _edits(of_right, of_left) + _alone(reader, right)
    if len(options) == 1 and not left_edits and not right_edits:
        name, value, other_value = options[0]
        return name, f"{_who(left, right)}: {value}", f"{_who(right, left)}: {other_value}"
    left_parts = [f"{name} = {value}" for name, value, _ in options] + left_edits
    right_parts = [f"{name} = {value}" for name, _, value in options] + right_edits
    return "", _heading(left, right, left_parts), _heading(right, left, right_parts)


_Side = tuple[model.Compilation, model.Changes]


def _differing_options(
    reader: SessionReader, of_left: _Side, of_right: _Side
) -> list[tuple[str, str, str]]:
    """Return (name, value on the left, value on the right) of each option that differs."""
    (left, left_changes), (right, right_changes) = of_left, of_right
    names = dict.fromkeys([*left_changes.settings, *right_changes.settings])
    options = []
    for name in names:
        value = _given(reader, left, left_changes, name)
        other_value = _given(reader, right, right_changes, name)
        if value != other_value:
            options.append((_short(name), value, other_value))
    if left.backend != right.backend and "compile.backend" not in names:
        options.append(("backend", python_text(left.backend), python_text(right.backend)))
    return options


def variant_name(variant: model.Compilation) -> str:
    """Return ``original`` or ``variant 2``."""
    number = variant.name.rpartition("~")[2]
    if variant.variant_of:
        return f"variant {number}"
    return "original"


def _heading(side: model.Compilation, other: model.Compilation, parts: Sequence[str]) -> str:
    if not parts and side.variant_from and _are_variants(side, other):
        parts = [f"compiled again from {model.GATE_WORDS[side.variant_from]}"]
    if parts:
        return f"{_who(side, other)}: {', '.join(parts)}"
    return _who(side, other)


def _who(side: model.Compilation, other: model.Compilation) -> str:
    """Return ``variant 1``; for another compilation its function, or its version."""
    if _are_variants(side, other):
        return variant_name(side)
    if side.function != other.function:
        return f"[{side.name}] {plain_function(side.function)}"
    version = f"recompile {side.recompile}" if side.recompile else "first version"
    return f"[{side.name}] {version}"


def _are_variants(side: model.Compilation, other: model.Compilation) -> bool:
    return root_name(side.name) == root_name(other.name)


def _short(name: str) -> str:
    """Return ``max_fusion_size`` for ``inductor.max_fusion_size``."""
    return name.partition(".")[2] or name


def _given(
    reader: SessionReader, side: model.Compilation, changes: model.Changes, name: str
) -> str:
    """Return the value of an option on one side: set for this variant, else in force in the
    capture; ``as it was`` where the session does not have it.
    """
    if name in changes.settings:
        return python_text(changes.settings[name])
    if name == "compile.backend" and side.backend:
        return python_text(side.backend)
    rows = reader.rows(model.OptionInForce, name=name)
    # Of this function where the session tells functions apart.
    values = [row.value for row in rows if row.function == side.function]
    if not values:
        values = [row.value for row in rows]
    values += [row.value for row in reader.rows(model.Setting) if row.full_name == name]
    return next(iter(as_python(values)), "as it was")


def _edits(changes: model.Changes, other: model.Changes) -> list[str]:
    """Return the regions, passes and fusions that only this side has."""
    marks = {mark.name for mark in other.marks}
    regions = [f'region "{mark.name}"' for mark in changes.marks if mark.name not in marks]
    passes = [pass_file for pass_file in changes.passes if pass_file not in other.passes]
    fusions = [fusion for fusion in changes.fusions if fusion not in other.fusions]
    return [
        *regions,
        *(f"pass_ of {file_name(pass_file.path)}" for pass_file in passes),
        *(describe_fusion(fusion) for fusion in fusions),
        *(describe_layout(layout) for layout in changes.layouts if layout not in other.layouts),
        *(describe_candidate(each) for each in changes.candidates if each not in other.candidates),
    ]


def _alone(reader: SessionReader, side: model.Compilation) -> list[str]:
    """Return phrases on the regions that were lowered again, while all others were taken from an
    earlier variant.
    """
    lowered = [
        lowering
        for lowering in reader.rows(model.RegionLowering, compilation=side.id)
        if lowering.subgraph
    ]
    if not any(lowering.is_reused for lowering in lowered):
        return []
    names = dict.fromkeys(lowering.name for lowering in lowered if not lowering.is_reused)
    return [f'only region "{name}"' for name in names]
