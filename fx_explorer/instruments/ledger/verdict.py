"""This module states a ledger in sentences: how long a call takes, what dominates it, which lines
got slower, and what may help.
"""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer.analysis.measured_times import (
    IDLE,
    MAX_SPREAD,
    factor,
    median_interval,
    ratios,
    run_time,
)
from fx_explorer.analysis.words import counted, listed, share
from fx_explorer.instruments.ledger.figures import (
    KIND_IN_WORDS,
    WORK,
    LedgerFigures,
    LineTime,
    line_times,
    of_unknown_lines_s,
)
from fx_explorer.instruments.ledger.ledger_rows import longest_gap
from fx_explorer.instruments.ledger.remedies import SOME, describe_checks, remedies
from fx_explorer.model import LedgerCall, LedgerKind
from fx_explorer.session.file_names import in_file

NOTHING_RUNS = (
    "No compiled graph runs in a call: torch did not compile the program, or stopped after too "
    "many recompiles. fx-explorer TARGET says why, in view 4."
)

MOST_LINES = 3
SLOWER = 1.25
"""Smallest ratio of a line's compiled to its uncompiled time at which the line counts as slower."""

HALF = 0.5

ACCOUNTED = 0.95
"""The steps count as adding up to a call from this fraction of it on."""


def verdict(figures: LedgerFigures) -> list[str]:
    """Return the sentences, the answer first."""
    if not figures.runs_compiled:
        return [NOTHING_RUNS, *_whole(figures), *_doubts(figures)]
    if not figures.are_steps_known:
        return [*_not_known(figures), *_whole(figures), *_doubts(figures)]
    return [
        *_whole(figures),
        *_dominates(figures),
        *_guards(figures),
        *_breaks(figures),
        *_slower_lines(figures),
        *_remedies(figures),
        *_doubts(figures),
    ]


def _not_known(figures: LedgerFigures) -> Iterator[str]:
    """Explain why there is no statement on steps and lines."""
    call = figures.call
    why = f"its steps add up to {figures.accounted_s / call.call_s:.0%} of it".replace("%", " %")
    if call.iqr_s > MAX_SPREAD * call.call_s:
        why = f"calls differ widely (middle half within {run_time(call.iqr_s)})"
    yield f"Where the time of a call goes is not known: {why}. Something else ran: {IDLE}."


def _whole(figures: LedgerFigures) -> Iterator[str]:
    call = figures.call
    what = "A training step" if call.trains else "A call"
    took = f"{what} of {call.target} takes {run_time(call.call_s)}"
    if call.uncompiled_s <= 0:
        yield f"{took}."
        return
    if call.iqr_s > MAX_SPREAD * call.call_s:
        yield (
            f"{took}, {run_time(call.uncompiled_s)} in eager mode; which is faster is not known."
        )
        return
    ratio = call.uncompiled_s / call.call_s
    interval = median_interval(ratios(list(call.uncompiled_rounds_s), list(call.rounds_s)))
    is_different = interval is not None and not interval.low <= 1 <= interval.high
    if is_different:
        beside = f"{factor(ratio)} × as fast"
    else:
        beside = "no measurable difference"
    yield f"{took}, {run_time(call.uncompiled_s)} in eager mode: {beside}."


def _remedies(figures: LedgerFigures) -> Iterator[str]:
    """Yield a sentence for each remedy, except those for guards, which have sentences of their
    own.
    """
    for remedy in remedies(figures):
        if not remedy.is_for_guards:
            yield f"It may help to compile {remedy.how}: {remedy.why}; {remedy.risk}."


def _dominates(figures: LedgerFigures) -> Iterator[str]:
    call_s, work_s = figures.call.call_s, figures.work_s
    if figures.is_on_gpu:
        yield (
            f"The GPU computes for {run_time(work_s)} of it ({share(work_s, call_s)}) and "
            "waits for the rest."
        )
        yield from filter(None, [longest_gap(figures)])
    else:
        yield f"Kernels and library calls are {run_time(work_s)} of it ({share(work_s, call_s)})."
    around = [
        (kind, took_s)
        for kind, took_s in figures.by_kind
        if kind not in (*WORK, "wait") and took_s > SOME * call_s
    ]
    is_faster = 0 < call_s < figures.call.uncompiled_s
    if not figures.is_on_gpu and not is_faster and work_s < HALF * call_s:
        yield (
            "The work is small compared with its overhead: larger inputs, or fewer and larger "
            "graphs, make compiling pay."
        )
    if around:
        parts = (f"{run_time(took_s)} {_short(figures, kind)}" for kind, took_s in around)
        yield f"Around them: {listed(parts, limit=4)}."


