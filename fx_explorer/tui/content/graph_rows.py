"""The nodes of a graph are given as rows, read from the session page by page. A million nodes open
as fast as ten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import FALLS_BACK, region_value, regions_of_nodes
from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.graph_stages import NodeChange, node_changes
from fx_explorer.analysis.input_names import (
    INPUT_KINDS,
    InputName,
    InputNames,
    input_kind,
    tangent_name,
)
from fx_explorer.analysis.lineage import in_use
from fx_explorer.analysis.stage_data import Fate, StageWork
from fx_explorer.analysis.words import counted, listed, operation, value_text
from fx_explorer.drawing.colours import MORE, RegionColours, colours_of, kernel_numbers
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import kernels_of_each, last_kernel
from fx_explorer.tui.content.shown_lines import (
    EVERY_LINE,
    FOLDED_SIGN,
    FoldedInputs,
    FoldedRuns,
    ShownLines,
)
from fx_explorer.tui.widgets.line_painter import Piece
from fx_explorer.tui.widgets.row_list import Cell, ListColumn, Row

if TYPE_CHECKING:
    from fx_explorer.instruments.profile.figures import GraphTimes, PlaceTime


# How a row of a graph shows what happened to its operation in a stage: a sign, a word and a colour,
# since colour alone must not carry meaning.


class FateSign(NamedTuple):
    sign: str
    word: str
    kind: str
    """A tone of the theme."""


FATE_SIGNS: Mapping[Fate, FateSign] = {
    "kept": FateSign("=", "kept", "muted"),
    "changed": FateSign("~", "changed", "warning"),
    "replaced": FateSign("≈", "replaced", "warning"),
    "decomposed": FateSign("<", "decomposed", "annotation"),
    "view": FateSign("·", "view", "muted"),
    "fused": FateSign(">", "fused", "type"),
    "several": FateSign("*", "in several", "type"),
    "forward": FateSign("→", "forward", "function"),
    "backward": FateSign("←", "backward", "annotation"),
    "both": FateSign("↔", "in both", "warning"),
    "made": FateSign("+", "made", "good"),
    "unchanged": FateSign("○", "unchanged", "muted"),
    "empty": FateSign("0", "empty", "muted"),
    "unused": FateSign("x", "unused", "muted"),
    "inlined": FateSign("↓", "inlined", "annotation"),
    "removed": FateSign("-", "removed", "bad"),
}

NO_SIGN = FateSign(" ", "", "muted")
"""Sign in the column of fates for rows that are no operations."""

FATE_COLUMN = ListColumn("became", min_width=10, max_width=10)
"""Column of the fates, to the right of the names."""


# The rows of a graph.

NAME_CELLS = 28

COLUMNS = (
    ListColumn("name", "strong", min_width=15, max_width=NAME_CELLS, keeps="name", narrow_width=9),
    ListColumn(
        "operation",
        "function",
        min_width=11,
        max_width=34,
        priority=1,
        narrow_width=9,
        omits=("aten.", "prims.", "operator.", "torch.nn.functional.", "torch._C._nn.", "torch."),
    ),
    ListColumn("value", "type", min_width=16, max_width=24, narrow_width=11),
    ListColumn("region", "annotation", min_width=8, max_width=18, priority=4),
    ListColumn("module", "muted", min_width=12, max_width=26, priority=3, keeps="end"),
    ListColumn("arguments", "muted", min_width=16, max_width=200, priority=2),
)

STAGE_COLUMNS = (
    replace(COLUMNS[0], min_width=15, max_width=NAME_CELLS + 2),
    FATE_COLUMN,
    COLUMNS[1],
    replace(COLUMNS[2], priority=1),
    *COLUMNS[3:],
)
"""The columns with a column for what happened to each node in a stage. In a narrow pane the value
is left out.
"""


TIME_TITLE = "profiled"
SORTED = "▼"

TIME_COLUMN = ListColumn(TIME_TITLE, "text", "right", min_width=10, max_width=11)
"""Column of times. In a narrow pane it stays, and the value is left out first."""


def columns_of(
    reader: SessionReader,
    *,
    has_fates: bool,
    marks_kernels: bool,
    has_times: bool = False,
    is_sorted: bool = False,
) -> tuple[ListColumn, ...]:
    """Return the columns: optionally with the numbers of the kernels (first), with what happened to
    each node in a stage, and with its time in a profile, by which the rows may be sorted.
    """
    columns: tuple[ListColumn, ...] = STAGE_COLUMNS if has_fates else COLUMNS
    if has_times:
        time = replace(TIME_COLUMN, arrow=SORTED * is_sorted)
        names = 2 if has_fates else 1
        others = [
            replace(column, priority=1) if column.title == "value" else column
            for column in columns[names:]
        ]
        columns = (*columns[:names], time, *others)
    if not marks_kernels:
        return columns
    cells = len(str(last_kernel(reader))) + len(MORE)
    numbered = [ListColumn("#", "muted", "right", min_width=cells, max_width=cells)]
    for column in columns:
        if column.title == "value":
            numbered.append(replace(column, min_width=15))
        else:
            numbered.append(column)
    return tuple(numbered)


def kernels_in_use_of_each(
    reader: SessionReader, nodes: Iterable[int], graph: model.Graph
) -> dict[int, list[int]]:
    """Return node → the kernels that compute it, without those of other variants: of a graph of a
    variant its own, of a graph that several variants share those in use.
    """
    kernels = kernels_of_each(reader, nodes)
    used = in_use(reader)
    if used is None:
        return kernels
    ids = {kernel for of_node in kernels.values() for kernel in of_node}
    own = {
        row.id for row in reader.by_ids(model.Kernel, ids) if row.compilation == graph.compilation
    }
    shown: dict[int, list[int]] = {}
    for node, of_node in kernels.items():
        of_graph = [kernel for kernel in of_node if kernel in own]
        of_use = [kernel for kernel in of_node if kernel in used.kernels]
        if graph.id in used.graphs:
            shown[node] = of_use or of_graph or of_node
        else:
            shown[node] = of_graph or of_use or of_node
    return shown


FALLS_BACK_SIGN = "↩"
"""Marks an operator that a backend leaves to PyTorch."""

OP_KINDS = {"placeholder": "muted", "get_attr": "muted", "output": "muted"}


class GraphRows:
    """A RowSource over one graph, or over some of its nodes."""

    def __init__(
        self,
        reader: SessionReader,
        document: Document,
        shown: ShownLines = EVERY_LINE,
        work: StageWork | None = None,
        *,
        marks_kernels: bool = False,
        times: GraphTimes | None = None,
    ) -> None:
        """``shown`` are the nodes with a row; ``work`` is the stage whose effect on them is shown;
        ``marks_kernels`` puts the numbers of kernels first; ``times`` are the nodes' times in a
        profile.
        """
        self._times = times
        self._marks_kernels = marks_kernels
        self._work = work
        self._reader = reader
        self._graph = reader.get(model.Graph, document.id)
        self._positions = shown.lines
        self._folded = shown.count if isinstance(shown, FoldedInputs) else 0
        self._runs = shown.words if isinstance(shown, FoldedRuns) else {}

    def __len__(self) -> int:
        if self._folded:
            return self._graph.node_count - self._folded + 1
        if self._positions is None:
            return self._graph.node_count
        return len(self._positions)

    def page(self, start: int, stop: int) -> Sequence[Row]:
        if self._folded and start == 0 < stop:
            inputs = self._reader.nodes(self._graph, 0, self._folded)
            folded = self._folded_cells(folded_row(inputs, self._names.of(inputs)))
            return [folded, *self._page(1, stop)]
        rows = self._page(start, stop)
        for row, words in self._runs.items():
            if start <= row < start + len(rows):
                name, count = (f"{FOLDED_SIGN} {words}", "muted"), ("⏎ shows them", "muted")
                rows[row - start] = self._folded_cells((name, count))
        return rows

    def _folded_cells(self, row: Row) -> Row:
        return self.with_columns(row[0], "", row[1:])

    @property
    def name_cell(self) -> int:
        """Return which cell of a row has the name of the node."""
        return int(self._marks_kernels)

    def with_columns(self, name: Cell, time: Cell, cells: Sequence[Cell]) -> Row:
        """Return the row of something that is no node, with empty cells for the columns that only
        nodes have.
        """
        row: tuple[Cell, ...] = (name, time, *cells) if self._times is not None else (name, *cells)
        if self._work is not None:
            row = (row[0], "", *row[1:])
        return ("", *row) if self._marks_kernels else row

    def of_positions(self, positions: Sequence[int]) -> list[Row]:
        """Return the rows of some nodes, in this order."""
        return self._rows_of(self._nodes_at(positions))

    def _page(self, start: int, stop: int) -> list[Row]:
        return self._rows_of(self._nodes(start, stop))

    def _rows_of(self, nodes: Sequence[model.Node]) -> list[Row]:
        segments = regions_of_nodes(self._reader, nodes)
        if any(node.op == "placeholder" for node in nodes):
            names = placeholder_names(nodes, self._names)
        else:
            names = {}
        if any(node.annotations for node in nodes):
            colours = self._colours
        else:
            colours = self._segment_colours
        rows: list[Row] = [
            node_row(node, segments.get(node.id, ""), names.get(node.id, ""), colours)
            for node in nodes
        ]
        if self._times is not None:
            rows = [
                (row[0], time_cell(self._times.of_node(node.id)), *row[1:])
                for row, node in zip(rows, nodes, strict=True)
            ]
        if self._work is not None:
            rows = [
                _with_fate(row, self._work.fates.get(node.id), self._changes.get(node.id))
                for row, node in zip(rows, nodes, strict=True)
            ]
        if not self._marks_kernels:
            return rows
        kernels = kernels_in_use_of_each(self._reader, (node.id for node in nodes), self._graph)
        return [
            (kernel_numbers(kernels.get(node.id, ())), *row)
            for row, node in zip(rows, nodes, strict=True)
        ]

    @cached_property
    def _colours(self) -> RegionColours:
        return colours_of(self._reader)

    @cached_property
    def _changes(self) -> dict[int, NodeChange]:
        if self._work is None:
            return {}
        return node_changes(self._reader, self._work, self._graph)

    @cached_property
    def _segment_colours(self) -> RegionColours:
        """Return the colours for a graph without annotations: segments have fixed colours, without
        a query.
        """
        return RegionColours()

    @cached_property
    def _names(self) -> InputNames:
        return InputNames(self._reader)

    def _nodes(self, start: int, stop: int) -> list[model.Node]:
        if self._folded:
            hidden = self._folded - 1
            return self._reader.nodes(self._graph, start + hidden, stop + hidden)
        if self._positions is None:
            return self._reader.nodes(self._graph, start, stop)
        return self._nodes_at(self._positions[start:stop])

    def _nodes_at(self, positions: Sequence[int]) -> list[model.Node]:
        ids = [self._graph.first_node + position for position in positions]
        nodes = {node.id: node for node in self._reader.by_ids(model.Node, ids)}
        return [nodes[node_id] for node_id in ids if node_id in nodes]


def time_cell(time: PlaceTime | None) -> Piece:
    """Return the cell with the time of a place in a profile."""
    return (time.description, "text") if time else ("", "muted")


def _with_fate(row: Row, fate: Fate | None, change: NodeChange | None = None) -> Row:
    """Return a row with what happened to its node, and for a changed one the texts before and
    after.
    """
    sign = FATE_SIGNS[fate] if fate else NO_SIGN
    if change is not None:
        row = _with_change(row, change)
    name = row[0]
    pieces: list[Piece] = [name] if isinstance(name, tuple) else []
    return ([(f"{sign.sign} ", sign.kind), *pieces], (sign.word, sign.kind), *row[1:])


def _with_change(row: Row, change: NodeChange) -> Row:
    cells = list(row)
    cell_texts = {1: change.operation, 2: change.value, 5: change.arguments}
    for at, text in cell_texts.items():
        if text:
            cells[at] = (text, FATE_SIGNS["changed"].kind)
    return cells


def folded_row(inputs: Sequence[model.Node], names: Mapping[int, InputName]) -> Row:
    """Return the row that replaces the inputs of a graph: ``▸ inputs``, how many of each kind."""
    kinds = Counter(input_kind(node, names[node.id]) for node in inputs)
    parts = [counted(kinds[kind], kind) for kind in INPUT_KINDS if kinds[kind]]
    return (
        (f"{FOLDED_SIGN} inputs", "muted"),
        (listed(parts), "muted"),
        ("⏎ shows them", "muted"),
    )


def placeholder_names(nodes: Iterable[model.Node], names: InputNames) -> dict[int, str]:
    """Return the user's names of the inputs among the nodes; inputs without one are left out."""
    inputs = {node.id: node for node in nodes if node.op == "placeholder"}
    users_names = {}
    for at, input_name in names.of(inputs.values()).items():
        torchs_name = inputs[at].name
        name = input_name.name if input_name.node else tangent_name(torchs_name)
        if name != torchs_name:
            users_names[at] = name
    return users_names


