"""This module states a profile in sentences: where the GPU's time goes, what is most expensive, and
what the GPU waits for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from fx_explorer import model
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import careful_share, counted, listed, short_kernel_name
from fx_explorer.instruments.profile.event_names import KIND_WORDS
from fx_explorer.instruments.profile.figures import ProfileFigures, module_name
from fx_explorer.session.file_names import in_file

NO_PROFILE = (
    "No profile was read. torch.profiler writes one with export_chrome_trace(FILE), and "
    "fx-explorer SESSION --profile FILE shows it with this session."
)

MOST_KINDS = 4

MOST_OTHERS = 3
"""Kernels and operators that are named of a profile alone."""

ALONE = (
    "It is shown alone. Together with a session or a TORCH_TRACE log of the program, times are "
    "also shown by operation, module and line: fx-explorer profile SESSION {file}"
)

MOSTLY = 0.9
"""Smallest share of joined time in compiled graphs. If it is less, the overview says why."""


def verdict(figures: ProfileFigures) -> list[str]:
    """Return the sentences, the most telling first."""
    return [*_where(figures), *_most_expensive(figures), *_idle(figures), *_doubts(figures)]


def in_short(figures: ProfileFigures) -> list[str]:
    """Return the sentences for the overview: where the time goes, what is most expensive, and for
    how long the GPU is idle; if little was joined, why.
    """
    is_joined = figures.profile.joined_s >= MOSTLY * figures.profile.compiled_s > 0
    doubts = [] if is_joined else [*figures.profile.notes, *_how_to_join(figures)]
    return [
        *islice(_where(figures), 1),
        *_most_expensive(figures),
        *islice(_idle(figures), 1),
        *doubts,
    ]


def _where(figures: ProfileFigures) -> Iterator[str]:
    profile = figures.profile
    if profile.is_of_gpu:
        what = "The GPU computes"
    else:
        what = "Operators in compiled graphs run"
    text = f"{what} for {run_time(profile.work_s)} in {profile.file}"
    if not profile.is_of_gpu:
        if figures.is_alone:
            yield f"{text}."
        else:
            yield (
                f"{text}; {_part(profile.joined_s, profile.work_s)} of it are assigned to a call "
                "of generated code."
            )
        return
    others = {kind: took for kind, took in figures.by_kind.items() if kind != "unjoined"}
    elsewhere = [
        f"{KIND_WORDS[kind]} {_part(took, profile.work_s)}" for kind, took in others.items()
    ]
    rest = f"; {listed(elsewhere, limit=MOST_KINDS)}" if elsewhere else ""
    yield f"{text}: {_part(profile.compiled_s, profile.work_s)} in compiled graphs{rest}."
    if profile.compiled_s > 0 and not figures.is_alone:
        yield (
            f"Of the time in compiled graphs, {_exact(profile.joined_s, profile.compiled_s)} is "
            f"assigned to a kernel, {_exact(figures.at_node_s, profile.compiled_s)} to an "
            f"operation, {_exact(figures.at_line_s, profile.compiled_s)} to a line of yours."
        )


def _most_expensive(figures: ProfileFigures) -> Iterator[str]:
    whole = figures.profile.work_s
    parts = []
    if figures.lines:
        line = figures.lines[0]
        parts.append(f"your line {in_file(*line.line)} ({_part(line.seconds, whole)})")
    modules = sorted(
        (row for row in figures.modules if row.own.time_s > 0 and not row.is_fold),
        key=lambda row: -row.own.time_s,
    )
    if modules:
        parts.append(f"module {module_name(modules[0])} ({_part(modules[0].own.time_s, whole)})")
    if figures.kernels:
        kernel = figures.kernels[0]
        name = kernel.cost.use.kernel.name
        parts.append(
            f"kernel {name} ({_part(kernel.time.seconds, whole)}, "
            f"{counted(kernel.time.runs, 'run')})"
        )
    if figures.is_alone:
        for other in figures.others[:MOST_OTHERS]:
            runs = counted(other.runs, "run")
            parts.append(f"{kernel_name(other.name)} ({_part(other.seconds, whole)}, {runs})")
    if parts:
        yield f"Most expensive: {', '.join(parts)}."


def _idle(figures: ProfileFigures) -> Iterator[str]:
    profile = figures.profile
    if not profile.span_s or not figures.gaps:
        return
    yield (
        f"The GPU is idle for {run_time(figures.idle_s)} of the {run_time(profile.span_s)} "
        f"between its first and its last work ({_part(figures.idle_s, profile.span_s)}), in "
        f"{counted(profile.gaps, 'gap')}."
    )
    gap = figures.gaps[0]
    doing = f"; meanwhile: {describe_doing(gap)}" if gap.doing else ""
    yield f"It waits longest {between(gap)}: {run_time(gap.seconds)}{doing}."


def _how_to_join(figures: ProfileFigures) -> Iterator[str]:
    if figures.is_alone:
        yield ALONE.format(file=figures.profile.file)


def _doubts(figures: ProfileFigures) -> Iterator[str]:
    profile = figures.profile
    yield from _how_to_join(figures)
    if profile.shared_s > 0:
        yield (
            f"{run_time(profile.shared_s)} are divided equally among calls of the same name, "
            "because their order does not distinguish them (~)."
        )
    yield from profile.notes
    if profile.problem:
        yield f"The profile is incomplete: {profile.problem}. Only the part before that is shown."
    if profile.skipped:
        yield (
            f"{counted(profile.skipped, 'event')} of {profile.events:,} could not be read, "
            "and was left out."
        )
    if figures.profiles > 1:
        yield f"The session has {figures.profiles} profiles; this is the last one that was read."


def between(gap: model.ProfileGap) -> str:
    """Return the names of the work on both sides of a gap, as a phrase."""
    return f"between {kernel_name(gap.before)} and {kernel_name(gap.after)}"


def kernel_name(name: str) -> str:
    """Return a kernel's name without its types."""
    return short_kernel_name(name.replace("(anonymous namespace)::", ""))


def describe_doing(gap: model.ProfileGap, limit: int = 3) -> str:
    """Describe the activities of the program in a gap, the longest first."""
    return listed(
        [f"{what} {run_time(took)}" for what, took in zip(gap.doing, gap.doing_s, strict=False)],
        limit=limit,
    )


def _part(part: float, whole: float) -> str:
    return careful_share(part, whole)


def _exact(part: float, whole: float) -> str:
    """Return a percentage that is 100 only if nothing is missing."""
    percent = 100 * part / whole if whole else 0.0
    if part >= whole * (1 - 1e-9):
        return "100 %"
    return f"{min(percent, 99.9):.1f} %"
