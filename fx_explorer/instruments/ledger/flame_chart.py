"""This module makes and draws the flame chart of a ledger: the call, its parts, the compiled
functions in it, the generated code of their graphs, and the steps in that code.

``flame`` says what lies within what, and draws nothing; the app shows that. Outside of the app the
chart is drawn as SVG, and as the text that the command line prints, with the axis of time and a
legend.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from fx_explorer.analysis.flame import FlameFrame, flame_rows
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import counted, share
from fx_explorer.drawing.flame_charts import (
    EDGE,
    TICK_CELLS,
    FlamePicture,
    FlameRow,
    flame_picture_svg,
    row_of_blocks,
)
from fx_explorer.drawing.svg import INK
from fx_explorer.instruments.ledger.figures import LedgerEntry, LedgerFigures
from fx_explorer.instruments.ledger.ledger_rows import LEAST_S, NOT_ACCOUNTED, graph_of, step_name
from fx_explorer.instruments.ledger.verdict import verdict
from fx_explorer.model import LedgerKind, LedgerStep
from fx_explorer.session.file_names import in_file

FlameKind = LedgerKind | Literal["call", "part", "function", "code", "rest"]
"""The kind of a frame in the chart: a step of that kind, or a frame that contains steps. ``part``:
forward, backward or the loss. ``function``: a compiled function, from its guards to its return.
``code``: the generated code of a graph. ``rest``: time outside of all steps.
"""

Part = Literal["clearing gradients", "forward", "loss", "backward", "waiting", "releasing"]


def flame(figures: LedgerFigures) -> FlameFrame:
    """Return the call with everything in it. Its length is that of the call, or of the sum of its
    steps if that is more.
    """
    entries = figures.entries
    times = [0.0, *accumulate(entry.step.host_s for entry in entries)]
    root = _Open(_Key("call", _name_of_call(figures)), 0)
    stack = [root]
    for position, (entry, path) in enumerate(zip(entries, _paths(figures), strict=True)):
        _open(stack, path, position, times)
        stack[-1].children.append(_step(figures, entry, position, times, len(stack)))
    _close(stack, 1, times)
    end_s = times[-1]
    if figures.call.call_s > end_s:
        rest = FlameFrame(
            NOT_ACCOUNTED, "rest", 1, end_s, figures.call.call_s, range(len(entries), len(entries))
        )
        root.children.append(rest)
        end_s = rest.ended_s
    return FlameFrame(
        root.key.name, "call", 0, 0.0, end_s, range(len(entries)), None, tuple(root.children)
    )


def describe_unaccounted(figures: LedgerFigures) -> str:
    """Say how the steps differ from the call; empty where they do not."""
    rest_s = figures.unaccounted_s
    if abs(rest_s) <= LEAST_S:
        return ""
    if rest_s < 0:
        return f"The steps add up to {run_time(-rest_s)} more than a call."
    return f"{run_time(rest_s)} of the call are in no step."


@dataclass(frozen=True, slots=True)
class _Key:
    """Identity of a frame that contains others. Neighbours with equal keys are merged into one
    frame.
    """

    kind: FlameKind
    name: str
    line: tuple[str, int] | None = None


@dataclass(slots=True)
class _Open:
    """A frame that has not ended yet."""

    key: _Key
    first: int
    children: list[FlameFrame] = field(default_factory=list)


def _open(stack: list[_Open], path: Sequence[_Key], position: int, times: Sequence[float]) -> None:
    """Close the frames that the next step is not in, and open those that it is in. ``path`` names
    them from the outermost in.
    """
    shared = 0
    while shared < min(len(path), len(stack) - 1) and stack[shared + 1].key == path[shared]:
        shared += 1
    _close(stack, shared + 1, times)
    stack += [_Open(key, position) for key in path[shared:]]


def _close(stack: list[_Open], depth: int, times: Sequence[float]) -> None:
    """Close the frames from ``depth`` on, the innermost first."""
    while len(stack) > depth:
        innermost = stack.pop()
        key, children = innermost.key, innermost.children
        steps = range(innermost.first, children[-1].steps.stop)
        began_s, ended_s = times[steps.start], times[steps.stop]
        frame = FlameFrame(
            key.name,
            key.kind,
            len(stack),
            began_s,
            ended_s,
            steps,
            key.line,
            tuple(children),
        )
        stack[-1].children.append(frame)


def _step(
    figures: LedgerFigures, entry: LedgerEntry, position: int, times: Sequence[float], depth: int
) -> FlameFrame:
    if entry.lines:
        line = (entry.lines[0][0].file, entry.lines[0][0].line)
    else:
        line = None
    steps = range(position, position + 1)
    return FlameFrame(
        step_name(figures, entry),
        entry.step.kind,
        depth,
        times[position],
        times[position + 1],
        steps,
        line,
    )


def _name_of_call(figures: LedgerFigures) -> str:
    what = "training step" if figures.call.trains else "call"
    return f"a {what} of {figures.call.target}"


def _paths(figures: LedgerFigures) -> Iterator[list[_Key]]:
    """Yield the frames that contain each step, the outermost first and without the call."""
    parts = _parts(figures)
    # A part that is one step, such as the loss, is that step.
    of_several = [part for part, steps in Counter(parts).items() if steps > 1]
    keys = {part: [_Key("part", _name_of_part(figures, part))] for part in of_several}
    calls, before = _Functions(), ""
    for entry, part in zip(figures.entries, parts, strict=True):
        if part != before:
            calls, before = _Functions(), part
        functions = [_function(figures, name) for name in calls.at(entry.step)]
        graph = graph_of(entry.step)
        if graph:
            code = [_Key("code", graph, _function(figures, entry.step.compilation).line)]
        else:
            code = []
        yield [*keys.get(part, []), *functions, *code]


def _name_of_part(figures: LedgerFigures, part: Part) -> str:
    goes_backward = any(entry.step.direction == "backward" for entry in figures.entries)
    if goes_backward and not figures.call.trains:
        return "forward and backward"
    return part


def _parts(figures: LedgerFigures) -> list[Part]:
    """Return the part of the call that each step is in. The parts have a fixed order (``MARKS`` in
    instruments/ledger/measure/timeline.py), and each but the forward begins with a step of its own.
    """
    parts: list[Part] = []
    part: Part = "forward"
    last = len(figures.entries) - 1
    for position, entry in enumerate(figures.entries):
        part = _part(part, entry.step, is_last=position == last)
        parts.append(part)
    return parts


def _part(before: Part, step: LedgerStep, *, is_last: bool) -> Part:
    if step.kind == "gradients":
        return "clearing gradients"
    if step.kind == "loss":
        return "loss"
    if step.kind == "wait":
        return "waiting"
    if is_last and step.kind == "buffers" and not step.line:
        return "releasing"
    if before == "loss" and step.direction == "backward":
        return "backward"
    if before == "clearing gradients":
        return "forward"
    return before


class _Functions:
    """Tracks which compiled functions are running. Each step names its function: if the steps of a
    function continue after those of another one, it has called that one, as at a graph break, where
    the resume function is called. A function that calls itself with no step between counts as one.
    """

    def __init__(self) -> None:
        self._running: list[str] = []

    def at(self, step: LedgerStep) -> list[str]:
        """Return the compilations that are running at a step, the outermost first."""
        name, running = step.compilation, self._running
        if step.line:
            return running  # generated code tells its graph, which is not always the function's own
        if not name:
            running.clear()
        elif name not in running or (step.kind == "guards" and running[-1] != name):
            running.append(name)
        else:
            while running[-1] != name:
                running.pop()
        return running


def _function(figures: LedgerFigures, compilation: str) -> _Key:
    known = figures.functions.get(compilation)
    if known is None:
        return _Key("function", f"[{compilation}]")
    name = known.name.rpartition(".")[2]
    text = plain_function(name)
    if text == name:
        text = f"{name} {in_file(known.line.file, known.line.line)}"
    return _Key("function", text, (known.line.file, known.line.line))


# The chart as SVG.


def flame_svg(figures: LedgerFigures) -> str:
    """Return the ledger of a call as a flame chart in SVG."""
    root = flame(figures)
    return flame_picture_svg(
        FlamePicture(
            root,
            titles=[verdict(figures)[0], describe_unaccounted(figures)],
            about=lambda frame: _about(figures, frame),
            colours=COLOURS,
            legend={kind: describe_kind(figures, kind) for kind in kinds_in(root)},
        )
    )


def _about(figures: LedgerFigures, frame: FlameFrame) -> list[str]:
    part = share(frame.duration_s, figures.call.call_s)
    kind = describe_kind(figures, frame.kind)
    if frame.children:
        kind += f", {counted(len(frame.steps), 'step')}"
    parts = [
        frame.name,
        (
            f"{frame.duration_s * 1e6:,.3f} µs, {part} of a call; it begins after "
            f"{run_time(frame.began_s)}"
        ),
        kind,
    ]
    if frame.line:
        parts.append(in_file(*frame.line))
    if not frame.children and frame.steps:
        device_s = figures.entries[frame.steps[0]].step.device_s
        if device_s > 0:
            parts.append(f"the GPU computes for {run_time(device_s)}")
    return parts


# The chart as text.


FILL, SAMPLE = "─", "█"


def flame_text(figures: LedgerFigures, width: int, *, has_colours: bool) -> Text:
    """Return the whole chart with the axis of time, at most ``width`` cells wide. With colours
    there is a legend; without colours, lines fill the blocks.
    """
    root = flame(figures)
    fill = "" if has_colours else FILL
    rows = [row_of_blocks(blocks, fill=fill) for blocks in flame_rows(root, width)]
    lines = [_in_colours(row) for row in rows]
    lines.append(Text(_axis(root.duration_s, width)))
    if has_colours:
        lines += _legend(figures, root, width)
    lines += map(Text, textwrap.wrap(describe_unaccounted(figures), width))
    for line in lines:
        line.rstrip()
        line.truncate(width, overflow="ellipsis")
    return Text("\n").join(lines)


ASCII = {EDGE: "|", FILL: "-", SAMPLE: "#", "µ": "u", "…": "~", "×": "x"}
"""The chart's signs → their replacements in ASCII, each one cell wide."""


