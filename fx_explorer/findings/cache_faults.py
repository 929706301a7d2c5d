"""Faults of torch's compile caches: programs that recompile, end or print otherwise with the caches
than without. A capture records without them, so only a comparison of both shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from fx_explorer import model
from fx_explorer.analysis.whole_session import totals
from fx_explorer.analysis.words import counted, first_line
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.findings.recompiles import describe_group, recompile_groups
from fx_explorer.model import CacheComparison, CaptureRequest
from fx_explorer.session import SessionReader
from fx_explorer.trials import TrialWorker, recapture, straight_through

MOST_LINES = 2_000
"""Maximum number of lines of output that are compared."""

SHOWN_LINES = 3


@dataclass(frozen=True, slots=True)
class BuiltRun:
    """The visible results of a program that ran with its kernels built."""

    ended: str
    """``finished``, or the first line of its error."""
    recompiles: int
    printed: tuple[str, ...]
    is_known: bool = True
    """Whether it came to an end of its own; a run that was stopped shows nothing."""


async def compare_caches(
    request: CaptureRequest, without: BuiltRun, worker: TrialWorker
) -> CacheComparison | None:
    """Run the program with torch's compile caches, and once more without, beside ``without``: what
    two runs without caches print otherwise (times, random numbers) says nothing. None where two
    runs without caches differ in more than what they print.
    """
    with_caches = await run_built(request, worker, use_caches=True)
    again = await run_built(request, worker, use_caches=False)
    if not (with_caches.is_known and without.is_known and again.is_known):
        return None
    if without.ended != again.ended or without.recompiles != again.recompiles:
        return None
    differing = []
    if len(without.printed) == len(again.printed):
        # Where the run with caches prints fewer lines or more, the missing ones are empty.
        rows = zip_longest(with_caches.printed, without.printed, again.printed, fillvalue="")
        differing = [(now, before) for now, before, other in rows if now != before == other]
    return CacheComparison(
        id=0,
        recompiles_with=with_caches.recompiles,
        recompiles_without=without.recompiles,
        ended_with=with_caches.ended,
        ended_without=without.ended,
        printed_with=tuple(now for now, _ in differing[:SHOWN_LINES]),
        printed_without=tuple(before for _, before in differing[:SHOWN_LINES]),
    )


async def run_built(request: CaptureRequest, worker: TrialWorker, *, use_caches: bool) -> BuiltRun:
    """Run the program with its kernels built."""
    changed = straight_through(request, use_caches=use_caches, build=True)
    again = await recapture(changed, worker, _observed)
    recompiles, printed = again.found
    ended: str = again.outcome.kind
    if ended != "finished":
        ended = first_line(again.outcome.message) or ended
    return BuiltRun(ended, recompiles, printed, again.outcome.is_of_program)


def _observed(reader: SessionReader) -> tuple[int, tuple[str, ...]]:
    lines = reader.rows(model.ConsoleLine, stream="stdout", limit=MOST_LINES)
    return totals(reader).recompiles, tuple(line.text for line in lines)


def find_cache_faults(reader: SessionReader) -> Iterator[Finding]:
    """Yield what the last comparison showed; nothing where there was none."""
    for row in reader.rows(CacheComparison)[-1:]:
        yield from cache_findings(row, describe_recompiles(reader))


def describe_recompiles(reader: SessionReader) -> tuple[str, ...]:
    """Return what was recompiled and for what, a clause for each thing that varies."""
    return tuple(describe_group(group) for group in recompile_groups(reader))


def cache_findings(compared: CacheComparison, recompiles: Sequence[str] = ()) -> Iterator[Finding]:
    """Yield a finding where the program behaves otherwise with compile caches. ``recompiles`` are
    those that a capture, which has none, saw.
    """
    differs = bool(compared.printed_with) or compared.ended_with != compared.ended_without
    if not differs and compared.recompiles_with == compared.recompiles_without:
        return
    evidence = []
    if compared.recompiles_with != compared.recompiles_without:
        evidence.append(
            f"With caches: {counted(compared.recompiles_with, 'recompile')}; without: "
            f"{compared.recompiles_without:,}."
        )
    is_missed = differs and compared.recompiles_with < compared.recompiles_without
    if is_missed and recompiles:
        evidence.append(
            f"Without caches {'; '.join(recompiles[:SHOWN_LINES])}. With caches it is compiled "
            "less often: most likely, code for one value is reused for others."
        )
    if compared.ended_with != compared.ended_without:
        evidence.append(
            f"With caches the program ended: {compared.ended_with}; without: "
            f"{compared.ended_without}."
        )
    for now, before in zip(compared.printed_with, compared.printed_without, strict=False):
        evidence.append(f"With caches it prints “{now}”, without “{before}”.")
    text = (
        "With torch's compile caches, which your own run uses, the program recompiles differently."
    )
    if differs:
        text = (
            "The program's results are different with and without torch's compile caches, which "
            "your own run uses."
        )
    yield Finding(
        kind="compile cache",
        text=text,
        urgency="wrong" if differs else "again",
        severity="problem" if differs else "notice",
        topic="caches",
        view="time",
        evidence=tuple(evidence),
        explanation=(
            "A graph from the cache must compute the same as a newly lowered one; if it does not, "
            "PyTorch has a bug."
        ),
        remedies=(
            Remedy(
                "Switch the caches off until the bug is fixed: "
                "torch._inductor.config.force_disable_caches = True, or "
                "TORCHINDUCTOR_FORCE_DISABLE_CACHES=1.",
                state="tried",
                result="without caches the result is the same in two runs.",
            ),
            Remedy("Report it to PyTorch: github.com/pytorch/pytorch/issues."),
        )
        if differs
        else (),
    )
