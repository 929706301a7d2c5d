"""A GPU that waits most of the time because the program's calls of compiled code take longer than
the work that they start: guards, bytecode, wrappers and the launches of many short kernels; or
because the program does something else, such as loading data.

Read from a profile. While torch compiles nothing is counted.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from statistics import median

from fx_explorer import model
from fx_explorer.analysis.cuda_graph_states import cuda_graphs
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import careful_share, counted, listed
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.instruments.profile.event_names import key_of_call, key_of_event
from fx_explorer.instruments.profile.figures import ProfileFigures, profile_figures
from fx_explorer.instruments.profile.join import (
    AROUND_GRAPH,
    BETWEEN_KERNELS,
    COMPILES,
    GUARDS,
    IN_FUNCTION,
    LATENCY,
)
from fx_explorer.session import SessionReader

MOSTLY = 0.5
"""Minimum fraction of the time in which the GPU waits for calls of compiled code."""

MOSTLY_COMPILED = 0.5
"""Smallest share of the GPU's work that is in compiled graphs."""

STEADY = 0.05
"""Largest share of the time in which torch compiles: a profile of first calls says nothing of later
ones.
"""

LEAST_CALLS = 3
"""Smallest number of calls of compiled graphs in a profile."""

STALL = 10.0
"""A gap counts up to so many times the median of the listed ones: a single stall, such as another
process on the same processor, is not what each call takes.
"""

LAUNCH_S = 10e-6
"""Seconds from a launch to the begin of its kernel that count as the launch's. A profiler that
writes its buffers makes it longer.
"""

MOST_DOINGS = 4


def find_waiting_gpu(reader: SessionReader) -> Iterator[Finding]:
    """Yield that the GPU waits for calls of compiled code during most of a profile, or for
    something else that the program does.
    """
    figures = profile_figures(reader)
    if figures is None or not figures.profile.is_of_gpu or not figures.gaps:
        return
    profile = figures.profile
    if profile.graph_calls < LEAST_CALLS or _compiling_s(figures.gaps) > STEADY * profile.span_s:
        return
    calling = _calling(reader, figures)
    # The shortest gaps are not listed one by one. They lie between kernels that follow each other.
    short_s = figures.idle_s - sum(gap.seconds for gap in figures.gaps)
    waits_s = max(0.0, short_s) + sum(calling.values())
    of_s = profile.span_s - _stalls_s(figures)
    is_compiled = profile.compiled_s >= MOSTLY_COMPILED * profile.work_s
    if is_compiled and waits_s >= MOSTLY * of_s:
        yield _waiting(reader, figures, calling, careful_share(waits_s, of_s))
    else:
        yield from _idle_for_something_else(reader, figures)


def _idle_for_something_else(reader: SessionReader, figures: ProfileFigures) -> Iterator[Finding]:
    """Yield a finding if the GPU is idle most of the time, repeatedly, while the program does not
    call compiled code.
    """
    names = {key_of_call(kernel.name) for kernel in reader.rows(model.Kernel)}
    longest, *others = sorted(figures.gaps, key=lambda gap: -gap.seconds)
    sums: dict[str, float] = {}
    for gap in others:
        for what, took_s in zip(gap.doing, gap.doing_s, strict=False):
            if what != LATENCY and not _is_of_call(what, names):
                sums[what] = sums.get(what, 0.0) + took_s
    span_s = figures.profile.span_s - longest.seconds
    idle_s = figures.idle_s - longest.seconds
    listed_s = sum(gap.seconds for gap in others)
    if idle_s < MOSTLY * span_s or sum(sums.values()) < MOSTLY * listed_s:
        return
    longest_first = sorted(sums.items(), key=lambda item: -item[1])
    doing = listed([f"{what} {run_time(took)}" for what, took in longest_first], limit=MOST_DOINGS)
    yield Finding(
        kind="idle GPU",
        text=(
            f"The GPU is idle {careful_share(figures.idle_s, figures.profile.span_s)} of the "
            "time, while the program does something other than calling compiled code."
        ),
        urgency="slow",
        severity="notice",
        topic="profile",
        view="profile",
        evidence=(f"During the longest gaps, the program: {doing}.",),
        explanation="Compiling more, or with other settings, does not shorten this time.",
        remedies=tuple(_against([what for what, _ in longest_first[:MOST_DOINGS]])),
        cost=f"{run_time(figures.idle_s)} in the profile",
        cost_s=figures.idle_s,
    )


