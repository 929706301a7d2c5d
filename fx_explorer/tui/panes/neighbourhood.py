"""The neighbourhood of a node is shown in a pane: the user goes from box to box, and Enter walks to
one.
"""

from __future__ import annotations

from textual import events

from fx_explorer.analysis.neighbourhood import (
    SHOWN_AT_A_STEP,
    Neighbourhood,
    Step,
    neighbourhood,
)
from fx_explorer.analysis.nodes import node_words
from fx_explorer.model import Graph
from fx_explorer.session import SessionReader
from fx_explorer.tui.panes.neighbourhood_drawing import Canvas, box_lines, drawn
from fx_explorer.tui.panes.neighbourhood_layout import Box, Key, Picture, laid_out
from fx_explorer.tui.widgets.line_painter import Piece
from fx_explorer.tui.widgets.line_view import LineView, paint_after_messages

EMPTY = "This graph has no nodes."


class NeighbourhoodView(LineView):
    """Boxes for a node and what is within two steps of it, lines between them, and a frame around
    what a kernel fuses.

    The user sees: the node in the middle with a double border, the box under the cursor with a
    heavy one. Its lines are rows of the picture. ``walk`` makes the box under the cursor the
    middle.
    """

    def __init__(self) -> None:
        super().__init__(placeholder=EMPTY)
        self._reader: SessionReader | None = None
        self._graph: Graph | None = None
        self._found: Neighbourhood | None = None
        self._picture: Picture | None = None
        self._canvas: Canvas | None = None
        self._at: Key = ("node", 0)
        self._shown: dict[Step, int] = {}

    # what a pane uses

    def load(self, reader: SessionReader, graph: Graph, position: int) -> None:
        """Show what is around a node of a graph, with the cursor on it."""
        self._reader, self._graph, self._shown = reader, graph, {}
        self._found = None
        if 0 <= position < graph.node_count:
            self._centre(graph.first_node + position)
        else:
            self._draw_again()

    @property
    def position(self) -> int:
        """Return where in its graph the node under the cursor stands; of what stands for more
        nodes, the node in the middle.
        """
        if self._found is None or self._graph is None:
            return 0
        node = self._at[1] if self._at[0] == "node" else self._found.centre.id
        return node - self._graph.first_node

    @property
    def centre(self) -> int:
        """Return where in its graph the node in the middle stands."""
        return self._found.centre.position if self._found else 0

    @property
    def neighbourhood(self) -> Neighbourhood | None:
        """Return what is shown; None for a graph without nodes."""
        return self._found

    def centre_on(self, position: int) -> None:
        """Put another node of the graph into the middle, and the cursor on it."""
        if self._graph and self._found and self._found.centre.position != position:
            self._shown = {}
            self._centre(self._graph.first_node + position)
        elif self._found:
            self._go_to(("node", self._found.centre.id))

    def show_near(self, positions: frozenset[int], anchor: int) -> None:
        """Show one of these nodes: the cursor goes to it if it is in the picture, else it becomes
        the middle.
        """
        if self._graph is None or self._found is None or self.position in positions:
            return
        first = self._graph.first_node
        here = next((node for node in self._found.nodes if node - first in positions), None)
        if here is None:
            self.centre_on(anchor)
        else:
            self._go_to(("node", here))

    def walk(self) -> bool:
        """Make the node under the cursor the middle, or show more of what stands for further nodes.
        Returns whether there is another node in the middle.
        """
        if self._found is None:
            return False
        kind, value = self._at
        if kind == "more":
            self._shown[value] = self._shown.get(value, SHOWN_AT_A_STEP) + SHOWN_AT_A_STEP
            self._centre(self._found.centre.id, self._at)
            return False
        before = self._found.centre.id
        if value != before:
            self._shown = {}
            self._centre(value)
        return value != before

    # drawing

    def _centre(self, node: int, cursor: Key | None = None) -> None:
        assert self._reader is not None
        self._found = neighbourhood(self._reader, node, self._shown)
        self._at = cursor or ("node", node)
        self._lay_out()

    def _lay_out(self) -> None:
        if self._found:
            self._picture = laid_out(self._found, self.body_width)
            if self._at not in self._picture.boxes:
                self._at = ("node", self._found.centre.id)
        self._draw_again()
        self._reveal_box(
            in_the_middle=self._at == ("node", self._found.centre.id) if self._found else False
        )

    def _draw_again(self) -> None:
        if self._found and self._picture:
            self._canvas = drawn(self._found, self._picture, self._at)
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
        return self._picture.boxes.get(self._at) if self._picture else None

    def on_resize(self) -> None:
        self.call_after_refresh(self._lay_out)

    # what LineView asks

    @property
    def line_count(self) -> int:
        return self._picture.height if self._picture and self._canvas else 0

    @property
    def content_width(self) -> int:
        return self._picture.width if self._picture else 0

    def line_tokens(self, line: int) -> list[Piece]:
        return self._canvas.row(line) if self._canvas else []

    def line_state(self, line: int) -> int:
        return 0  # boxes are lit, not rows

    def text_to_copy(self) -> str:
        """Return the node under the cursor as a line of its graph."""
        if self._found is None:
            return ""
        if self._at[0] == "more":
            return box_lines(self._found, self._at)[0][0]
        return node_words(self._found.nodes[self._at[1]])

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
        """Go to the box on a row of the picture that is nearest."""
        if self._picture and self._box:
            here = self._box
            self._user_goes_to(
                min(self._picture.boxes, key=lambda key: self._far(key, line, here.x), default=None)
            )

    def _far(self, key: Key, row: int, x: int) -> tuple[int, int]:
        assert self._picture is not None
        box = self._picture.boxes[key]
        return (0 if box.y <= row < box.y + box.height else abs(box.middle - row)), abs(box.x - x)

    def action_cursor_by(self, lines: int) -> None:
        """Go to the next box below or above in the column."""
        column = self._column(0)
        at = column.index(self._at) if self._at in column else 0
        self._user_goes_to(column[max(0, min(at + lines, len(column) - 1))] if column else None)

    def action_columns_by(self, columns: int) -> None:
        """Go to the box left or right: to one that a line leads to, where there is one."""
        picture, box = self._picture, self._box
        if picture is None or box is None:
            return
        side = 1 if columns > 0 else -1
        beside = self._column(side) or self._column(2 * side)
        joined = {
            begin if side < 0 else end
            for begin, end, _ in picture.lines
            if self._at == (end if side < 0 else begin)
        }
        self._user_goes_to(
            min(
                beside,
                key=lambda key: (key not in joined, abs(picture.boxes[key].middle - box.middle)),
                default=None,
            )
        )

    def _column(self, beside: int) -> list[Key]:
        """Return the boxes of a column, from the top; ``beside`` counts from the cursor's."""
        if self._picture is None:
            return []
        column = self._picture.columns[self._at] + beside
        keys = [key for key in self._picture.boxes if self._picture.columns[key] == column]
        return sorted(keys, key=lambda key: self._picture.boxes[key].y if self._picture else 0)

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
