"""The flame chart of a ledger is drawn here outside of the app: as SVG, and as the text that the command
line prints, with the axis of time and a legend.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from fx_explorer.analysis.flame import FlameFrame, flame_rows
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import counted, share
from fx_explorer.drawing.flame_rows import EDGE, TICK_CELLS, row_of_blocks
from fx_explorer.drawing.flame_svg import INK, FlamePicture, flame_picture_svg
from fx_explorer.instruments.ledger.figures import LedgerFigures
from fx_explorer.instruments.ledger.flame import flame, unaccounted_in_words
from fx_explorer.instruments.ledger.table import NOT_ACCOUNTED
from fx_explorer.instruments.ledger.verdict import verdict
from fx_explorer.session.file_names import in_file


def flame_svg(figures: LedgerFigures) -> str:
    """Return the picture."""
    root = flame(figures)
    return flame_picture_svg(
        FlamePicture(
            root,
            titles=[verdict(figures)[0], unaccounted_in_words(figures)],
            about=lambda frame: _about(figures, frame),
            colours=COLOURS,
            legend={kind: kind_in_words(figures, kind) for kind in kinds_in(root)},
        )
    )


def _about(figures: LedgerFigures, frame: FlameFrame) -> list[str]:
    part = share(frame.duration_s, figures.call.call_s)
    parts = [
        frame.name,
        (
            f"{frame.duration_s * 1e6:,.3f} µs, {part} of a call; it begins after "
            f"{run_time(frame.began_s)}"
        ),
        kind_in_words(figures, frame.kind)
        + (f", {counted(len(frame.steps), 'step')}" if frame.children else ""),
    ]
    if frame.line:
        parts.append(in_file(*frame.line))
    if not frame.children and frame.steps:
        device_s = figures.entries[frame.steps[0]].step.device_s
        parts += [f"the GPU computes for {run_time(device_s)}"] if device_s > 0 else []
    return parts


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


COLOURS: dict[str, str] = {
    "call": "#b4bac6",
    "part": "#c3c8d2",
    "function": "#d2d6de",
    "code": "#e1e4ea",
    # The program's own operators are green.
    "kernel": "#93d36f",
    "library": "#62c298",
    "graph": "#45b3a4",
    # What torch.compile does around graphs is violet, what the generated code does around kernels
    # blue.
    "entry": "#cbb8e8",
    "guards": "#b49be0",
    "bytecode": "#ddcdf4",
    "wrapper": "#a699dc",
    "checks": "#84b1e2",
    "buffers": "#a9cbec",
    "launch": "#cbe1f5",
    # Python is orange, the backward's engine and what belongs to training pink.
    "break": "#fbaa5f",
    "python": "#ffca93",
    "autograd": "#f19cb4",
    "loss": "#f8c0d0",
    "gradients": "#e487a3",
    "wait": "#efd25c",
    "rest": "#f4f1e6",
}

_HOLDS_STEPS: dict[str, str] = {
    "call": "the call",
    "part": "parts of the call",
    "function": "compiled functions",
    "code": "generated code of graphs",
    "rest": NOT_ACCOUNTED,
}


def kinds_in(root: FlameFrame) -> list[str]:
    """Return the kinds that the chart has, for its legend."""
    found = {frame.kind for frame in root.frames()}
    return [kind for kind in COLOURS if kind in found]


def kind_in_words(figures: LedgerFigures, kind: str) -> str:
    return _HOLDS_STEPS.get(kind) or figures.in_words(kind)  # type: ignore[arg-type]
