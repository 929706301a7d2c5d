"""This module draws the memory of a step as SVG: a bar for what is held at each kernel call, in the
order of the step, with the peak marked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from fx_explorer.analysis.words import counted, share, size
from fx_explorer.drawing.svg import (
    GREY,
    LINE,
    MARGIN,
    SVG_END,
    WIDTH,
    legend_svg,
    safe_lines,
    svg_start,
    svg_text,
)
from fx_explorer.errors import UsageError
from fx_explorer.instruments.memory.step import MemoryKind
from fx_explorer.instruments.memory.usage import TimelineRow, Usage, timeline
from fx_explorer.instruments.memory.verdict import frame_of

MOST_BARS = 400
"""Maximum number of bars; in longer steps, each bar stands for several kernel calls."""

HEIGHT = 220
"""Pixels of the whole memory of the device that the step uses."""

LEFT = 70
"""Pixels beside the bars, for the sizes."""

GROUPS: Sequence[tuple[str, str, tuple[MemoryKind, ...]]] = (
    ("before the step", "#9cb8dc", ("parameter", "buffer", "input", "optimizer")),
    ("saved for the backward", "#f0b75c", ("activation",)),
    ("gradients, outputs", "#8fcf9b", ("output", "tangent", "gradient")),
    ("temporary", "#d8aee6", ("temporary", "workspace")),
)
"""Words, colour and kinds of what is drawn as one."""

NOTHING = "There is no memory of a step to draw."


def memory_svg(used: Usage) -> str:
    """Return the picture. Raises UsageError when there is nothing to draw."""
    rows = timeline(used, MOST_BARS)
    whole = used.peak.total_bytes
    if not rows or not whole:
        raise UsageError(NOTHING)
    top = MARGIN + 2 * LINE
    bottom = top + HEIGHT
    lines = [svg_start(bottom + 4 * LINE)]
    lines += _scale(whole, top)
    lines += _bars(rows, whole, bottom)
    entries = [(colour, words) for words, colour, _ in GROUPS]
    lines += [drawn for _, drawn in legend_svg(entries, bottom + 3 * LINE)]
    return "\n".join([*lines, SVG_END])


def _scale(whole: int, top: int) -> Iterator[str]:
    for quarter in range(5):
        y = top + HEIGHT * (4 - quarter) / 4
        path = f"M{LEFT} {y:.1f} H{WIDTH - MARGIN}"
        yield f'<path d="{path}" stroke="{GREY}" stroke-opacity="0.3"/>'
        yield svg_text(LEFT - 6, round(y + 4), size(round(whole * quarter / 4)), "beside", "end")


def _bars(rows: Sequence[TimelineRow], whole: int, bottom: int) -> Iterator[str]:
    calls = sum(row.calls for row in rows)
    scale = (WIDTH - MARGIN - LEFT) / calls
    left = float(LEFT)
    direction = ""
    peak = max(rows, key=lambda row: row.point.total_bytes)
    for row in rows:
        width = row.calls * scale
        yield _bar(row, whole, (left, width, bottom))
        if row.moment.direction != direction:
            direction = row.moment.direction
            yield f'<path d="M{left:.2f} {bottom} v6" stroke="{GREY}"/>'
            yield svg_text(left + 3, bottom + 16, direction or "step", "beside")
        if row is peak:
            anchor = "end" if left > WIDTH / 2 else "start"
            words = f"peak: {size(whole)}, {_where(row)}"
            y = bottom - HEIGHT - 6
            yield svg_text(left + width / 2, y, words, "beside title", anchor)
        left += width


def _bar(row: TimelineRow, whole: int, place: tuple[float, float, float]) -> str:
    left, width, bottom = place
    held = row.point.total_bytes
    about = [_where(row), f"{size(held)}, {share(held, whole)} of the peak"]
    parts = []
    for words, colour, kinds in GROUPS:
        of_group = sum(row.point.by_kind.get(kind, 0) for kind in kinds)
        if not of_group:
            continue
        about.append(f"{size(of_group)} {words}")
        height = HEIGHT * of_group / whole
        bottom -= height
        parts.append(
            f'<rect x="{left:.2f}" y="{bottom:.2f}" width="{width:.2f}" height="{height:.2f}" '
            f'fill="{colour}"/>'
        )
    return f"<g><title>{escape(safe_lines(about))}</title>{''.join(parts)}</g>"


def _where(row: TimelineRow) -> str:
    calls = "" if row.calls == 1 else f" and {counted(row.calls - 1, 'more call')}"
    return f"{frame_of(row.moment)} · {row.moment.call.name}{calls}"