def in_ascii(chart: Text) -> Text:
    """Return a chart in ASCII, for an output with such an encoding. Other characters become
    ``?``.
    """
    plain = "".join(_ascii(sign) for sign in chart.plain)
    if len(plain) == len(chart.plain):
        return Text(plain, spans=chart.spans)
    return Text(plain)


def _in_colours(row: FlameRow) -> Text:
    return Text.assemble(*((text, _style(kind)) for text, kind, _ in row))


def _ascii(sign: str) -> str:
    if sign in ASCII:
        return ASCII[sign]
    if sign.isascii():
        return sign
    return "?" * max(0, cell_len(sign))


def _style(kind: str) -> Style | str:
    if kind:
        return Style(color=INK, bgcolor=COLOURS[kind])
    return ""


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
        words = f" {describe_kind(figures, kind)}"
        if line and line.cell_len + 3 + len(words) > width:
            yield line
            line = Text()
        gap = "  " if line else ""
        line += Text.assemble(gap, (SAMPLE, COLOURS[kind]), words)
    yield line


# Colours of a chart that is no widget: dark letters can be read on each of them, whatever lies
# behind.


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
    kinds = {frame.kind for frame in root.frames()}
    return [kind for kind in COLOURS if kind in kinds]


def describe_kind(figures: LedgerFigures, kind: str) -> str:
    return _HOLDS_STEPS.get(kind) or figures.describe(kind)  # type: ignore[arg-type]
