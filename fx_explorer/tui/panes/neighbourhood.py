"""This module has the pane for the neighbourhood of a node: the user moves from box to box, and
Enter makes one the centre. The layout is drawn in characters: frames first, lines over them, boxes
on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.cells import cell_len
from textual import events

from fx_explorer.analysis.input_names import result_name
from fx_explorer.analysis.words import counted, format_node, operation, value_text
from fx_explorer.cut_text import cut_cells, cut_in_middle
from fx_explorer.drawing.colours import kernel_kind
from fx_explorer.highlight import printable
from fx_explorer.model import Graph
from fx_explorer.session import SessionReader
from fx_explorer.tui.panes.neighbourhood_layout import (
    SHOWN_AT_A_STEP,
    Box,
    Key,
    Neighbourhood,
    Picture,
    Step,
    laid_out,
    neighbourhood,
)
from fx_explorer.tui.widgets.line_painter import Piece
from fx_explorer.tui.widgets.line_view import LineView, paint_after_messages

NORTH, EAST, SOUTH, WEST = 1, 2, 4, 8

_LINES = {
    NORTH | SOUTH: "│",
    EAST | WEST: "─",
    NORTH | EAST: "└",
    NORTH | WEST: "┘",
    SOUTH | EAST: "┌",
    SOUTH | WEST: "┐",
    NORTH | SOUTH | EAST: "├",
    NORTH | SOUTH | WEST: "┤",
    EAST | WEST | NORTH: "┴",
    EAST | WEST | SOUTH: "┬",
    NORTH | EAST | SOUTH | WEST: "┼",
}

PLAIN, DOUBLE, HEAVY, DOTTED = map(tuple, ("┌─┐│└┘", "╔═╗║╚╝", "┏━┓┃┗┛", "╭╌╮┆╰╯"))
"""Borders: of a box, of the centre, of the box under the cursor, and of frames and of boxes for
several nodes.
"""

ARROW = "▸"

RESULT = "result "
"""Beginning of the names of selected results (``result_name``), which distinguish themselves in the
text after it.
"""


class Canvas:
    """Cells with a character and a kind each. A wide character takes two."""

    def __init__(self, width: int, height: int) -> None:
        self._characters = [[" "] * width for _ in range(height)]
        self._kinds = [["text"] * width for _ in range(height)]

    def put(self, x: int, y: int, character: str, kind: str) -> None:
        self._characters[y][x], self._kinds[y][x] = character, kind

    def write(self, x: int, y: int, text: str, kind: str) -> None:
        for character in text:
            cells = cell_len(character)
            if cells == 0:  # an accent: it belongs to the character before
                self._characters[y][x - 1] += character
                continue
            self.put(x, y, character, kind)
            if cells == 2:
                self.put(x + 1, y, "", kind)
            x += cells

    def border(self, box: Box, look: Sequence[str], kind: str) -> None:
        top_left, across, top_right, down, bottom_left, bottom_right = look
        right, bottom = box.x + box.width - 1, box.y + box.height - 1
        inner = across * (box.width - 2)
        self.write(box.x, box.y, top_left + inner + top_right, kind)
        self.write(box.x, bottom, bottom_left + inner + bottom_right, kind)
        for y in range(box.y + 1, bottom):
            self.put(box.x, y, down, kind)
            self.put(right, y, down, kind)

    def clear(self, box: Box) -> None:
        for y in range(box.y, box.y + box.height):
            self.write(box.x, y, " " * box.width, "text")

    def row(self, y: int) -> list[Piece]:
        """Return a row as pieces, without blanks at its end."""
        cells = list(zip(self._characters[y], self._kinds[y], strict=True))
        while cells and cells[-1][0] == " ":
            cells.pop()
        pieces = []
        for kind, run in groupby(cells, key=lambda cell: cell[1]):
            text = "".join(character for character, _ in run)
            pieces.append((text, kind))
        return pieces


def drawn(neighbourhood: Neighbourhood, picture: Picture, cursor: Key) -> Canvas:
    """Draw everything, with the box under the cursor standing out."""
    canvas = Canvas(picture.width, picture.height)
    titles = frame_titles(neighbourhood)
    for kernel, frame in picture.frames.items():
        canvas.border(frame, DOTTED, kernel_kind(kernel))
    _draw_lines(canvas, picture)
    for kernel, frame in picture.frames.items():
        room = frame.width - 6
        if cell_len(titles[kernel]) <= room:
            title = titles[kernel]
        else:
            title = titles[kernel].partition(" · ")[0]
        canvas.write(frame.x + 2, frame.y, f" {cut_in_middle(title, room)} ", kernel_kind(kernel))
    for key, box in picture.boxes.items():
        _draw_box(canvas, neighbourhood, key, box, key == cursor)
    return canvas


def frame_titles(neighbourhood: Neighbourhood) -> dict[int, str]:
    """Return the titles of the kernels' frames: the name, and how much of the kernel is outside of
    the picture.
    """
    titles = {}
    for kernel in {row.id: row for row in neighbourhood.kernels.values()}.values():
        size = neighbourhood.sizes.get(kernel.id, 0)
        title = f"{kernel.name} · {counted(size, 'operation')}" if size > 1 else kernel.name
        titles[kernel.id] = printable(title)
    return titles


def _draw_lines(canvas: Canvas, picture: Picture) -> None:
    """Draw all lines at once, so that they join where they meet."""
    bits: dict[tuple[int, int], int] = {}
    for begin, end, turn in picture.lines:
        begins, ends = picture.place(begin), picture.place(end)
        start = begins.x if begin[0] == "way" else begins.x + begins.width - 1
        _across(bits, start, turn, begins.middle)
        _down(bits, turn, begins.middle, ends.middle)
        _across(bits, turn, ends.x, ends.middle)
    for (x, y), sides in bits.items():
        straight = "─" if sides & (EAST | WEST) else "│"
        canvas.put(x, y, _LINES.get(sides, straight), "muted")
    for _, end, _ in picture.lines:
        if end[0] != "way":
            box = picture.place(end)
            canvas.put(box.x - 1, box.middle, ARROW, "muted")


def _across(bits: dict[tuple[int, int], int], start: int, stop: int, y: int) -> None:
    for x in range(start, stop + 1):
        sides = bits.get((x, y), 0)
        if x > start:
            sides |= WEST
        if x < stop:
            sides |= EAST
        bits[x, y] = sides


def _down(bits: dict[tuple[int, int], int], x: int, start: int, stop: int) -> None:
    top, bottom = min(start, stop), max(start, stop)
    for y in range(top, bottom + 1):
        sides = bits.get((x, y), 0)
        if y > top:
            sides |= NORTH
        if y < bottom:
            sides |= SOUTH
        bits[x, y] = sides


def _draw_box(
    canvas: Canvas, neighbourhood: Neighbourhood, key: Key, box: Box, is_here: bool
) -> None:
    is_centre = key == ("node", neighbourhood.centre.id)
    is_more = key[0] == "more"
    canvas.clear(box)
    if is_here:
        look, kind_of_border = HEAVY, "pointer"
    elif is_centre:
        look, kind_of_border = DOUBLE, "strong"
    elif is_more:
        look, kind_of_border = DOTTED, "muted"
    else:
        look, kind_of_border = PLAIN, "muted"
    canvas.border(box, look, kind_of_border)
    inside = box.width - 4
    for at, (text, kind) in enumerate(box_lines(neighbourhood, key)):
        is_result = text.startswith(RESULT) and cell_len(text) > inside
        if is_result:
            shown = cut_cells(text, 0, inside - 1) + "…"
        else:
            shown = cut_in_middle(text, inside)
        canvas.write(box.x + 2, box.y + 1 + at, shown, kind)


def box_lines(neighbourhood: Neighbourhood, key: Key) -> Sequence[Piece]:
    """Return the lines of a box: a node's name and value, or the number of nodes it represents."""
    if key[0] == "more":
        return ((f"and {neighbourhood.more[key[1]]:,} more", "strong"), ("⏎ shows some", "muted"))
    node = neighbourhood.nodes[key[1]]
    name = neighbourhood.names.get(node.id) or result_name(node)
    value = value_text(node) or operation(node)
    if node.op.startswith("call_"):
        return ((printable(name), "strong"), (printable(value), "type"))
    return ((printable(name), "muted"), (printable(value), "muted"))


