"""This module draws a flame chart: as rows of text, in pieces of one colour, for the terminal, the
app, and the chart above the rows of a view; and as a self-contained SVG, with the details of a
block when the mouse is over it.

A block of text begins with a thin bar, so that neighbours of one colour, or of none, can be
distinguished. Letters beside the blocks of an SVG are of a grey that can be read on white and on
black.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from xml.sax.saxutils import escape

from rich.cells import cell_len, set_cell_size

from fx_explorer.analysis.flame import (
    FlameBlock,
    FlameFrame,
    flame_rows,
    in_order,
    is_all_of,
    marked_blocks,
    short_name,
)
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.drawing.svg import (
    GREY,
    LETTER,
    LINE,
    MARGIN,
    SVG_END,
    WIDTH,
    legend_svg,
    safe_line,
    safe_lines,
    svg_start,
    svg_text,
)
from fx_explorer.drawing.view_table import ChartPiece
from fx_explorer.highlight import printable

EDGE, POINTER = "▏", "▲"

LEAST_CUT = 4
"""Minimum number of cells or letters in which the beginning of a name is shown."""

TICK_CELLS = 20

GAP = 2

Marked = Sequence[tuple[int, FlameBlock]]
"""Blocks, each with its row."""


class FlamePiece(NamedTuple):
    """Cells of a chart's row, side by side, that are drawn alike."""

    text: str
    kind: str = ""
    """Kind of the block, for its colour; empty for text beside the blocks."""
    is_marked: bool = False


FlameRow = list[FlamePiece]


def marked_chart(
    rows: Sequence[Sequence[FlameBlock]], width: int, height: int, steps: Collection[int]
) -> list[FlameRow]:
    """Return the chart in ``height`` rows, with some steps marked. The last row points at them; if
    not all levels fit, it says which ones are shown: those down to the marked blocks.
    """
    steps = in_order(steps)
    placed = marked_blocks(rows, steps)
    window = _levels(placed, len(rows), height)
    levels = ""
    if len(window) < len(rows):
        levels = f"levels {window[0] + 1} to {window[-1] + 1} of {len(rows)}"
    marked = [block for _, block in placed]
    lit = [block for block in marked if not block.is_open or _is_meant(block.main, steps)]
    chart = [row_of_blocks(rows[number], lit) for number in window]
    pointers = FlamePiece(_pointers(marked, steps, width, levels))
    return [*chart, [pointers]]


def shown_levels(
    rows: Sequence[Sequence[FlameBlock]], height: int, steps: Collection[int]
) -> range:
    """Return the levels that ``marked_chart`` shows."""
    return _levels(marked_blocks(rows, steps), len(rows), height)


def _levels(marked: Marked, count: int, height: int) -> range:
    shown = max(1, height - 1)
    deepest = max((row for row, _ in marked), default=0)
    first = max(0, deepest + 1 - shown)
    return range(first, min(first + shown, count))


def row_of_blocks(
    blocks: Sequence[FlameBlock], lit: Collection[FlameBlock] = (), fill: str = ""
) -> FlameRow:
    """Return a row of the chart. ``lit`` blocks are marked; ``fill`` is the character that fills
    blocks beside their names.
    """
    row, cell = FlameRow(), 0
    for block in blocks:
        if block.first > cell:
            row.append(FlamePiece(" " * (block.first - cell)))
        text = EDGE + _inside(block, block.cells - 1, fill)
        row.append(FlamePiece(text, block.kind, block in lit))
        cell = block.first + block.cells
    return row


def _inside(block: FlameBlock, room: int, fill: str) -> str:
    """Return the text in a block: the longest of the block's names that fits, or the beginning of a
    name.
    """
    names = [printable(name) for name in block.names]
    name = next((name for name in names if cell_len(name) <= room), "")
    if not name and room >= LEAST_CUT:
        name = set_cell_size(names[-1], room - 1).rstrip() + "…"
    return name + " " * min(1, room - cell_len(name)) + (fill or " ") * (room - cell_len(name) - 1)


def _is_meant(frame: FlameFrame | None, steps: Sequence[int]) -> bool:
    return frame is not None and is_all_of(frame, steps)


def _pointers(marked: Sequence[FlameBlock], steps: Sequence[int], width: int, levels: str) -> str:
    """Return the row below the chart: a mark below each marked block, with its name if there is
    room, and the shown levels at the side without a mark.
    """
    cells = {_middle(block, steps) for block in marked}
    if levels and width - len(levels) - GAP >= TICK_CELLS:
        taken = len(levels) + GAP
    else:
        taken = 0
    is_free = (max(cells, default=0) < width - taken, min(cells, default=0) >= taken)
    if not any(is_free):
        taken = 0
    before = 0 if is_free[0] else taken
    room = width - taken
    if len(marked) == 1:
        text = _pointed(cells.pop() - before, _names(marked[0], steps), room)
    else:
        text = ""
        for cell in range(before, before + room):
            text += POINTER if cell in cells else " "
    text = set_cell_size(text, room)
    if not taken:
        return text
    gap = " " * GAP
    if before:
        return f"{levels}{gap}{text}"
    return f"{text}{gap}{levels}"


