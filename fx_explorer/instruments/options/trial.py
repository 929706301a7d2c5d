"""This module captures the program again with other options, and compares the figures and the
generated code.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from fx_explorer import model
from fx_explorer.analysis.measured_times import (
    ComparedFigure,
    Wanted,
    count_figure,
    one_timing_figure,
)
from fx_explorer.analysis.whole_session import SessionFigures, session_figures
from fx_explorer.analysis.words import counted
from fx_explorer.model import CaptureRequest, Outcome
from fx_explorer.model.setting_values import python_text
from fx_explorer.session import SessionReader
from fx_explorer.trials import (
    HERE,
    Told,
    TrialWorker,
    describe_timeout,
    ignore_message,
    keep_session,
    recapture,
    straight_through,
    to_its_end,
)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The capture that trials are compared with."""

    figures: SessionFigures
    session: Path


@dataclass(frozen=True, slots=True)
class ComparedCode:
    """The generated kernels of the trial beside those of before."""

    before: Path
    after: Path
    """The sessions of both, for a look at what differs."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many pairs of kernels differ in which way, by ``Difference`` of diff/kernel_pairs.py."""

    @property
    def differs(self) -> bool:
        """Return whether any kernel's code differs, if only in its sizes."""
        return any(self.counts.get(kind, 0) for kind in _CODE_WORDS)

    @property
    def words(self) -> str:
        """Return ``the code differs in 3 kernels, 1 only now``, or that it is the same."""
        parts = []
        for kind, text in _CODE_WORDS.items():
            count = self.counts.get(kind, 0)
            if count:
                parts.append(text.format(kernels=counted(count, "kernel"), count=count))
        if parts:
            return ", ".join(parts)
        total = sum(self.counts.values())
        if not total:
            return "no kernel was generated on either side"
        return f"the code is the same in {counted(total, 'kernel')}"


_CODE_WORDS = {
    "code": "the code differs in {kernels}",
    "sizes": "only sizes differ in {kernels}",
    "only left": "{kernels} only before",
    "only right": "{kernels} only with the change",
}


CountPairs = Callable[[SessionReader, SessionReader], Mapping[Any, int]]
"""A function that pairs the kernels of two sessions and counts how they differ: ``count_pairs`` of
diff/kernel_pairs.py, which uses this package.
"""


@dataclass(frozen=True, slots=True)
class OptionTrial:
    settings: Mapping[str, object]
    """The values that were tried, by full name of the option."""
    outcome: Outcome
    before: SessionFigures
    after: SessionFigures
    took_s: float
    code: ComparedCode | None = None
    """The generated code of both; None where it was not compared."""

    @property
    def baseline(self) -> Baseline | None:
        """Return the capture that this trial was compared with, for the next one."""
        return Baseline(self.before, self.code.before) if self.code else None


async def try_options(
    request: CaptureRequest,
    settings: Mapping[str, object],
    baseline: Baseline | None,
    folder: Path,
    count_pairs: CountPairs,
    worker: TrialWorker = HERE,
    tell: Told = ignore_message,
) -> OptionTrial:
    """Capture the program with other options. ``request`` is the request of the earlier capture,
    ``baseline`` what is known of it; None: the program is captured without the change, too. The
    sessions of trials are kept in ``folder``, and ``count_pairs`` compares their kernels. ``tell``
    is called with each step of the worker. Raises SessionWriteError when there is no room for a
    session. Errors of the program are not raised.
    """
    took_s = 0.0
    if baseline is None:
        look = partial(_read_baseline, folder)
        before = partial(to_its_end, tell=lambda step: tell(f"unchanged · {step}"))
        as_it_was = await recapture(changed_request(request, {}), worker, look, attend=before)
        baseline, took_s = as_it_was.found, as_it_was.took_s
    look_at_changed = partial(_compare_with, baseline, folder, count_pairs)
    attend = partial(to_its_end, tell=tell)
    changed = await recapture(
        changed_request(request, settings), worker, look_at_changed, attend=attend
    )
    after, code = changed.found
    took_s += changed.took_s
    return OptionTrial(settings, changed.outcome, baseline.figures, after, took_s, code)


