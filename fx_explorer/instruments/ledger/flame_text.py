"""The flame chart of a ledger as text, with the axis of time and a legend: what the command line
prints.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from fx_explorer.analysis.flame import FlameFrame, flame_rows
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.drawing.flame_rows import EDGE, TICK_CELLS, row_of_blocks
from fx_explorer.drawing.flame_svg import INK
from fx_explorer.instruments.ledger.figures import LedgerFigures
from fx_explorer.instruments.ledger.flame import flame, unaccounted_in_words
from fx_explorer.instruments.ledger.flame_colours import COLOURS, kind_in_words, kinds_in

FILL, SAMPLE = "─", "█"


def flame_text(figures: LedgerFigures, width: int, *, has_colours: bool) -> Text:
    """Return the whole chart with the axis of time, at most ``width`` cells wide. Colours come with
    a legend; without them lines fill the blocks.
    """
    root = flame(figures)
    rows = [
        row_of_blocks(blocks, fill="" if has_colours else FILL)
        for blocks in flame_rows(root, width)
    ]
    lines = [Text.assemble(*((text, _style(kind)) for text, kind, _ in row)) for row in rows]
    lines.append(Text(_axis(root.duration_s, width)))
    if has_colours:
        lines += _legend(figures, root, width)
    lines += map(Text, textwrap.wrap(unaccounted_in_words(figures), width))
    for line in lines:
        line.rstrip()
        line.truncate(width, overflow="ellipsis")
    return Text("\n").join(lines)


ASCII = {EDGE: "|", FILL: "-", SAMPLE: "#", "µ": "u", "…": "~", "×": "x"}
"""What stands for the chart's signs where the terminal cannot show them: each takes one cell."""


def in_ascii(chart: Text) -> Text:
    """Return a chart for an output that can encode nothing else: what has no sign of its own is
    ``?``.
    """
    plain = "".join(_ascii(sign) for sign in chart.plain)
    return Text(plain, spans=chart.spans) if len(plain) == len(chart.plain) else Text(plain)


def _ascii(sign: str) -> str:
    return ASCII.get(sign, sign if sign.isascii() else "?" * max(0, cell_len(sign)))


def _style(kind: str) -> Style | str:
    return Style(color=INK, bgcolor=COLOURS[kind]) if kind else ""


def _axis(whole_s: float, width: int) -> str:
    """Return times below the chart, each where it is in the call; the last ends at the right."""
    ticks = max(1, width // TICK_CELLS)
    last = run_time(whole_s)
    line = ""
    for tick in range(ticks):
        line = line.ljust(tick * width // ticks) + EDGE + run_time(whole_s * tick / ticks)
    if len(last) <= width:
        return line[: max(0, width - len(last) - 1)].ljust(width - len(last)) + last
    return ""


def _legend(figures: LedgerFigures, root: FlameFrame, width: int) -> Iterator[Text]:
    line = Text()
    for kind in kinds_in(root):
        words = f" {kind_in_words(figures, kind)}"
        if line and line.cell_len + 3 + len(words) > width:
            yield line
            line = Text()
        line += Text.assemble("  " if line else "", (SAMPLE, COLOURS[kind]), words)
    yield line