EMPTY = "This graph has no nodes."


class NeighbourhoodView(LineView):
    """Boxes for a node and the nodes within two steps of it, lines between them, and a frame around
    the nodes of a fused kernel.

    The user sees: the node in the middle with a double border, the box under the cursor with a
    heavy one. Its lines are rows of the picture. ``walk`` makes the box under the cursor the
    middle.
    """

    def __init__(self) -> None:
        super().__init__(placeholder=EMPTY)
        self._reader: SessionReader | None = None
        self._graph: Graph | None = None
        self._neighbourhood: Neighbourhood | None = None
        self._picture: Picture | None = None
        self._canvas: Canvas | None = None
        self._at: Key = ("node", 0)
        self._shown: dict[Step, int] = {}

    # what a pane uses

    def load(self, reader: SessionReader, graph: Graph, position: int) -> None:
        """Show the neighbourhood of a node of a graph, with the cursor on it."""
        self._reader, self._graph, self._shown = reader, graph, {}
        self._neighbourhood = None
        if 0 <= position < graph.node_count:
            self._centre(graph.first_node + position)
        else:
            self._draw_again()

    @property
    def position(self) -> int:
        """Return the position in its graph of the node under the cursor; for a box of several
        nodes, of the centre.
        """
        if self._neighbourhood is None or self._graph is None:
            return 0
        node = self._at[1] if self._at[0] == "node" else self._neighbourhood.centre.id
        return node - self._graph.first_node

    @property
    def centre(self) -> int:
        """Return where in its graph the node in the middle stands."""
        return self._neighbourhood.centre.position if self._neighbourhood else 0

    @property
    def neighbourhood(self) -> Neighbourhood | None:
        """Return the shown neighbourhood; None for a graph without nodes."""
        return self._neighbourhood

    def centre_on(self, position: int) -> None:
        """Make another node of the graph the centre, with the cursor on it."""
        if self._graph and self._neighbourhood and self._neighbourhood.centre.position != position:
            self._shown = {}
            self._centre(self._graph.first_node + position)
        elif self._neighbourhood:
            self._go_to(("node", self._neighbourhood.centre.id))

    def show_near(self, positions: frozenset[int], anchor: int) -> None:
        """Move the cursor to one of these nodes if any is in the picture. Otherwise ``anchor``
        becomes the centre.
        """
        if self._graph is None or self._neighbourhood is None or self.position in positions:
            return
        first = self._graph.first_node
        here = next((node for node in self._neighbourhood.nodes if node - first in positions), None)
        if here is None:
            self.centre_on(anchor)
        else:
            self._go_to(("node", here))

    def walk(self) -> bool:
        """Make the node under the cursor the centre, or show more nodes of a box for several.
        Returns whether the centre has changed.
        """
        if self._neighbourhood is None:
            return False
        kind, value = self._at
        if kind == "more":
            self._shown[value] = self._shown.get(value, SHOWN_AT_A_STEP) + SHOWN_AT_A_STEP
            self._centre(self._neighbourhood.centre.id, self._at)
            return False
        before = self._neighbourhood.centre.id
        if value != before:
            self._shown = {}
            self._centre(value)
        return value != before

    # drawing

    def _centre(self, node: int, cursor: Key | None = None) -> None:
        assert self._reader is not None
        self._neighbourhood = neighbourhood(self._reader, node, self._shown)
        self._at = cursor or ("node", node)
        self._lay_out()

    def _lay_out(self) -> None:
        if self._neighbourhood:
            self._picture = laid_out(self._neighbourhood, self.body_width)
            if self._at not in self._picture.boxes:
                self._at = ("node", self._neighbourhood.centre.id)
        self._draw_again()
        is_centre = self._neighbourhood is not None and self._at == (
            "node",
            self._neighbourhood.centre.id,
        )
        self._reveal_box(in_the_middle=is_centre)

    def _draw_again(self) -> None:
        if self._neighbourhood and self._picture:
            self._canvas = drawn(self._neighbourhood, self._picture, self._at)
        else:
            self._canvas = None
        self.content_changed()

    def _reveal_box(self, in_the_middle: bool = False) -> None:
        """Scroll so that the box under the cursor is seen whole, if need be in the middle of the
        pane.
        """
        box = self._box
        if box is None or not self.body_width or not self.body_height:
            return
        left, top = self.scroll_offset
        if in_the_middle or not (left <= box.x and box.x + box.width <= left + self.body_width):
            left = box.x + box.width // 2 - self.body_width // 2
        if in_the_middle or not (top <= box.y and box.y + box.height <= top + self.body_height):
            top = box.middle - self.body_height // 2
        self.scroll_to_cell(left, top)

    @property
    def _box(self) -> Box | None:
        if self._picture:
            return self._picture.boxes.get(self._at)
        return None

    def on_resize(self) -> None:
        self.call_after_refresh(self._lay_out)

    # what LineView asks

    @property
    def line_count(self) -> int:
        if self._picture and self._canvas:
            return self._picture.height
        return 0

    @property
    def content_width(self) -> int:
        return self._picture.width if self._picture else 0

    def line_tokens(self, line: int) -> list[Piece]:
        return self._canvas.row(line) if self._canvas else []

    def line_state(self, line: int) -> int:
        return 0  # boxes are lit, not rows

    def text_to_copy(self) -> str:
        """Return the node under the cursor as a line of its graph."""
        if self._neighbourhood is None:
            return ""
        if self._at[0] == "more":
            return box_lines(self._neighbourhood, self._at)[0][0]
        return format_node(self._neighbourhood.nodes[self._at[1]])

    # moving from box to box

    def _go_to(self, key: Key) -> None:
        if key == self._at and self._canvas:
            self._reveal_box()
            return
        self._at = key
        self._cursor = self._box.middle if self._box else 0
        self._draw_again()
        self._reveal_box()

    def _user_goes_to(self, key: Key | None) -> None:
        if key is None or key == self._at:
            return
        self._go_to(key)
        paint_after_messages(self.app)
        self.post_message(self.Moved(self, self._cursor))

    def user_moves_to(self, line: int, center: bool = False) -> None:
        """Move the cursor to the nearest box on a row of the picture."""
        if self._picture and self._box:
            here = self._box
            self._user_goes_to(
                min(self._picture.boxes, key=lambda key: self._far(key, line, here.x), default=None)
            )

    def _far(self, key: Key, row: int, x: int) -> tuple[int, int]:
        assert self._picture is not None
        box = self._picture.boxes[key]
        rows = 0 if box.y <= row < box.y + box.height else abs(box.middle - row)
        return rows, abs(box.x - x)

    def action_cursor_by(self, lines: int) -> None:
        """Go to the next box below or above in the column."""
        column = self._column(0)
        if not column:
            self._user_goes_to(None)
            return
        at = column.index(self._at) if self._at in column else 0
        self._user_goes_to(column[max(0, min(at + lines, len(column) - 1))])

    def action_columns_by(self, columns: int) -> None:
        """Move the cursor to the left or right, preferably to a box that a line leads to."""
        picture, box = self._picture, self._box
        if picture is None or box is None:
            return
        side = 1 if columns > 0 else -1
        beside = self._column(side) or self._column(2 * side)
        if side < 0:
            joined = {begin for begin, end, _ in picture.lines if end == self._at}
        else:
            joined = {end for begin, end, _ in picture.lines if begin == self._at}
        self._user_goes_to(
            min(
                beside,
                key=lambda key: (key not in joined, abs(picture.boxes[key].middle - box.middle)),
                default=None,
            )
        )

    def _column(self, beside: int) -> list[Key]:
        """Return the boxes of a column, from the top; ``beside`` counts from the cursor's."""
        picture = self._picture
        if picture is None:
            return []
        column = picture.columns[self._at] + beside
        keys = [key for key in picture.boxes if picture.columns[key] == column]
        return sorted(keys, key=lambda key: picture.boxes[key].y)

    def action_first_line(self) -> None:
        self._user_goes_to(next(iter(self._column(0)), None))

    def action_last_line(self) -> None:
        self._user_goes_to(next(reversed(self._column(0)), None))

    def on_click(self, event: events.Click) -> None:
        event.prevent_default()  # LineView's would go to a row
        if self._picture is None or self._is_track(event):
            return
        x, y = event.x - self._margin + self.scroll_offset.x, event.y + self.scroll_offset.y
        key = next((key for key, box in self._picture.boxes.items() if box.holds(x, y)), None)
        self._user_goes_to(key)
        if key and event.chain == 2:
            self.action_follow()
