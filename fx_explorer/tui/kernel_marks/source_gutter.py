"""What stands between the number of a source line and its text: a break or a recompile, then how much
the line's kernels take, and how many they are: ``✗ ▆▂ 42% ×3``.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from fx_explorer.analysis.heat.line_heat import LineHeat
from fx_explorer.tui.kernel_marks.kernel_colours import kernel_kind
from fx_explorer.tui.widgets.lines.line_painter import Piece

BLOCKS = "▁▂▃▄▅▆▇█"

UNKNOWN_BLOCK = "■"
"""Stands for a kernel of which nothing is known but that it is there."""


def source_gutter(
    events: Mapping[int, Piece], heat: Mapping[int, LineHeat], blocks: int
) -> dict[int, list[Piece]]:
    """Return the gutter of each line (from 0) that has anything. ``events`` are the glyphs of what
    happened there. The dearest kernels of a line have a block each, as high as what they take: at most
    ``blocks``.
    """
    if not heat:
        return {line: [glyph] for line, glyph in events.items()}
    most = max(one.largest_share for one in heat.values())
    widest = min(blocks, max(len(one.parts) for one in heat.values()))
    shares = max(len(percent(one.share)) for one in heat.values()) if most else 0
    counts = max(len(_count(one)) for one in heat.values())
    found: dict[int, list[Piece]] = {}
    for line in events.keys() | heat.keys():
        glyph = events.get(line, (" ", "muted"))
        pieces = [glyph, (" ", "muted")] if events else []
        if one := heat.get(line):
            pieces += _blocks(one, most, widest)
            pieces += [(f"{percent(one.share):>{shares}}", "text")] if shares else []
            pieces.append((f"{_count(one):<{counts}}", "muted"))
        found[line] = pieces
    return found


def percent(share: float) -> str:
    """Return ``42%``; ``<1%`` for what would be 0%."""
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def _count(one: LineHeat) -> str:
    return f"×{len(one.parts)}"


def _blocks(one: LineHeat, most: float, cells: int) -> list[Piece]:
    shown = one.parts[:cells]
    blocks: list[Piece] = [(_block(share, most), kernel_kind(kernel)) for kernel, share in shown]
    return [(" " * (cells - len(shown)), "muted")] * (len(shown) < cells) + blocks


def _block(share: float, most: float) -> str:
    return BLOCKS[max(0, ceil(share / most * len(BLOCKS)) - 1)] if most else UNKNOWN_BLOCK