def _against(doings: Sequence[str]) -> Iterator[Remedy]:
    """Yield what to do about what the program does most while the GPU is idle."""
    if "DataLoader" in doings[0]:
        yield Remedy(
            "Have other processes prepare the batches: DataLoader(…, num_workers=4, "
            "pin_memory=True), and batch.to(device, non_blocking=True)."
        )
    elif any(what.startswith("optimizer ") for what in doings):
        yield Remedy("Give the optimizer fused=True, or compile its step.")
    else:
        yield Remedy("Find the functions that run there with a Python profiler.")


def _longest_s(figures: ProfileFigures) -> float:
    """Return the seconds of a gap that are counted at most."""
    return STALL * median(gap.seconds for gap in figures.gaps)


def _stalls_s(figures: ProfileFigures) -> float:
    """Return the seconds of gaps beyond what is counted of each."""
    longest_s = _longest_s(figures)
    return sum(max(0.0, gap.seconds - longest_s) for gap in figures.gaps)


def _compiling_s(gaps: Iterable[model.ProfileGap]) -> float:
    """Return the seconds of gaps in which torch compiles."""
    took_s = 0.0
    for gap in gaps:
        for what, seconds in zip(gap.doing, gap.doing_s, strict=False):
            took_s += seconds if what.startswith(COMPILES) else 0.0
    return took_s


def _calling(reader: SessionReader, figures: ProfileFigures) -> dict[str, float]:
    """Return what the program did to call compiled code and to start its kernels while the GPU was
    idle before one of them → seconds.
    """
    kernels = reader.rows(model.Kernel)
    names = {key_of_call(kernel.name) for kernel in kernels}
    longest_s = _longest_s(figures)
    sums: dict[str, float] = {}
    for gap in figures.gaps:
        if not gap.after_kernel:
            continue
        part = min(1.0, longest_s / gap.seconds)
        for what, took in zip(gap.doing, gap.doing_s, strict=False):
            counted_s = part * took
            if what == LATENCY:
                counted_s = min(counted_s, LAUNCH_S)
            elif not _is_of_call(what, names):
                continue
            sums[what] = sums.get(what, 0.0) + counted_s
    return sums


def _is_of_call(what: str, names: Container[str]) -> bool:
    """Return whether something done in a gap belongs to a call of compiled code, whose kernels have
    these names.
    """
    if what in (GUARDS, BETWEEN_KERNELS, AROUND_GRAPH) or what.startswith(IN_FUNCTION):
        return True
    return key_of_event(what) in names


def _waiting(
    reader: SessionReader, figures: ProfileFigures, calling: dict[str, float], share: str
) -> Finding:
    profile = figures.profile
    longest = sorted(calling.items(), key=lambda item: -item[1])
    doing = listed([f"{what} {run_time(took)}" for what, took in longest], limit=MOST_DOINGS)
    runs = sum(share.time.runs for share in figures.kernels)
    each = f" of {run_time(profile.joined_s / runs)} each" if runs else ""
    remedies = []
    if not cuda_graphs(reader).asked:
        remedies.append(
            Remedy(
                'Use torch.compile(…, mode="reduce-overhead"): CUDA graphs start all kernels of a '
                "graph at once. It takes more memory, and the next call overwrites a result. "
                "fx-explorer ledger TARGET --try measures it."
            )
        )
    remedies.append(Remedy("Give each call more to do: a larger batch, or several steps in one."))
    return Finding(
        kind="waiting GPU",
        text=(
            f"The GPU waits {share} of the time for the program to call compiled code and start "
            "its kernels."
        ),
        urgency="slow",
        topic="profile",
        view="profile",
        evidence=(
            f"It computes for {run_time(profile.busy_s)} of {run_time(profile.span_s)}: "
            f"{counted(runs, 'run')} of kernels{each}.",
            f"During the longest gaps, the program: {doing}.",
        ),
        explanation=(
            "Each call checks guards and runs Python around the graph, and each kernel is "
            "launched separately. If kernels are short, this takes longer than the kernels. A "
            "profiler slows the program, not the GPU: without it the GPU waits less."
        ),
        remedies=tuple(remedies),
        cost=f"{run_time(profile.span_s - profile.busy_s)} in the profile",
        cost_s=profile.span_s - profile.busy_s,
    )
