"""This module finds the neighbourhood of a node, and lays out its boxes, frames and lines in cells.
It is pure data: it draws nothing.

The neighbourhood has a node's inputs and users up to two steps away. A node may have a thousand
users: of each side and step only some are shown, and how many more there are.

What one kernel fuses stands together, in a rectangle that nothing else is in, so that a frame can
be drawn around it. The rectangles are put below each other, each as near to its neighbours as there
is room.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from fx_explorer import model
from fx_explorer.analysis.input_names import user_names_of_nodes
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.nodes import (
    edges_among,
    kernels_by_node,
    neighbours_of,
    operation_counts_of,
)

HOPS = 2
SHOWN_AT_A_STEP = 10
"""Nodes of one side and step that are returned, unless more are requested."""

Step = int
"""Number of steps from the node: negative towards its inputs, positive towards its users."""


@dataclass(frozen=True)
class Neighbourhood:
    """A node with the nodes within two steps of it, their edges and their kernels."""

    centre: model.Node
    nodes: Mapping[int, model.Node]
    """Nodes by id, including the centre."""
    steps: Mapping[int, Step]
    """Distance of each node, by the shortest path."""
    edges: Sequence[tuple[int, int]]
    """(producer, consumer) for all edges between these nodes."""
    more: Mapping[Step, int]
    """Number of further nodes at a step."""
    kernels: Mapping[int, model.Kernel] = field(default_factory=dict)
    """Node → the kernel that computes it; nodes without a known kernel are left out."""
    sizes: Mapping[int, int] = field(default_factory=dict)
    """How many operations a kernel computes in all, by kernel."""
    names: Mapping[int, str] = field(default_factory=dict)
    """Node → the user's name."""


def neighbourhood(
    reader: SessionReader, node: int, shown: Mapping[Step, int] | None = None
) -> Neighbourhood:
    """Find the neighbourhood of a node. ``shown`` has the number of nodes of a step, if it differs
    from SHOWN_AT_A_STEP.
    """
    limits = shown or {}
    steps: dict[int, Step] = {node: 0}
    more: dict[Step, int] = {}
    for side in (-1, 1):
        nearest = [node]
        for distance in range(1, HOPS + 1):
            step = side * distance
            nodes_at_step = [
                number for number in neighbours_of(reader, nearest, side) if number not in steps
            ]
            limit = limits.get(step, SHOWN_AT_A_STEP)
            nearest = nodes_at_step[:limit]
            steps.update(dict.fromkeys(nearest, step))
            if len(nodes_at_step) > limit:
                more[step] = len(nodes_at_step) - limit
    nodes = {row.id: row for row in reader.by_ids(model.Node, steps)}
    graph = reader.get(model.Graph, nodes[node].graph)
    kernels, sizes = _kernels(reader, list(nodes), graph)
    return Neighbourhood(
        nodes[node],
        nodes,
        {number: step for number, step in steps.items() if number in nodes},
        edges_among(reader, nodes),
        more,
        kernels,
        sizes,
        user_names_of_nodes(reader, {number: row.name for number, row in nodes.items()}),
    )


def _kernels(
    reader: SessionReader, nodes: Sequence[int], graph: model.Graph
) -> tuple[dict[int, model.Kernel], dict[int, int]]:
    """Return the kernel of each node, and how many operations each of these kernels computes. Among
    several kernels of a node, it is the one that computes most of the other nodes too, to show what
    the node is fused with.
    """
    of_nodes = kernels_by_node(reader, nodes, graph.direction)
    shared: Counter[int] = Counter()
    for kernels in of_nodes.values():
        shared.update(kernels)

    def most_shared(kernels: Iterable[int]) -> int:
        return min(kernels, key=lambda kernel: (-shared[kernel], kernel))

    chosen = {node: most_shared(kernels) for node, kernels in of_nodes.items()}
    rows = {kernel.id: kernel for kernel in reader.by_ids(model.Kernel, set(chosen.values()))}
    kernel_rows = {node: rows[kernel] for node, kernel in chosen.items()}
    return kernel_rows, operation_counts_of(reader, rows)


# Columns: producers stand left of what uses them, the centre at 0.

Key = tuple[str, int]
"""The key of a placed thing: ``("node", id)``, ``("more", step)``, or ``("way", number)`` for an
edge that crosses a column.
"""


# The columns.


@dataclass(frozen=True)
class Columns:
    """The boxes of the picture by column, and the lines between them.

    An edge that passes over columns takes a place in each of them, so that it is drawn around the
    boxes there.
    """

    column: Mapping[Key, int]
    lines: Sequence[tuple[Key, Key]]
    """(box, box in the next column) for each line that is drawn."""


