"""Where the GPU does nothing in a call: between which kernels, for how long, and what the host does
meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import listed, share, short_kernel_name
from fx_explorer.instruments.ledger.figures import LedgerEntry, LedgerFigures
from fx_explorer.instruments.ledger.table import SHARE, TIME, Cells, step_name
from fx_explorer.model import LedgerGap
from fx_explorer.output.table import Column

GAP_COLUMNS = (
    Column("the GPU waits", narrowing="wrapped", least=22),
    TIME,
    SHARE,
    Column("meanwhile on the host", narrowing="wrapped", least=24),
)

MOST_GAPS, MOST_STEPS = 12, 3


SOME = 0.02
"""Part of a call from which on a gap is told in a sentence."""


@dataclass(frozen=True, slots=True)
class ToldGap:
    """A gap with what the host does in it, the longest first."""

    gap: LedgerGap
    meanwhile: tuple[tuple[LedgerEntry, float], ...]
    """Steps, each with its seconds in the gap."""


def gaps_told(figures: LedgerFigures) -> list[ToldGap]:
    """Return the gaps of a call, the longest first."""
    return [_told(figures, gap) for gap in sorted(figures.gaps, key=lambda one: -one.seconds)]


def _told(figures: LedgerFigures, gap: LedgerGap) -> ToldGap:
    entries = figures.entries
    steps = [
        (entries[at], took_s)
        for at, took_s in zip(gap.steps, gap.steps_s, strict=False)
        if 0 <= at < len(entries)
    ]
    return ToldGap(gap, tuple(sorted(steps, key=lambda one: -one[1])))


def gap_rows(figures: LedgerFigures) -> list[Cells]:
    """Return a row for each gap, in the order of GAP_COLUMNS."""
    return [_row(figures, one, one.gap.seconds) for one in gaps_told(figures)]


def _row(figures: LedgerFigures, one: ToldGap, took_s: float) -> Cells:
    return (
        place_of(one.gap),
        run_time(took_s),
        share(took_s, figures.call.call_s),
        meanwhile(figures, one),
    )


def place_of(gap: LedgerGap) -> str:
    """Say between which kernels a gap is."""
    before, after = short_kernel_name(gap.before), short_kernel_name(gap.after)
    if not before:
        return f"before {after}"
    return f"between {before} and {after}" if after else f"after {before}"


def meanwhile(figures: LedgerFigures, one: ToldGap) -> str:
    """Say what the host does in a gap: its steps of the same name together, the longest first."""
    sums: dict[str, float] = {}
    for entry, took_s in one.meanwhile:
        name = step_name(figures, entry)
        sums[name] = sums.get(name, 0.0) + took_s
    longest = sorted(sums.items(), key=lambda item: -item[1])
    return listed([f"{name} {run_time(took_s)}" for name, took_s in longest], limit=MOST_STEPS)


def longest_gap(figures: LedgerFigures) -> str:
    """Return a sentence on the longest gap; empty where none is long."""
    told = gaps_told(figures)
    if not told or told[0].gap.seconds < SOME * figures.call.call_s:
        return ""
    one = told[0]
    doing = f"; meanwhile on the host: {meanwhile(figures, one)}" if one.meanwhile else ""
    return f"It waits longest {place_of(one.gap)}: {run_time(one.gap.seconds)}{doing}."
