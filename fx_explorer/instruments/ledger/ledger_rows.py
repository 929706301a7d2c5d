"""This module turns a ledger into tables, for the screen and for reports: by kind, by line, in
order, and where the GPU is idle in a call: between which kernels, for how long, and what the host
does during that time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import counted, listed, share, short_kernel_name
from fx_explorer.instruments.ledger.figures import (
    LedgerEntry,
    LedgerFigures,
    LineTime,
    line_times,
    rate,
)
from fx_explorer.model import LedgerGap, LedgerKind, LedgerStep
from fx_explorer.output.table import Column, Table
from fx_explorer.session.file_names import in_file

LEAST_S = 1e-9

NOT_ACCOUNTED = "not accounted for"

TIME = Column("time", is_number=True)
SHARE = Column("share", is_number=True, priority=1)
LINE = Column("line", narrowing="wrapped", least=20)

KIND_COLUMNS = (Column("where the time goes", narrowing="wrapped", least=24), TIME, SHARE)
LINE_COLUMNS = (
    LINE,
    Column("compiled", is_number=True),
    Column("eager", is_number=True),
    Column("gained", is_number=True),
)
STEP_COLUMNS = (
    Column("step", narrowing="wrapped", least=26),
    Column("graph", priority=3),
    TIME,
    Column("GPU", is_number=True),
    SHARE,
    Column("reaches", narrowing="wrapped", least=24, priority=2),
    LINE,
)

Cells = tuple[str, ...]


def kind_rows(figures: LedgerFigures) -> list[Cells]:
    """Return a row for each kind of step, the longest first, and one for the rest of the time."""
    call_s = figures.call.call_s
    rows = [(figures.describe(kind), took_s) for kind, took_s in shown_kinds(figures)]
    rows.append((NOT_ACCOUNTED, figures.unaccounted_s))
    return [
        *((name, _time(took_s), _share(took_s, call_s)) for name, took_s in rows),
        ("a call", run_time(call_s), "100 %"),
    ]


def shown_kinds(figures: LedgerFigures) -> list[tuple[LedgerKind, float]]:
    """Return the kinds of steps that have rows, each with its seconds."""
    return [(kind, took_s) for kind, took_s in figures.by_kind if took_s > LEAST_S]


def line_rows(figures: LedgerFigures) -> list[Cells]:
    """Return a row for each line of the user's, the longest first, and one for the time that
    belongs to no line.
    """
    times = line_times(figures)
    rows = [_line_row(line_time) for line_time in times.lines]
    gained_s = times.uncompiled_of_none_s - times.compiled_of_none_s
    is_known = times.uncompiled_of_none_s >= 0 or bool(figures.operators)
    if is_known:
        of_none = (_time(times.uncompiled_of_none_s), _known_gain(gained_s))
    else:
        of_none = ("", "")
    return [*rows, ("of no line", _time(times.compiled_of_none_s), *of_none)]


def _line_row(line_time: LineTime) -> Cells:
    return (
        in_file(line_time.line.file, line_time.line.line),
        _known(line_time.compiled_s),
        _known(line_time.uncompiled_s),
        _known_gain(line_time.gained_s),
    )


def step_row(figures: LedgerFigures, entry: LedgerEntry) -> Cells:
    """Return the cells of a step, in the order of STEP_COLUMNS."""
    step, call_s = entry.step, figures.call.call_s
    graph: str = step.direction
    if step.compilation:
        graph = f"[{step.compilation}] {step.direction}".strip()
    device = _time(step.device_s) if step.device_s > 0 else ""
    reached = rate(figures, entry)
    rates = reached.description if reached else ""
    return (
        step_name(figures, entry),
        graph,
        _time(step.host_s),
        device,
        _share(step.host_s, call_s),
        rates,
        describe_lines(entry),
    )


def step_table(figures: LedgerFigures) -> Table:
    """Return every step of a call in order; the GPU's time of each where the call is on a GPU."""
    rows = [step_row(figures, entry) for entry in figures.entries]
    if figures.is_on_gpu:
        return Table(STEP_COLUMNS, rows)
    gpu = next(at for at, column in enumerate(STEP_COLUMNS) if column.title == "GPU")
    columns = [*STEP_COLUMNS[:gpu], *STEP_COLUMNS[gpu + 1 :]]
    return Table(columns, [[*row[:gpu], *row[gpu + 1 :]] for row in rows])


def step_name(figures: LedgerFigures, entry: LedgerEntry) -> str:
    """Return the name of a step: that of the function or kernel it calls, else its kind."""
    kind: LedgerKind = entry.step.kind
    if entry.step.name and kind == "launch":
        return f"starting {entry.step.name}"
    if entry.step.name and kind == "wrapper":
        return f"around {describe_branch(entry.step.name)}"
    return entry.step.name or figures.describe(kind)