def columns_of(neighbourhood: Neighbourhood) -> Columns:
    """Give every node a column, and every edge over several columns a place in each between."""
    column = _node_columns(neighbourhood)
    placed: dict[Key, int] = {("node", node): at for node, at in column.items()}
    lines: list[tuple[Key, Key]] = []
    ways = 0
    for producer, consumer in neighbourhood.edges:
        here: Key = ("node", producer)
        for between in range(column[producer] + 1, column[consumer]):
            way: Key = ("way", ways)
            ways += 1
            placed[way] = between
            lines.append((here, way))
            here = way
        lines.append((here, ("node", consumer)))
    centre: Key = ("node", neighbourhood.centre.id)
    for step in neighbourhood.more:
        rest: Key = ("more", step)
        placed[rest] = step
        if step == -1:
            lines.append((rest, centre))
        elif step == 1:
            lines.append((centre, rest))
    return Columns(placed, lines)


def _node_columns(neighbourhood: Neighbourhood) -> dict[int, int]:
    """Return node → column. Ids of a graph grow from producers to consumers."""
    consumers: dict[int, list[int]] = {}
    producers: dict[int, list[int]] = {}
    for producer, consumer in neighbourhood.edges:
        consumers.setdefault(producer, []).append(consumer)
        producers.setdefault(consumer, []).append(producer)
    column = {neighbourhood.centre.id: 0}
    for node in sorted(
        (near for near, step in neighbourhood.steps.items() if step < 0), reverse=True
    ):
        column[node] = (
            min(
                (column[near] for near in consumers.get(node, ()) if column.get(near, 1) <= 0),
                default=0,
            )
            - 1
        )
    for node in sorted(near for near, step in neighbourhood.steps.items() if step > 0):
        column[node] = (
            max((column[near] for near in producers.get(node, ()) if near in column), default=0) + 1
        )
    return column


# Boxes, frames and lines in cells.

BOX_ROWS = 4
"""Rows of a box: a border above and below, a name and a value."""

WAY_ROWS = 1
LEAST_BOX_CELLS, MOST_BOX_CELLS = 14, 28
FRAME_CELLS = 2
"""Cells from the outside of a frame to the boxes in it."""

LEAST_GAP = 2 * FRAME_CELLS + 2
ROUNDS = 8
"""How often the rectangles are moved halfway towards their neighbours. If they moved all the way,
two could swap places.
"""


@dataclass(frozen=True, slots=True)
class Box:
    x: int
    y: int
    width: int
    height: int

    @property
    def middle(self) -> int:
        """Return the row where lines begin and end."""
        return self.y + (self.height - 1) // 2

    def holds(self, x: int, y: int) -> bool:
        return self.x <= x < self.x + self.width and self.y <= y < self.y + self.height


@dataclass(frozen=True)
class Picture:
    """The picture of a node's neighbourhood: boxes, frames and lines with their places."""

    boxes: Mapping[Key, Box]
    """Boxes of nodes, and of groups of further nodes."""
    frames: Mapping[int, Box]
    """Frames by the id of the kernel."""
    ways: Mapping[Key, Box]
    """Places where edges cross a column."""
    lines: Sequence[tuple[Key, Key, int]]
    """(from, to, column of cells in which the line goes up or down)."""
    columns: Mapping[Key, int]
    width: int
    height: int
    """Height of the picture in rows; ``width`` is in cells."""

    def place(self, key: Key) -> Box:
        if key in self.boxes:
            return self.boxes[key]
        return self.ways[key]


@dataclass
class _Group:
    """Boxes that stay together in the layout: the nodes of one kernel, or a single box."""

    kernel: int
    members: dict[int, list[Key]] = field(default_factory=lambda: defaultdict(list))
    """Column → the boxes of the kernel that stand in it."""
    y: int = 0

    @property
    def span(self) -> range:
        return range(min(self.members), max(self.members) + 1)

    @property
    def border(self) -> int:
        return 1 if self.kernel else 0

    @property
    def height(self) -> int:
        return 2 * self.border + max(sum(map(_rows, keys)) for keys in self.members.values())


def _rows(key: Key) -> int:
    return WAY_ROWS if key[0] == "way" else BOX_ROWS


def laid_out(neighbourhood: Neighbourhood, room: int) -> Picture:
    """Lay a neighbourhood out for a pane of ``room`` cells. It may be wider: panes scroll."""
    columns = columns_of(neighbourhood)
    groups = _groups(neighbourhood, columns)
    top = _stacked(groups, columns)
    lanes = _lanes(columns)
    lefts, width = _across(columns, lanes, room)
    placed = {key: Box(lefts[columns.column[key]], y, width, _rows(key)) for key, y in top.items()}
    turns = {
        key: lefts[column] + width + FRAME_CELLS + 1 + lane for (column, key), lane in lanes.items()
    }
    frames = {group.kernel: _frame(group, lefts, width) for group in groups if group.kernel}
    drawn = [*placed.values(), *frames.values()]
    return Picture(
        {key: box for key, box in placed.items() if key[0] != "way"},
        frames,
        {key: box for key, box in placed.items() if key[0] == "way"},
        [(begin, end, turns[begin]) for begin, end in columns.lines],
        columns.column,
        max(box.x + box.width for box in drawn) + FRAME_CELLS,
        max(box.y + box.height for box in drawn),
    )