def _middle(block: FlameBlock, steps: Sequence[int]) -> int:
    """Return the cell to point at: the middle of a block; its first or last if the steps are beside
    the block's main frame.
    """
    if block.main is None or _is_meant(block.main, steps) or not block.is_open:
        return block.first + (block.cells - 1) // 2
    if steps[0] < block.main.steps.start:
        return block.first
    return block.first + block.cells - 1


def _pointed(cell: int, names: Sequence[str], room: int) -> str:
    """Return the mark with the first name that fits beside it, else with the beginning of the
    last.
    """
    left, right = max(0, cell - 1), max(0, room - cell - 2)
    name = next((name for name in names if cell_len(name) <= max(left, right)), names[-1])
    if cell_len(name) <= right or right >= left:
        return " " * cell + f"{POINTER} {_cut(name, right)}"
    text = _cut(name, left)
    return " " * (left - cell_len(text)) + f"{text} {POINTER}"


def _cut(text: str, room: int) -> str:
    if cell_len(text) <= room:
        return text
    if room <= 1:
        return ""
    return set_cell_size(text, room - 1) + "…"


def _names(block: FlameBlock, steps: Sequence[int]) -> list[str]:
    """Return the possible texts for a marked block, the longest first. Where a block merges several
    steps, they are the texts of the step that is marked.
    """
    within: list[FlameFrame] = []
    for frame in block.frames:
        within += [inner for inner in frame.frames() if _is_meant(inner, steps)]
    if not within:
        return [block.counted_steps]
    name = within[-1].name
    took = run_time(within[-1].duration_s) + _company(block, within[-1])
    texts = (f"{name}, {took}", f"{short_name(name)}, {took}", took)
    return [printable(text) for text in texts]


def _company(block: FlameBlock, frame: FlameFrame) -> str:
    """Describe the other frames in a frame's block; empty if it has the block alone."""
    if block.main is None:
        return f", one of {block.counted_steps}"
    if block.main is frame:
        return ""
    return f", beside {block.main.name}"


class FlameChart:
    """Draws a frame with all frames inside it, and marks those of a row of the table."""

    def __init__(
        self,
        root: FlameFrame,
        steps_of_rows: Sequence[Collection[int]],
        tones: Mapping[str, str],
        *,
        noun: str = "step",
        part_of_screen: int = 6,
    ) -> None:
        """``steps_of_rows``: for each row of the table the positions of its steps. ``tones``: kind
        of a frame → colour of the theme. ``noun``: name of a step. ``part_of_screen``: 6 for one
        row in six.
        """
        self._root = root
        self._steps = steps_of_rows
        self._tones = tones
        self._part_of_screen = part_of_screen
        self._blocks = lru_cache(maxsize=2)(lambda width: flame_rows(root, width, noun))

    def room(self, screen: int) -> int:
        return screen // self._part_of_screen

    def height(self, width: int) -> int:
        """Return the rows of the whole chart: its levels, and the row that points at the marked
        blocks.
        """
        return len(self._blocks(width)) + 1

    def rows(self, width: int, height: int, row: int) -> list[list[ChartPiece]]:
        """Return the chart in pieces with their tones, with the steps of a row marked."""
        chart = marked_chart(self._blocks(width), width, height, self._steps_of(row))
        return [self._pieces(line) for line in chart]

    def _pieces(self, line: FlameRow) -> list[ChartPiece]:
        return [ChartPiece(text, self._tones.get(kind, ""), lit) for text, kind, lit in line]

    def row_at(self, width: int, height: int, row: int, x: int, y: int) -> int | None:
        """Return the row of the table for the block at a cell; None without one."""
        blocks = self._blocks(width)
        levels = shown_levels(blocks, height, self._steps_of(row))
        if y >= len(levels):
            return None
        for block in blocks[levels[y]]:
            if block.first <= x < block.first + block.cells:
                return self._row_of(block)
        return None

    def _steps_of(self, row: int) -> Collection[int]:
        if row >= len(self._steps):
            return ()
        return self._steps[row]

    def _row_of(self, block: FlameBlock) -> int | None:
        """Return the row with exactly the block's steps, else the row of its first step."""
        steps = block.main.steps if block.main else block.steps
        for wanted in (frozenset(steps), frozenset(steps[:1])):
            for row in reversed(range(len(self._steps))):
                steps_of_row = self._steps[row]
                if len(steps_of_row) == len(wanted) and wanted.issuperset(steps_of_row):
                    return row
        if not steps:
            return None
        for row, steps_of_row in enumerate(self._steps):
            if steps[0] in steps_of_row and min(steps_of_row) == steps[0]:
                return row
        return None


