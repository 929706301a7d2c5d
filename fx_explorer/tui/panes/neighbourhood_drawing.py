"""A laid out neighbourhood is drawn in characters: frames first, lines over them, boxes on top."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.cells import cell_len

from fx_explorer.analysis.input_names import result_name
from fx_explorer.analysis.neighbourhood import Neighbourhood
from fx_explorer.analysis.nodes import operation, value_text
from fx_explorer.analysis.words import counted
from fx_explorer.cut_text import cut_cells, cut_in_middle
from fx_explorer.drawing.colours import kernel_kind
from fx_explorer.highlight import printable
from fx_explorer.tui.panes.neighbourhood_layout import Box, Key, Picture
from fx_explorer.tui.widgets.line_painter import Piece

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
"""Borders: of a box, of the centre, of the box under the cursor, and of frames and of what stands
for more.
"""

ARROW = "▸"

RESULT = "result "
"""Begins the names of results that are chosen (``result_name``), of which the beginning tells them
apart.
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
        runs = groupby(cells, key=lambda cell: cell[1])
        return [("".join(character for character, _ in run), kind) for kind, run in runs]


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
    """Return what stands in a kernel's frame: its name, and how much of it is not in the
    picture.
    """
    titles = {}
    for kernel in {row.id: row for row in neighbourhood.kernels.values()}.values():
        size = neighbourhood.sizes.get(kernel.id, 0)
        titles[kernel.id] = printable(
            f"{kernel.name} · {counted(size, 'operation')}" if size > 1 else kernel.name
        )
    return titles


def _draw_lines(canvas: Canvas, picture: Picture) -> None:
    """Draw all lines at once, so that they join where they meet."""
    bits: dict[tuple[int, int], int] = {}
    for begin, end, turn in picture.lines:
        begins, ends = picture.place(begin), picture.place(end)
        _across(
            bits,
            begins.x if begin[0] == "way" else begins.x + begins.width - 1,
            turn,
            begins.middle,
        )
        _down(bits, turn, begins.middle, ends.middle)
        _across(bits, turn, ends.x, ends.middle)
    for (x, y), sides in bits.items():
        canvas.put(x, y, _LINES.get(sides, "─" if sides & (EAST | WEST) else "│"), "muted")
    for _, end, _ in picture.lines:
        if end[0] != "way":
            box = picture.place(end)
            canvas.put(box.x - 1, box.middle, ARROW, "muted")


def _across(bits: dict[tuple[int, int], int], start: int, stop: int, y: int) -> None:
    for x in range(start, stop + 1):
        bits[x, y] = bits.get((x, y), 0) | (WEST if x > start else 0) | (EAST if x < stop else 0)


def _down(bits: dict[tuple[int, int], int], x: int, start: int, stop: int) -> None:
    top, bottom = min(start, stop), max(start, stop)
    for y in range(top, bottom + 1):
        bits[x, y] = bits.get((x, y), 0) | (NORTH if y > top else 0) | (SOUTH if y < bottom else 0)


def _draw_box(
    canvas: Canvas, neighbourhood: Neighbourhood, key: Key, box: Box, is_here: bool
) -> None:
    is_centre = key == ("node", neighbourhood.centre.id)
    is_more = key[0] == "more"
    canvas.clear(box)
    look = HEAVY if is_here else DOUBLE if is_centre else DOTTED if is_more else PLAIN
    canvas.border(box, look, "pointer" if is_here else "strong" if is_centre else "muted")
    inside = box.width - 4
    for at, (text, kind) in enumerate(box_lines(neighbourhood, key)):
        is_result = text.startswith(RESULT) and cell_len(text) > inside
        shown = cut_cells(text, 0, inside - 1) + "…" if is_result else cut_in_middle(text, inside)
        canvas.write(box.x + 2, box.y + 1 + at, shown, kind)


def box_lines(neighbourhood: Neighbourhood, key: Key) -> Sequence[Piece]:
    """Return what a box says: a node's name and value, or how many nodes it stands for."""
    if key[0] == "more":
        return ((f"and {neighbourhood.more[key[1]]:,} more", "strong"), ("⏎ shows some", "muted"))
    node = neighbourhood.nodes[key[1]]
    name = neighbourhood.names.get(node.id) or result_name(node)
    is_computed = node.op.startswith("call_")
    value = value_text(node) or operation(node)
    return (
        (printable(name), "strong" if is_computed else "muted"),
        (printable(value), "type" if is_computed else "muted"),
    )