def node_row(
    node: model.Node, segment: str = "", name: str = "", colours: RegionColours | None = None
) -> Row:
    """Return the cells of a node. ``name`` is the user's name of an input. ``segment`` is the
    node's segment of the backend, or that it falls back; its name carries a mark too, because a
    narrow pane has no column of regions.
    """
    name_cell: Piece = (node.name, OP_KINDS.get(node.op, "strong"))
    operation_cell: Piece = (operation(node), OP_KINDS.get(node.op, "function"))
    if name:
        name_cell = (name, "strong")
        operation_cell = (node.name, "muted")
    if segment == FALLS_BACK:
        name_cell = (f"{FALLS_BACK_SIGN} {node.name}", "warning")
    return (
        name_cell,
        operation_cell,
        value_text(node),
        region_cell(node, segment, colours),
        node.module,
        node.arguments,
    )


def region_cell(
    node: model.Node, segment: str = "", colours: RegionColours | None = None
) -> list[Piece]:
    """Return the backend's segment and the names that ``annotate`` gave, each in its region's
    colour: ``attention``; several are listed.
    """
    pieces: list[Piece] = []
    colours = colours or RegionColours()
    for name in filter(None, (segment, *map(region_value, (node.annotations or {}).values()))):
        kind = "warning" if name == FALLS_BACK else colours.kind(name)
        pieces += [(", ", "muted")] * bool(pieces) + [(name, kind)]
    return pieces