def _read_baseline(folder: Path, reader: SessionReader) -> Baseline:
    return Baseline(session_figures(reader), _keep(reader, folder))


def _compare_with(
    baseline: Baseline, folder: Path, count_pairs: CountPairs, reader: SessionReader
) -> tuple[SessionFigures, ComparedCode]:
    """Return the figures of the trial's session, and its code beside that of the baseline."""
    with SessionReader(baseline.session) as before:
        counts = count_pairs(before, reader)
    code = ComparedCode(baseline.session, _keep(reader, folder), counts)
    return session_figures(reader), code


def _keep(reader: SessionReader, folder: Path) -> Path:
    return keep_session(reader, Path(tempfile.mkdtemp(dir=folder)) / "trial.fxs")


def changed_request(request: CaptureRequest, settings: Mapping[str, object]) -> CaptureRequest:
    """Return the request with these settings in place of earlier ones."""
    return straight_through(request, settings={**request.settings, **settings})


def baseline_of(reader: SessionReader) -> Baseline | None:
    """Return the session as a baseline; None where trials cannot be compared with it, because the
    capture has not ended or the user changed something during it.
    """
    is_whole = reader.meta("outcome") is not None and not reader.count(model.Intervention)
    has_variants = any(variant.variant_of for variant in reader.rows(model.Compilation))
    if is_whole and not has_variants:
        return Baseline(session_figures(reader), reader.path)
    return None


# in words

_WORDS = {
    "graphs": "graphs",
    "graph_breaks": "places with a graph break",
    "graph_break_hits": "graph breaks, each hit",
    "eager_functions": "functions in eager mode",
    "recompiles": "recompiles",
    "guards": "guards",
    "free_sizes": "dynamic sizes",
    "operations": "operations captured",
    "kernels": "kernels",
}

_WANTED: dict[str, Wanted] = dict.fromkeys(
    ("graph_breaks", "graph_break_hits", "eager_functions", "recompiles"), "less"
)
"""Figures that are better when lower, for every program."""


def compared(before: SessionFigures, after: SessionFigures) -> list[ComparedFigure]:
    figures = []
    for name, words in _WORDS.items():
        counts = getattr(before, name), getattr(after, name)
        figures.append(count_figure(words, *counts, wanted=_WANTED.get(name, "")))
    figures.append(one_timing_figure("compiling took", before.compile_s, after.compile_s))
    return figures


def figures_of(trial: OptionTrial) -> list[ComparedFigure]:
    """Return the figures before and after. For a program that did not run to its end, none is
    called better: it may not have reached further breaks.
    """
    figures = compared(trial.before, trial.after)
    if trial.outcome.kind in ("finished", "exited"):
        return figures
    return [_without_verdict(figure) for figure in figures]


def _without_verdict(figure: ComparedFigure) -> ComparedFigure:
    return replace(figure, verdict="other") if figure.differs else figure


def describe_ended(after: Outcome, before: Outcome | None) -> str:
    """Describe how the program ended: ``raised: ValueError: no (as before)``. ``before`` is its
    earlier end, None when that is not known.
    """
    if before and (before.kind, before.message) == (after.kind, after.message):
        again = " (as before)"
    else:
        again = ""
    if after.kind == "timed_out":
        return describe_timeout(after) + again
    return f"{after.kind.replace('_', ' ')}: {after.message}".removesuffix(": ") + again


def describe_settings(settings: Mapping[str, object]) -> str:
    """Return settings as text: ``compile.mode = "max-autotune", dynamo.recompile_limit = 2``."""
    return ", ".join(f"{name} = {python_text(value)}" for name, value in settings.items())