_BRANCH = re.compile(r"^(?P<which>true|false|while_loop_cond|while_loop_body)_graph_\d+$")

_BRANCHES = {
    "true": "the true branch of torch.cond",
    "false": "the false branch of torch.cond",
    "while_loop_cond": "the condition of while_loop",
    "while_loop_body": "the body of while_loop",
}


def describe_branch(name: str) -> str:
    """Return a description of a graph inside of a graph, by torch's name for it."""
    match = _BRANCH.match(name)
    return _BRANCHES[match["which"]] if match else name


def graph_of(step: LedgerStep) -> str:
    """Return the graph that a step's generated code belongs to; empty for none."""
    if step.line and step.compilation:
        return f"graph [{step.compilation}] {step.direction}"
    return ""


def describe_lines(entry: LedgerEntry) -> str:
    """Return the line of a step, and the number of its other lines."""
    if not entry.lines:
        return ""
    first, _ = entry.lines[0]
    line = in_file(first.file, first.line)
    more = len(entry.lines) - 1
    return f"{line} and {counted(more, 'other')}" if more else line


def _time(took_s: float) -> str:
    if abs(took_s) < LEAST_S:
        return "0 µs"
    if took_s >= 0:
        return run_time(took_s)
    return f"-{run_time(-took_s)}"


def _share(part_s: float, whole_s: float) -> str:
    shown = share(abs(part_s), whole_s)
    if part_s < 0 and shown != "0 %":
        return f"-{shown}"
    return shown


def _known(took_s: float) -> str:
    return _time(took_s) if took_s >= 0 else ""


def _known_gain(gained_s: float) -> str:
    return _time(gained_s) if abs(gained_s) > LEAST_S else ""


GAP_COLUMNS = (
    Column("the GPU waits", narrowing="wrapped", least=22),
    TIME,
    SHARE,
    Column("meanwhile on the host", narrowing="wrapped", least=24),
)

MOST_GAPS, MOST_STEPS = 12, 3


SOME = 0.02
"""A sentence mentions a gap from this fraction of a call on."""


@dataclass(frozen=True, slots=True)
class ToldGap:
    """A gap with the host's steps in it, the longest first."""

    gap: LedgerGap
    meanwhile: tuple[tuple[LedgerEntry, float], ...]
    """Steps, each with its seconds in the gap."""


def shown_gaps(figures: LedgerFigures) -> list[ToldGap]:
    """Return the gaps of a call, the longest first."""
    return [_shown_gap(figures, gap) for gap in sorted(figures.gaps, key=lambda gap: -gap.seconds)]


def _shown_gap(figures: LedgerFigures, gap: LedgerGap) -> ToldGap:
    entries = figures.entries
    steps = [
        (entries[at], took_s)
        for at, took_s in zip(gap.steps, gap.steps_s, strict=False)
        if 0 <= at < len(entries)
    ]
    return ToldGap(gap, tuple(sorted(steps, key=lambda step: -step[1])))


def gap_rows(figures: LedgerFigures) -> list[Cells]:
    """Return a row for each gap, in the order of GAP_COLUMNS."""
    return [_row(figures, gap, gap.gap.seconds) for gap in shown_gaps(figures)]


def _row(figures: LedgerFigures, gap: ToldGap, took_s: float) -> Cells:
    return (
        place_of(gap.gap),
        run_time(took_s),
        share(took_s, figures.call.call_s),
        host_steps_in_gap(figures, gap),
    )


def place_of(gap: LedgerGap) -> str:
    """Say between which kernels a gap is."""
    before, after = short_kernel_name(gap.before), short_kernel_name(gap.after)
    if not before:
        return f"before {after}"
    if after:
        return f"between {before} and {after}"
    return f"after {before}"


def host_steps_in_gap(figures: LedgerFigures, gap: ToldGap) -> str:
    """Describe the host's steps in a gap: steps of the same name added up, the longest first."""
    sums: dict[str, float] = {}
    for entry, took_s in gap.meanwhile:
        name = step_name(figures, entry)
        sums[name] = sums.get(name, 0.0) + took_s
    longest = sorted(sums.items(), key=lambda item: -item[1])
    return listed([f"{name} {run_time(took_s)}" for name, took_s in longest], limit=MOST_STEPS)


def longest_gap(figures: LedgerFigures) -> str:
    """Return a sentence on the longest gap; empty if no gap is long."""
    gaps = shown_gaps(figures)
    if not gaps or gaps[0].gap.seconds < SOME * figures.call.call_s:
        return ""
    gap = gaps[0]
    if gap.meanwhile:
        doing = f"; meanwhile on the host: {host_steps_in_gap(figures, gap)}"
    else:
        doing = ""
    return f"It waits longest {place_of(gap.gap)}: {run_time(gap.gap.seconds)}{doing}."
