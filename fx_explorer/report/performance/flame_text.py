"""A flame chart as rows of text: what the terminal prints, and what the app paints.

A block begins with a thin bar, so that neighbours of one colour, or of none, are told apart.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from fx_explorer.analysis.ledger.figures import LedgerFigures
from fx_explorer.analysis.ledger.flame import FlameFrame, FlameKind, flame, unaccounted_in_words
from fx_explorer.analysis.ledger.flame_cells import FlameBlock, flame_rows, is_all_of, marked_blocks
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import counted
from fx_explorer.highlight import printable
from fx_explorer.report.performance.flame_colours import COLOURS, INK, kind_in_words, kinds_in

EDGE, FILL, POINTER, SAMPLE = "▏", "─", "▲", "█"

LEAST_CUT = 4
"""Cells from which on the beginning of a name says more than nothing."""

TICK_CELLS = 20


class FlamePiece(NamedTuple):
    """A stretch of a row."""

    text: str
    kind: FlameKind | None = None
    """None beside the blocks."""
    is_marked: bool = False


FlameRow = list[FlamePiece]


def flame_text(figures: LedgerFigures, width: int, *, has_colours: bool) -> Text:
    """Return the whole chart with the axis of time, at most ``width`` cells wide. Colours come with a
    legend; without them lines fill the blocks.
    """
    root = flame(figures)
    rows = [_row(blocks, (), "" if has_colours else FILL) for blocks in flame_rows(root, width)]
    lines = [Text.assemble(*((text, _style(kind)) for text, kind, _ in row)) for row in rows]
    lines.append(Text(_axis(root.duration_s, width)))
    if has_colours:
        lines += _legend(figures, root, width)
    lines += map(Text, textwrap.wrap(unaccounted_in_words(figures), width))
    for line in lines:
        line.rstrip()
        line.truncate(width, overflow="ellipsis")
    return Text("\n").join(lines)


def marked_chart(rows: Sequence[Sequence[FlameBlock]], width: int, height: int, steps: Collection[int]) -> list[FlameRow]:
    """Return the chart in ``height`` rows, with some steps marked. The last row points at them; where
    there is no room for all levels, it says which ones are shown: those down to the marked blocks.
    """
    window = shown_levels(rows, height, steps)
    levels = f"levels {window[0] + 1} to {window[-1] + 1} of {len(rows)}" if len(window) < len(rows) else ""
    marked = [block for _, block in marked_blocks(rows, steps)]
    lit = [block for block in marked if not block.is_open or _is_meant(block.main, steps)]
    return [*(_row(rows[number], lit, "") for number in window), [FlamePiece(_pointers(marked, steps, width, levels))]]


def shown_levels(rows: Sequence[Sequence[FlameBlock]], height: int, steps: Collection[int]) -> range:
    """Return the levels that ``marked_chart`` shows."""
    shown = max(1, height - 1)
    deepest = max((row for row, _ in marked_blocks(rows, steps)), default=0)
    first = max(0, deepest + 1 - shown)
    return range(first, min(first + shown, len(rows)))


def _row(blocks: Sequence[FlameBlock], lit: Collection[FlameBlock], fill: str) -> FlameRow:
    found, cell = FlameRow(), 0
    for block in blocks:
        if block.first > cell:
            found.append(FlamePiece(" " * (block.first - cell)))
        found.append(FlamePiece(EDGE + _inside(block, block.cells - 1, fill), block.kind, block in lit))
        cell = block.first + block.cells
    return found


def _inside(block: FlameBlock, room: int, fill: str) -> str:
    """Return what stands in a block: the longest of its names that fits, or the beginning of one."""
    names = [printable(name) for name in block.names]
    name = next((name for name in names if cell_len(name) <= room), "")
    if not name and room >= LEAST_CUT:
        name = set_cell_size(names[-1], room - 1).rstrip() + "…"
    return name + " " * min(1, room - cell_len(name)) + (fill or " ") * (room - cell_len(name) - 1)


def _is_meant(frame: FlameFrame | None, steps: Collection[int]) -> bool:
    return frame is not None and is_all_of(frame, frozenset(steps))


def _pointers(marked: Sequence[FlameBlock], steps: Collection[int], width: int, levels: str) -> str:
    """Return the row below the chart: a mark below each marked block, with its name where there is one."""
    room = width - len(levels) - 2
    if not levels or room < TICK_CELLS:
        room, levels = width, ""
    if len(marked) == 1:
        told = _pointed(_middle(marked[0], steps), _name(marked[0], steps), room)
    else:
        cells = {_middle(block, steps) for block in marked}
        told = "".join(POINTER if cell in cells else " " for cell in range(room))
    return set_cell_size(told, room) + (f"  {levels}" if levels else "")


def _middle(block: FlameBlock, steps: Collection[int]) -> int:
    """Return the cell to point at: the middle of a block; its first or last where the steps stand beside
    what the block is.
    """
    if block.main is None or _is_meant(block.main, steps) or not block.is_open:
        return block.first + (block.cells - 1) // 2
    return block.first if min(steps) < block.main.steps.start else block.first + block.cells - 1


def _pointed(cell: int, name: str, room: int) -> str:
    """Return the mark with a name on the side that has more room."""
    if cell + 2 + cell_len(name) <= room or cell < room // 2:
        left = max(0, room - cell - 2)
        return " " * cell + f"{POINTER} {_cut(name, left)}"
    cell = min(cell, room - 1)
    told = _cut(name, max(0, cell - 1))
    return " " * (cell - 1 - cell_len(told)) + f"{told} {POINTER}"


def _cut(text: str, room: int) -> str:
    return text if cell_len(text) <= room else set_cell_size(text, room - 1) + "…" if room > 1 else ""


def _name(block: FlameBlock, steps: Collection[int]) -> str:
    """Return what a marked block is; of merged steps, the one that is meant."""
    within = [frame for one in block.frames for frame in one.frames() if _is_meant(frame, steps)]
    if not within:
        return counted(len(block.steps), "step")
    return printable(f"{within[-1].name}, {run_time(within[-1].duration_s)}{_company(block, within[-1])}")


def _company(block: FlameBlock, frame: FlameFrame) -> str:
    """Say what a frame shares its block with; empty where the block is its own."""
    if block.main is None:
        return f", one of {counted(len(block.steps), 'step')}"
    return "" if block.main is frame else f", beside {block.main.name}"


def _style(kind: FlameKind | None) -> Style | str:
    return Style(color=INK, bgcolor=COLOURS[kind]) if kind else ""


def _axis(whole_s: float, width: int) -> str:
    """Return times below the chart, each where it is in the call; the last ends at the right."""
    ticks = max(1, width // TICK_CELLS)
    last = run_time(whole_s)
    line = ""
    for tick in range(ticks):
        line = line.ljust(tick * width // ticks) + EDGE + run_time(whole_s * tick / ticks)
    return line[: max(0, width - len(last) - 1)].ljust(width - len(last)) + last if len(last) <= width else ""


def _legend(figures: LedgerFigures, root: FlameFrame, width: int) -> Iterator[Text]:
    line = Text()
    for kind in kinds_in(root):
        words = f" {kind_in_words(figures, kind)}"
        if line and line.cell_len + 3 + len(words) > width:
            yield line
            line = Text()
        line += Text.assemble("  " if line else "", (SAMPLE, COLOURS[kind]), words)
    yield line