ROW = 20
"""Height of a row of blocks, in pixels."""

MANY, LEAST_PIXELS = 5_000, 0.05
"""In a chart of more than MANY frames, blocks narrower than LEAST_PIXELS are left out with all
their children: they would be invisible.
"""

TICKS = 8


@dataclass(frozen=True, slots=True)
class FlamePicture:
    """A flame chart to be drawn as SVG: frames, titles, colours and texts under the mouse."""

    root: FlameFrame
    titles: Sequence[str]
    """Sentences above the blocks."""
    about: Callable[[FlameFrame], list[str]]
    """The lines that the mouse shows of a frame."""
    colours: Mapping[str, str]
    """Kind of a frame → its colour; dark letters can be read on each."""
    legend: Mapping[str, str]
    """Kind → its label in the legend, for the kinds that the chart has."""


def flame_picture_svg(picture: FlamePicture) -> str:
    """Return the SVG text of a flame chart, which needs no other file."""
    sentences = " ".join(filter(None, picture.titles))
    titles = textwrap.wrap(sentences, int((WIDTH - 2 * MARGIN) / LETTER))
    chart = _Chart(picture, top=MARGIN + LINE * len(titles))
    entries = [(picture.colours[kind], text) for kind, text in picture.legend.items()]
    legend = list(legend_svg(entries, chart.bottom + 3 * LINE))
    legend_rows = 1 + max((row for row, _ in legend), default=0)
    height = chart.bottom + 2 * LINE + MARGIN + LINE * legend_rows
    lines = [svg_start(height)]
    for number, title in enumerate(titles):
        lines.append(svg_text(MARGIN, MARGIN + LINE * number + 7, title, "beside title"))
    lines += chart.blocks()
    lines += chart.axis()
    lines += [drawn for _, drawn in legend]
    return "\n".join([*lines, SVG_END])


class _Chart:
    """Draws the blocks, and the time axis below them."""

    def __init__(self, picture: FlamePicture, top: int) -> None:
        root = picture.root
        self._picture = picture
        self._root = root
        self._top = top
        if root.duration_s > 0:
            self._scale = (WIDTH - 2 * MARGIN) / root.duration_s
        else:
            self._scale = 0.0
        depths = [frame.depth for frame in root.frames()]
        self._least = LEAST_PIXELS if len(depths) > MANY else 0.0
        self.bottom = top + ROW * (1 + max(depths) - root.depth)

    def blocks(self) -> Iterator[str]:
        waiting = [self._root]
        while waiting:
            frame = waiting.pop()
            yield self._block(frame)
            inner = reversed(frame.children)
            waiting += [child for child in inner if self._width(child) >= self._least]

    def _block(self, frame: FlameFrame) -> str:
        left, width = self._x(frame.began_s), self._width(frame)
        top = self._top + ROW * (frame.depth - self._root.depth)
        name = _fitting(safe_line(frame.name), int((width - 6) / LETTER))
        colour = self._picture.colours[frame.kind]
        drawn = (
            f"<title>{escape(safe_lines(self._picture.about(frame)))}</title>"
            f'<rect x="{left:.2f}" y="{top}" width="{width:.2f}" height="{ROW}" fill="{colour}"/>'
        )
        if name:
            drawn += svg_text(left + 3, top + 14, name)
        return f"<g>{drawn}</g>"

    def axis(self) -> Iterator[str]:
        """Yield times, each below the place where it is in the chart."""
        for tick in range(TICKS + 1):
            time_s = self._root.duration_s * tick / TICKS
            left = MARGIN + time_s * self._scale
            anchor = "middle"
            if tick == 0:
                anchor = "start"
            elif tick == TICKS:
                anchor = "end"
            yield f'<path d="M{left:.2f} {self.bottom} v5" stroke="{GREY}"/>'
            yield svg_text(left, self.bottom + 17, run_time(time_s), "beside", anchor)

    def _x(self, time_s: float) -> float:
        return MARGIN + (time_s - self._root.began_s) * self._scale

    def _width(self, frame: FlameFrame) -> float:
        return frame.duration_s * self._scale


def _fitting(name: str, letters: int) -> str:
    """Return the longest form of a name that fits, or its beginning; empty if neither does."""
    for text in (name, short_name(name)):
        if cell_len(text) <= letters:
            return text
    if letters >= LEAST_CUT:
        return set_cell_size(short_name(name), letters - 1).rstrip() + "…"
    return ""