def _across(
    columns: Columns, lanes: Mapping[tuple[int, Key], int], room: int
) -> tuple[dict[int, int], int]:
    """Return the first cell of each column, and the cells of a box."""
    every = range(min(columns.column.values()), max(columns.column.values()) + 1)
    lane_counts = Counter(column for column, _ in lanes)
    gaps = {at: LEAST_GAP + lane_counts[at] for at in every}
    free = room - 2 * FRAME_CELLS - sum(gaps.values())
    width = max(LEAST_BOX_CELLS, min(MOST_BOX_CELLS, free // len(every)))
    lefts, x = {}, FRAME_CELLS
    for at, gap in gaps.items():
        lefts[at] = x
        x += width + gap
    return lefts, width


def _groups(neighbourhood: Neighbourhood, columns: Columns) -> list[_Group]:
    """Return the boxes that stay together. An edge within one kernel stays in its frame."""
    kernel_of: dict[Key, int] = {
        ("node", node): kernel.id for node, kernel in neighbourhood.kernels.items()
    }
    before = {end: begin for begin, end in columns.lines if end[0] == "way"}
    after = {begin: end for begin, end in columns.lines if begin[0] == "way"}
    by_kernel: dict[int, _Group] = {}
    groups: list[_Group] = []
    for key, column in columns.column.items():
        kernel = kernel_of.get(key, 0)
        if key[0] == "way":
            begins, ends = _end(key, before), _end(key, after)
            if kernel_of.get(begins, 0) == kernel_of.get(ends, 0):
                kernel = kernel_of.get(begins, 0)
            else:
                kernel = 0
        group = by_kernel.get(kernel) if kernel else None
        if group is None:
            group = _Group(kernel)
            groups.append(group)
            if kernel:
                by_kernel[kernel] = group
        group.members[column].append(key)
    return groups


def _end(key: Key, following: Mapping[Key, Key]) -> Key:
    while key[0] == "way":
        key = following[key]
    return key


def _stacked(groups: list[_Group], columns: Columns) -> dict[Key, int]:
    """Return the first row of everything."""
    neighbours: dict[Key, list[Key]] = defaultdict(list)
    for begin, end in columns.lines:
        neighbours[begin].append(end)
        neighbours[end].append(begin)
    top: dict[Key, int] = {}
    for group in groups:
        _place(group, 0, top)
    wanted = {id(group): float(at) for at, group in enumerate(groups)}
    for _ in range(ROUNDS):
        bottom: dict[int, int] = defaultdict(int)
        for group in sorted(groups, key=lambda group: wanted[id(group)]):
            free = max(bottom[column] for column in group.span)
            _place(group, max(free, round(wanted[id(group)])), top)
            bottom.update(dict.fromkeys(group.span, group.y + group.height))
        for group in groups:
            middles = _middles_of_neighbours(group, neighbours, top)
            if middles:
                mean = sum(middles) / len(middles)
                wanted[id(group)] = (group.y + mean - group.height / 2) / 2
            else:
                wanted[id(group)] = group.y
    first = min(group.y for group in groups)
    for group in groups:
        group.y -= first
    return {key: y - first for key, y in top.items()}


def _middles_of_neighbours(
    group: _Group, neighbours: Mapping[Key, list[Key]], top: Mapping[Key, int]
) -> list[float]:
    """Return the middle row of everything outside a group that a line joins with it."""
    inside = set(chain.from_iterable(group.members.values()))
    middles = []
    for key in inside:
        outside = [other for other in neighbours[key] if other not in inside]
        middles += [top[other] + _rows(other) / 2 for other in outside]
    return middles


def _place(group: _Group, y: int, top: dict[Key, int]) -> None:
    """Put a group's members below each other, each column in the middle of the group's height."""
    group.y = y
    inner = group.height - 2 * group.border
    for keys in group.members.values():
        at = y + group.border + (inner - sum(map(_rows, keys))) // 2
        for key in keys:
            top[key] = at
            at += _rows(key)


def _frame(group: _Group, lefts: Mapping[int, int], width: int) -> Box:
    left, right = lefts[group.span[0]], lefts[group.span[-1]] + width
    return Box(left - FRAME_CELLS, group.y, right - left + 2 * FRAME_CELLS, group.height)


def _lanes(columns: Columns) -> dict[tuple[int, Key], int]:
    """Return which of the ways up and down right of a column each beginning of lines takes."""
    lanes: dict[tuple[int, Key], int] = {}
    used: dict[int, int] = defaultdict(int)
    for begin, _ in columns.lines:
        column = columns.column[begin]
        if (column, begin) not in lanes:
            lanes[column, begin] = used[column]
            used[column] += 1
    return lanes