def _short(figures: LedgerFigures, kind: LedgerKind) -> str:
    return {"guards": "evaluating guards", "entry": "entering torch.compile"}.get(
        kind, figures.describe(kind)
    )


def _guards(figures: LedgerFigures) -> Iterator[str]:
    call, guards_s = figures.call, figures.of_kind("guards")
    if guards_s <= SOME * call.call_s:
        return
    if figures.guards.whole:
        checks = describe_checks(figures.guards.in_cpp, figures.guards.in_python)
        yield f"Guards take {run_time(guards_s)} ({share(guards_s, call.call_s)}): {checks}."
    if call.unguarded_s > 0:
        yield _unguarded(call)
    fewer = [remedy.name for remedy in remedies(figures) if remedy.is_for_guards]
    if fewer:
        yield (
            f"Fewer or cheaper guards: --try measures {listed(fewer, len(fewer))}, and names the "
            "risk of each."
        )


def _unguarded(call: LedgerCall) -> str:
    interval = median_interval(ratios(list(call.rounds_s), list(call.unguarded_rounds_s)))
    is_faster = interval is not None and interval.low > 1 and call.unguarded_s < call.call_s
    if is_faster:
        text = f"saves {run_time(call.call_s - call.unguarded_s)}"
    else:
        text = "saves nothing measurable"
    return (
        "Skipping guards (torch.compiler.set_stance(skip_guard_eval_unsafe=True)) was measured "
        f"and {text}; it is unsafe: compiled code then runs even if a guard would fail."
    )


def _breaks(figures: LedgerFigures) -> Iterator[str]:
    took_s = figures.of_kind("break")
    if took_s <= SOME * figures.call.call_s:
        return
    by_line: dict[str, float] = {}
    for entry in figures.entries:
        if entry.step.kind == "break" and entry.step.user_line:
            where = in_file(entry.step.file, entry.step.user_line)
            by_line[where] = by_line.get(where, 0.0) + entry.step.host_s
    longest = sorted(by_line, key=lambda where: -by_line[where])
    places = f", at {listed(longest)}" if longest else ""
    text = (
        f"{KIND_IN_WORDS['break']} takes {run_time(took_s)}{places}, including your own code there"
    )
    yield f"{text}: fx-explorer fix proposes changes that avoid the breaks."


def _slower_lines(figures: LedgerFigures) -> Iterator[str]:
    call_s = figures.call.call_s
    operators_s = sum(operator.host_s for operator in figures.operators)
    too_long_s = max(0.0, operators_s - figures.call.uncompiled_s)
    least_s = max(SOME * call_s, abs(figures.unaccounted_s), too_long_s)
    slower = [line for line in line_times(figures).lines if _is_slower(line, least_s)]
    slower.sort(key=lambda line_time: line_time.gained_s)
    for line_time in slower[:MOST_LINES]:
        times = (
            f"{run_time(line_time.compiled_s)} compiled, "
            f"{run_time(line_time.uncompiled_s)} in "
            f"eager mode"
        )
        yield f"{in_file(line_time.line.file, line_time.line.line)} got slower: {times}."


def _is_slower(line_time: LineTime, least_s: float) -> bool:
    """Return whether a line got slower by more than ``least_s``, the precision of steps."""
    if line_time.uncompiled_s <= 0 or -line_time.gained_s <= least_s:
        return False
    return line_time.compiled_s > SLOWER * line_time.uncompiled_s


def _doubts(figures: LedgerFigures) -> Iterator[str]:
    of_none_s = of_unknown_lines_s(figures)
    if figures.are_steps_known and of_none_s > SOME * figures.call.call_s:
        yield f"The line of {run_time(of_none_s)} of the kernels is not known."
    call, accounted = figures.call, figures.accounted_s / figures.call.call_s
    if figures.are_steps_known and not ACCOUNTED <= accounted <= 2 - ACCOUNTED:
        yield f"The steps add up to {accounted:.0%} of a call: {IDLE}.".replace("%", " %")
    if call.other_calls > call.calls / 4:
        yield (
            f"{counted(call.other_calls, 'call')} took another path than the {call.calls:,} "
            "shown here."
        )
    yield from (f"{note}." for note in call.notes)
